package headrace.interop;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import headrace.HeadraceClient;
import headrace.HeadraceClientBuilder;
import io.grpc.Channel;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/** Makes the calls of tests/interop: one scenario per line on stdin, what was seen on stdout. */
public final class Runner {
  private static final Gson GSON =
      new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

  private Runner() {}

  /** Runs to the end of stdin. */
  public static void main(String[] arguments) throws IOException {
    Map<String, String> flags = new HashMap<>();
    for (int i = 0; i + 1 < arguments.length; i += 2) {
      flags.put(arguments[i], arguments[i + 1]);
    }
    PrintStream out =
        new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    try (HeadraceClient client = client(flags)) {
      for (String line = in.readLine(); line != null; line = in.readLine()) {
        JsonObject input = JsonParser.parseString(line).getAsJsonObject();
        out.println(GSON.toJson(run(client.channel(), input, flags.get("--api-key"))));
      }
    }
  }

  private static JsonObject run(Channel channel, JsonObject input, String apiKey) {
    JsonObject output = new JsonObject();
    output.add("id", input.get("id"));
    try {
      Scenario scenario = Scenario.of(input, apiKey);
      List<CompletableFuture<JsonObject>> calls =
          scenario.requests().stream()
              .map(request -> Call.start(channel, scenario, request))
              .toList();
      JsonArray results = new JsonArray();
      calls.forEach(call -> results.add(call.join()));
      output.add("calls", results);
    } catch (IllegalArgumentException | InvalidProtocolBufferException unknown) {
      output.addProperty("unsupported", unknown.getMessage());
    }
    return output;
  }

  /** The key is not the client's: a scenario may replace it. */
  private static HeadraceClient client(Map<String, String> flags) {
    HeadraceClientBuilder builder = HeadraceClient.builder(flags.get("--target")).maxAttempts(1);
    if (flags.containsKey("--ca-certs")) {
      builder.caCertificates(Path.of(flags.get("--ca-certs")));
    }
    if (flags.containsKey("--certfile")) {
      builder.clientCertificate(
          Path.of(flags.get("--certfile")), Path.of(flags.get("--keyfile")));
    }
    return builder.build();
  }
}
