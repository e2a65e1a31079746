package headrace;

import headrace.v1.GenerateRequest;
import headrace.v1.GenerateResponse;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicBoolean;

/** The command line: sends a prompt as a chat and prints the answer as it comes. */
public final class Main {
  private Main() {}

  /** Ends the program with 0, or 1 after an error, 2 for wrong arguments, 130 after Ctrl-C. */
  public static void main(String[] arguments) {
    CommandLine commandLine;
    HeadraceClient client;
    try {
      if (List.of(arguments).contains("--help")) {
        System.out.println(CommandLine.USAGE);
        return;
      }
      commandLine = CommandLine.parse(List.of(arguments), System.getenv());
      client = commandLine.client();
    } catch (IllegalArgumentException wrong) {
      System.err.println(CommandLine.USAGE + "\nerror: " + wrong.getMessage());
      System.exit(2);
      return;
    }
    System.exit(answer(client, commandLine));
  }

  private static int answer(HeadraceClient client, CommandLine commandLine) {
    AtomicBoolean ended = new AtomicBoolean();
    // Java runs this on Ctrl-C: the server is told before the process is gone.
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  ended.set(true);
                  client.close();
                }));
    // Not System.out, whose encoding is that of the terminal.
    PrintStream out =
        new PrintStream(
            new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    try (GenerationStream stream = client.generate(requestOf(commandLine))) {
      for (GenerateResponse response : stream) {
        out.print(GenerationStream.textOf(response));
        if (out.checkError()) { // it flushes first
          return 1; // nobody reads any more, as behind head
        }
      }
      out.println();
      return 0;
    } catch (HeadraceException failure) {
      if (!ended.get()) {
        System.err.println(describe(failure));
      }
      return 1; // without effect where the program is already ending with 130
    }
  }

  private static GenerateRequest requestOf(CommandLine commandLine) {
    GenerateRequest.Builder request =
        GenerateRequest.newBuilder().setChat(HeadraceClient.userMessage(commandLine.prompt()));
    if (commandLine.maxTokens() != null) {
      request.getStoppingBuilder().setMaxOutputTokens(commandLine.maxTokens());
    }
    return request.build();
  }

  /** Returns the line that tells an error: {@code error: OVERLOADED: …; retry in 1.0 s}. */
  static String describe(HeadraceException failure) {
    String line =
        "error: " + failure.reason().orElse(failure.code().name()) + ": " + failure.getMessage();
    return failure
        .retryDelay()
        .map(delay -> delay.toMillis() / 1e3)
        .map(seconds -> line + String.format(Locale.ROOT, "; retry in %.1f s", seconds))
        .orElse(line);
  }
}
