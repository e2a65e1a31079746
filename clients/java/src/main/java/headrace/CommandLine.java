package headrace;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Iterator;
import java.util.List;
import java.util.Map;

/** What the command line asks for. */
record CommandLine(
    String target,
    boolean tls,
    Path caCertificates,
    Path certificate,
    Path privateKey,
    String apiKey,
    Integer maxTokens,
    Duration timeout,
    String prompt) {

  static final String USAGE =
      "usage: headrace [--target HOST:PORT] [--tls] [--ca-certs FILE] [--certfile FILE"
          + " --keyfile FILE]\n"
          + "                [--api-key KEY] [--max-tokens N] [--timeout SECONDS] PROMPT";

  /**
   * Reads the arguments.
   *
   * @throws IllegalArgumentException they cannot be understood; the message says why.
   */
  static CommandLine parse(List<String> arguments, Map<String, String> environment) {
    String target = "localhost:1920";
    boolean tls = false;
    Path caCertificates = null;
    Path certificate = null;
    Path privateKey = null;
    String apiKey = emptyToNull(environment.get("HEADRACE_API_KEY"));
    Integer maxTokens = null;
    Duration timeout = null;
    String prompt = null;
    boolean optionsEnded = false;
    for (Iterator<String> rest = arguments.iterator(); rest.hasNext(); ) {
      String argument = rest.next();
      if (optionsEnded || !argument.startsWith("--")) {
        if (prompt != null) {
          throw new IllegalArgumentException("give one PROMPT; quote it if it has spaces");
        }
        prompt = argument;
        continue;
      }
      switch (argument) {
        case "--" -> optionsEnded = true;
        case "--tls" -> tls = true;
        case "--target" -> target = value(argument, rest);
        case "--ca-certs" -> caCertificates = Path.of(value(argument, rest));
        case "--certfile" -> certificate = Path.of(value(argument, rest));
        case "--keyfile" -> privateKey = Path.of(value(argument, rest));
        case "--api-key" -> apiKey = value(argument, rest);
        case "--max-tokens" -> maxTokens = wholeNumber(argument, value(argument, rest));
        case "--timeout" -> timeout = seconds(argument, value(argument, rest));
        default -> throw new IllegalArgumentException("unknown option " + argument);
      }
    }
    if ((certificate == null) != (privateKey == null)) {
      throw new IllegalArgumentException("give --certfile and --keyfile together");
    }
    if (prompt == null) {
      throw new IllegalArgumentException("give a PROMPT");
    }
    return new CommandLine(
        target, tls, caCertificates, certificate, privateKey, apiKey, maxTokens, timeout, prompt);
  }

  /** Returns a client as the options say. */
  HeadraceClient client() {
    HeadraceClientBuilder builder =
        HeadraceClient.builder(target).apiKey(apiKey).timeout(timeout);
    if (tls) {
      builder.tls();
    }
    if (caCertificates != null) {
      builder.caCertificates(caCertificates);
    }
    if (certificate != null) {
      builder.clientCertificate(certificate, privateKey);
    }
    return builder.build();
  }

  /** Shows neither the key nor the prompt. */
  @Override
  public String toString() {
    return "CommandLine[target=" + target + "]";
  }

  private static String value(String option, Iterator<String> rest) {
    if (!rest.hasNext()) {
      throw new IllegalArgumentException(option + " needs a value");
    }
    return rest.next();
  }

  private static int wholeNumber(String option, String text) {
    try {
      return Integer.parseInt(text);
    } catch (NumberFormatException malformed) {
      throw new IllegalArgumentException(option + " must be a whole number, not " + text);
    }
  }

  private static Duration seconds(String option, String text) {
    try {
      double seconds = Double.parseDouble(text);
      if (seconds > 0 && seconds < 1e9) {
        return Duration.ofNanos((long) (seconds * 1e9));
      }
    } catch (NumberFormatException malformed) {
      // Told below, as what is out of range is.
    }
    throw new IllegalArgumentException(
        option + " must be a number of seconds above 0, not " + text);
  }

  private static String emptyToNull(String text) {
    return text == null || text.isEmpty() ? null : text;
  }
}
