package headrace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import headrace.v1.CandidateDelta;
import headrace.v1.GenerateRequest;
import headrace.v1.GenerateResponse;
import headrace.v1.InferenceServiceGrpc.InferenceServiceImplBase;
import io.grpc.Grpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.Status.Code;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * Against a real server on the loopback, whose answers to the prompt "on" never end, and which
 * refuses the prompt "later" once.
 */
@Timeout(30)
class HeadraceClientTest {
  private final CountDownLatch cancelled = new CountDownLatch(1);
  private final BlockingQueue<String> keys = new LinkedBlockingQueue<>();
  private final AtomicBoolean isReady = new AtomicBoolean();
  private Server server;
  private String target;

  @BeforeEach
  void start() throws IOException {
    server =
        Grpc.newServerBuilderForPort(0, InsecureServerCredentials.create())
            .addService(new Answers())
            .intercept(new ReadsKeys())
            .build()
            .start();
    target = "localhost:" + server.getPort();
  }

  @AfterEach
  void stop() throws InterruptedException {
    server.shutdownNow().awaitTermination();
  }

  @Test
  void readsAWholeAnswer() {
    try (HeadraceClient client = HeadraceClient.connect(target);
        GenerationStream stream = client.generate(request("end"))) {
      assertEquals("one two", stream.readText());
      assertEquals("none", keys.remove());
    }
  }

  @Test
  void cancelsTheCallWhenTheStreamIsClosed() throws InterruptedException {
    try (HeadraceClient client = HeadraceClient.connect(target)) {
      GenerationStream stream = client.generate(request("on"));
      assertEquals("one ", GenerationStream.textOf(stream.next()));
      stream.close();
      assertTrue(cancelled.await(10, TimeUnit.SECONDS));
      // What had arrived before may still be read.
      HeadraceException error = assertThrows(HeadraceException.class, stream::readText);
      assertEquals(Code.CANCELLED, error.code());
    }
  }

  @Test
  void cancelsTheCallWhenTheClientIsClosed() throws InterruptedException {
    HeadraceClient client = HeadraceClient.connect(target);
    GenerationStream stream = client.generate(request("on"));
    stream.next();
    client.close();
    assertTrue(cancelled.await(10, TimeUnit.SECONDS));
  }

  @Test
  void endsACallAtItsTimeout() {
    try (HeadraceClient client =
            HeadraceClient.builder(target).timeout(Duration.ofMillis(300)).build();
        GenerationStream stream = client.generate(request("on"))) {
      HeadraceException error = assertThrows(HeadraceException.class, stream::readText);
      assertEquals(Code.DEADLINE_EXCEEDED, error.code());
    }
  }

  @Test
  void sendsTheKey() {
    try (HeadraceClient client = HeadraceClient.builder(target).apiKey("k1").build();
        GenerationStream stream = client.generate(request("end"))) {
      stream.readText();
      assertEquals("Bearer k1", keys.remove());
    }
  }

  @Test
  void makesACallAgainThatWasRefused() {
    try (HeadraceClient client = HeadraceClient.connect(target);
        GenerationStream stream = client.generate(request("later"))) {
      assertEquals("one two", stream.readText());
    }
  }

  @Test
  void makesACallOnceWhereOneAttemptIsAllowed() {
    try (HeadraceClient client = HeadraceClient.builder(target).maxAttempts(1).build();
        GenerationStream stream = client.generate(request("later"))) {
      HeadraceException error = assertThrows(HeadraceException.class, stream::readText);
      assertEquals(Code.UNAVAILABLE, error.code());
    }
  }

  @Test
  void saysInOneLineWhyThereIsNoConnection() throws InterruptedException {
    server.shutdownNow().awaitTermination();
    try (HeadraceClient client = HeadraceClient.builder(target).maxAttempts(1).build()) {
      HeadraceException error = assertThrows(HeadraceException.class, client::listModels);
      assertEquals(Code.UNAVAILABLE, error.code());
      String message = error.getMessage();
      assertTrue(message.startsWith("io exception: Connection refused"), message);
      assertEquals(1, message.lines().count());
    }
  }

  @Test
  void leavesTheThreadInterruptedWhoseReadingWasInterrupted() throws InterruptedException {
    try (HeadraceClient client = HeadraceClient.connect(target);
        GenerationStream stream = client.generate(request("on"))) {
      stream.next();
      Thread.currentThread().interrupt();
      HeadraceException error = assertThrows(HeadraceException.class, stream::next);
      assertEquals(Code.CANCELLED, error.code());
      assertTrue(Thread.interrupted());
      assertTrue(cancelled.await(10, TimeUnit.SECONDS));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "secret\n", "se cret", "s\u00e9cret"})
  void refusesAKeyThatNoHeaderCanHoldWithoutTellingIt(String key) {
    HeadraceClientBuilder builder = HeadraceClient.builder(target);
    String message =
        assertThrows(IllegalArgumentException.class, () -> builder.apiKey(key)).getMessage();
    assertEquals("the API key is not of visible ASCII characters", message);
  }

  @Test
  void expectsAnotherNameOfTheServer() {
    try (HeadraceClient client =
        HeadraceClient.builder(target).serverName("headrace.example").build()) {
      assertEquals("headrace.example", client.channel().authority());
    }
  }

  @Test
  void saysHowToMakeAKeyThatJavaReads(@TempDir Path folder) throws IOException {
    Path key = Files.writeString(folder.resolve("key.pem"), "-----BEGIN EC PRIVATE KEY-----\n");
    HeadraceClientBuilder builder = HeadraceClient.builder(target).clientCertificate(key, key);
    String message = assertThrows(IllegalArgumentException.class, builder::build).getMessage();
    assertEquals(
        key + " is not a key in PKCS#8: make one with openssl pkcs8 -topk8 -nocrypt -in " + key,
        message);
  }

  private static GenerateRequest request(String prompt) {
    return GenerateRequest.newBuilder().setText(prompt).build();
  }

  private final class Answers extends InferenceServiceImplBase {
    @Override
    public void generate(GenerateRequest request, StreamObserver<GenerateResponse> responses) {
      ((ServerCallStreamObserver<GenerateResponse>) responses)
          .setOnCancelHandler(cancelled::countDown);
      if (request.getText().equals("later") && !isReady.getAndSet(true)) {
        responses.onError(Status.UNAVAILABLE.asRuntimeException());
        return;
      }
      responses.onNext(response("one "));
      if (!request.getText().equals("on")) {
        responses.onNext(response("two"));
        responses.onCompleted();
      }
    }

    private GenerateResponse response(String text) {
      CandidateDelta delta = CandidateDelta.newBuilder().setText(text).build();
      return GenerateResponse.newBuilder().addDeltas(delta).build();
    }
  }

  private final class ReadsKeys implements ServerInterceptor {
    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      String key =
          headers.get(Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER));
      keys.add(key == null ? "none" : key);
      return next.startCall(call, headers);
    }
  }
}
