package headrace.interop;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.gson.JsonPrimitive;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import headrace.HeadraceException;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/** One call of a scenario, and what was seen of it. */
final class Call extends ClientCall.Listener<Message> {
  private final Scenario scenario;
  private final ClientCall<Message, Message> call;
  private final long start = System.nanoTime();
  private final CompletableFuture<JsonObject> result = new CompletableFuture<>();
  private final JsonArray responses = new JsonArray();
  private Metadata headers = new Metadata();

  private Call(Channel channel, Scenario scenario) {
    this.scenario = scenario;
    this.call = channel.newCall(scenario.method().descriptor(), scenario.options());
  }

  /** Makes the call; the result is one of the "calls" of the output. */
  static CompletableFuture<JsonObject> start(
      Channel channel, Scenario scenario, Message request) {
    Call listener = new Call(channel, scenario);
    Metadata metadata = new Metadata();
    metadata.merge(scenario.metadata()); // gRPC adds its own to what it is given
    listener.call.start(listener, metadata);
    listener.call.sendMessage(request);
    listener.call.halfClose();
    listener.call.request(1);
    return listener.result;
  }

  @Override
  public void onHeaders(Metadata received) {
    headers = received;
    if (scenario.cancel().equals("after_headers")) {
      call.cancel("the scenario says so", null);
    }
  }

  @Override
  public void onMessage(Message response) {
    try {
      responses.add(JsonParser.parseString(JsonFormat.printer().print(response)));
    } catch (InvalidProtocolBufferException impossible) { // only an unknown Any has no JSON
      throw new IllegalStateException(impossible);
    }
    if (scenario.cancel().equals("after_first_message")) {
      call.cancel("the scenario says so", null);
    } else if (scenario.readPauseMillis() > 0) {
      Executor later =
          CompletableFuture.delayedExecutor(scenario.readPauseMillis(), TimeUnit.MILLISECONDS);
      later.execute(() -> call.request(1));
    } else {
      call.request(1);
    }
  }

  @Override
  public void onClose(Status status, Metadata trailers) {
    HeadraceException failure = HeadraceException.of(status.asRuntimeException(trailers));
    JsonObject seen = new JsonObject();
    seen.addProperty("code", status.getCode().name());
    seen.addProperty("message", status.getDescription() == null ? "" : status.getDescription());
    seen.addProperty("reason", failure.reason().orElse(null));
    seen.addProperty("field", failure.field().orElse(null));
    seen.add("retry_delay_ms", failure.retryDelay().map(Call::millis).orElse(JsonNull.INSTANCE));
    seen.add("headers", texts(headers));
    seen.add("trailers", texts(trailers));
    seen.add("responses", responses);
    seen.addProperty("elapsed_ms", (System.nanoTime() - start) / 1e6);
    result.complete(seen);
  }

  private static JsonElement millis(Duration delay) {
    return new JsonPrimitive(delay.toMillis());
  }

  private static JsonObject texts(Metadata metadata) {
    JsonObject texts = new JsonObject();
    for (String name : metadata.keys()) {
      if (!name.endsWith(Metadata.BINARY_HEADER_SUFFIX)) {
        texts.addProperty(name, String.join(", ", metadata.getAll(Scenario.key(name))));
      }
    }
    return texts;
  }
}
