package headrace;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.rpc.BadRequest;
import com.google.rpc.BadRequest.FieldViolation;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.google.rpc.Status;
import io.grpc.Metadata;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.Optional;
import org.junit.jupiter.api.Test;

class HeadraceExceptionTest {
  private static final Any OVERLOADED =
      Any.pack(ErrorInfo.newBuilder().setReason("OVERLOADED").setDomain("headrace").build());
  private static final Any RETRY_LATER =
      Any.pack(
          RetryInfo.newBuilder()
              .setRetryDelay(
                  com.google.protobuf.Duration.newBuilder().setSeconds(1).setNanos(250_000_000))
              .build());

  @Test
  void tellsReasonAndDelay() {
    HeadraceException error =
        HeadraceException.of(
            failure(Code.RESOURCE_EXHAUSTED, "The queue is full.", OVERLOADED, RETRY_LATER));
    assertEquals(Code.RESOURCE_EXHAUSTED, error.code());
    assertEquals("The queue is full.", error.getMessage());
    assertEquals(Optional.of("OVERLOADED"), error.reason());
    assertEquals(Optional.empty(), error.field());
    assertEquals(Optional.of(Duration.ofMillis(1250)), error.retryDelay());
    assertEquals("error: OVERLOADED: The queue is full.; retry in 1.3 s", Main.describe(error));
  }

  @Test
  void tellsTheField() {
    FieldViolation violation = FieldViolation.newBuilder().setField("sampling.top_p").build();
    Any badRequest = Any.pack(BadRequest.newBuilder().addFieldViolations(violation).build());
    HeadraceException error =
        HeadraceException.of(failure(Code.INVALID_ARGUMENT, "No.", badRequest));
    assertEquals(Optional.of("sampling.top_p"), error.field());
    assertEquals(Optional.empty(), error.reason());
    assertEquals("error: INVALID_ARGUMENT: No.", Main.describe(error));
  }

  @Test
  void tellsTheIdOfTheRequest() {
    Metadata trailers = new Metadata();
    trailers.put(Metadata.Key.of("x-request-id", Metadata.ASCII_STRING_MARSHALLER), "r1");
    StatusRuntimeException failure = io.grpc.Status.INTERNAL.asRuntimeException(trailers);
    assertEquals(Optional.of("r1"), HeadraceException.of(failure).requestId());
    assertEquals("INTERNAL", HeadraceException.of(failure).getMessage());
  }

  @Test
  void passesOverDetailsThatCannotBeRead() {
    Any malformed =
        Any.newBuilder()
            .setTypeUrl("type.googleapis.com/google.rpc.RetryInfo")
            .setValue(ByteString.copyFromUtf8("no protobuf"))
            .build();
    HeadraceException error =
        HeadraceException.of(failure(Code.UNAVAILABLE, "Later.", malformed, OVERLOADED));
    assertEquals(Optional.of("OVERLOADED"), error.reason());
    assertEquals(Optional.empty(), error.retryDelay());
  }

  private static StatusRuntimeException failure(Code code, String message, Any... details) {
    Status.Builder status = Status.newBuilder().setCode(code.value()).setMessage(message);
    for (Any detail : details) {
      status.addDetails(detail);
    }
    return StatusProto.toStatusRuntimeException(status.build());
  }
}
