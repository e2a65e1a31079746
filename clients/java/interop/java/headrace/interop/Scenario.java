package headrace.interop;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import io.grpc.CallOptions;
import io.grpc.Metadata;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** One line of the input: which calls to make, and how. */
record Scenario(
    String id,
    Method method,
    List<Message> requests,
    Metadata metadata,
    CallOptions options,
    String cancel,
    long readPauseMillis) {

  static Scenario of(JsonObject line, String defaultKey) throws InvalidProtocolBufferException {
    Method method = Method.of(line.get("method").getAsString());
    return new Scenario(
        line.get("id").getAsString(),
        method,
        requestsOf(line, method.emptyRequest()),
        metadataOf(line, defaultKey),
        optionsOf(line),
        line.has("cancel") ? line.get("cancel").getAsString() : "",
        line.has("read_pause_ms") ? line.get("read_pause_ms").getAsLong() : 0);
  }

  /** Returns one request for each call: those that are listed, or so many of the same. */
  private static List<Message> requestsOf(JsonObject line, Message empty)
      throws InvalidProtocolBufferException {
    if (!line.has("requests")) {
      int count = line.has("count") ? line.get("count").getAsInt() : 1;
      JsonElement json = line.has("request") ? line.get("request") : new JsonObject();
      return Collections.nCopies(count, parse(json, empty));
    }
    List<Message> requests = new ArrayList<>();
    for (JsonElement json : line.getAsJsonArray("requests")) {
      requests.add(parse(json, empty));
    }
    return requests;
  }

  private static Message parse(JsonElement json, Message empty)
      throws InvalidProtocolBufferException {
    Message.Builder request = empty.newBuilderForType();
    JsonFormat.parser().merge(json.toString(), request);
    return request.build();
  }

  private static Metadata metadataOf(JsonObject line, String defaultKey) {
    Metadata metadata = new Metadata();
    if (line.has("metadata")) {
      line.getAsJsonObject("metadata")
          .entrySet()
          .forEach(entry -> metadata.put(key(entry.getKey()), entry.getValue().getAsString()));
    }
    String apiKey = defaultKey;
    if (line.has("api_key")) {
      apiKey = line.get("api_key").isJsonNull() ? null : line.get("api_key").getAsString();
    }
    if (apiKey != null) {
      metadata.put(key("authorization"), "Bearer " + apiKey);
    }
    return metadata;
  }

  /** The deadline counts from here, so make the options when the calls begin. */
  private static CallOptions optionsOf(JsonObject line) {
    CallOptions options = CallOptions.DEFAULT;
    if (line.has("timeout_ms")) {
      long millis = line.get("timeout_ms").getAsLong();
      options = options.withDeadlineAfter(millis, TimeUnit.MILLISECONDS);
    }
    if (line.has("compression")) {
      options = options.withCompression(line.get("compression").getAsString());
    }
    return options;
  }

  static Metadata.Key<String> key(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }
}
