package headrace;

import headrace.v1.Chat;
import headrace.v1.ChatMessage;
import headrace.v1.DetokenizeRequest;
import headrace.v1.DetokenizeResponse;
import headrace.v1.GenerateRequest;
import headrace.v1.GetModelRequest;
import headrace.v1.InferenceServiceGrpc;
import headrace.v1.ListModelsRequest;
import headrace.v1.ListModelsResponse;
import headrace.v1.Model;
import headrace.v1.ModelServiceGrpc;
import headrace.v1.Role;
import headrace.v1.TokenizeRequest;
import headrace.v1.TokenizeResponse;
import io.grpc.Channel;
import io.grpc.ManagedChannel;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.AbstractStub;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

/**
 * A connection to a Headrace server; threads may share it.
 *
 * <pre>{@code
 * try (HeadraceClient client = HeadraceClient.connect("localhost:1920");
 *     GenerationStream stream = client.generate(request)) {
 *   for (GenerateResponse response : stream) { … }
 * }
 * }</pre>
 *
 * <p>Every call throws {@link HeadraceException}. Calls that the server refused without effect are
 * made again, after the time that it asks for: until an answer begins, never after.
 */
public final class HeadraceClient implements AutoCloseable {
  private final ManagedChannel connection;
  private final Channel channel;
  private final Duration timeout;

  HeadraceClient(ManagedChannel connection, Channel channel, Duration timeout) {
    this.connection = connection;
    this.channel = channel;
    this.timeout = timeout;
  }

  /** Connects to {@code host:port}, without TLS and without a key. */
  public static HeadraceClient connect(String target) {
    return builder(target).build();
  }

  /** Begins a client for {@code host:port}, or another name of gRPC, that has options. */
  public static HeadraceClientBuilder builder(String target) {
    return new HeadraceClientBuilder(target);
  }

  /** Returns a chat of one message of the user. */
  public static Chat userMessage(String content) {
    ChatMessage message =
        ChatMessage.newBuilder().setRole(Role.ROLE_USER).setContent(content).build();
    return Chat.newBuilder().addMessages(message).build();
  }

  /** Continues a prompt or answers a chat. Close the stream: that stops the work at once. */
  public GenerationStream generate(GenerateRequest request) {
    return new GenerationStream(
        () -> limited(InferenceServiceGrpc.newBlockingStub(channel)).generate(request));
  }

  /** Turns a prompt into token ids. */
  public TokenizeResponse tokenize(TokenizeRequest request) {
    return call(limited(InferenceServiceGrpc.newBlockingStub(channel))::tokenize, request);
  }

  /** Turns token ids into text. */
  public DetokenizeResponse detokenize(DetokenizeRequest request) {
    return call(limited(InferenceServiceGrpc.newBlockingStub(channel))::detokenize, request);
  }

  /** Gets a model by its name or an alias; the empty name gets the served one. */
  public Model getModel(String name) {
    GetModelRequest request = GetModelRequest.newBuilder().setName(name).build();
    return call(limited(ModelServiceGrpc.newBlockingStub(channel))::getModel, request).getModel();
  }

  /** Lists the served models. */
  public List<Model> listModels() {
    List<Model> models = new ArrayList<>();
    String page = "";
    do {
      ListModelsRequest request = ListModelsRequest.newBuilder().setPageToken(page).build();
      ListModelsResponse response =
          call(limited(ModelServiceGrpc.newBlockingStub(channel))::listModels, request);
      models.addAll(response.getModelsList());
      page = response.getNextPageToken();
    } while (!page.isEmpty());
    return models;
  }

  /** Returns the channel, with the key on every call, for stubs such as that of health checks. */
  public Channel channel() {
    return channel;
  }

  /** Cancels what is running and closes the connection. It waits a second at most. */
  @Override
  public void close() {
    connection.shutdownNow();
    try {
      // So that the server learns of cancelled calls before a program ends.
      connection.awaitTermination(1, TimeUnit.SECONDS);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  private <S extends AbstractStub<S>> S limited(S stub) {
    return timeout == null
        ? stub
        : stub.withDeadlineAfter(timeout.toNanos(), TimeUnit.NANOSECONDS);
  }

  private static <Q, R> R call(Function<Q, R> method, Q request) {
    try {
      return method.apply(request);
    } catch (StatusRuntimeException failure) {
      throw HeadraceException.of(failure);
    }
  }
}
