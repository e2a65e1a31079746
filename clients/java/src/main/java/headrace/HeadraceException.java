package headrace;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/** A call that failed. The message says in one sentence what happened. */
public final class HeadraceException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private static final Metadata.Key<String> REQUEST_ID =
      Metadata.Key.of("x-request-id", Metadata.ASCII_STRING_MARSHALLER);

  private final Status.Code code;
  private final String reason;
  private final String field;
  private final Duration retryDelay;
  private final String requestId;

  private HeadraceException(
      StatusRuntimeException cause, String reason, String field, Duration retryDelay) {
    super(messageOf(cause.getStatus()), cause);
    this.code = cause.getStatus().getCode();
    this.reason = reason;
    this.field = field;
    this.retryDelay = retryDelay;
    Metadata trailers = cause.getTrailers();
    this.requestId = trailers == null ? null : trailers.get(REQUEST_ID);
  }

  /** Returns the exception for a failed call, with what the details of its status tell. */
  public static HeadraceException of(StatusRuntimeException failure) {
    String reason = null;
    String field = null;
    Duration retryDelay = null;
    for (Any detail : detailsOf(failure)) {
      try {
        if (detail.is(ErrorInfo.class)) {
          reason = detail.unpack(ErrorInfo.class).getReason();
        } else if (detail.is(BadRequest.class)) {
          BadRequest badRequest = detail.unpack(BadRequest.class);
          if (badRequest.getFieldViolationsCount() > 0) {
            field = badRequest.getFieldViolations(0).getField();
          }
        } else if (detail.is(RetryInfo.class)) {
          com.google.protobuf.Duration delay = detail.unpack(RetryInfo.class).getRetryDelay();
          retryDelay = Duration.ofSeconds(delay.getSeconds(), delay.getNanos());
        }
      } catch (InvalidProtocolBufferException malformed) {
        // A proxy may put anything there: what can be read still helps.
        continue;
      }
    }
    return new HeadraceException(failure, reason, field, retryDelay);
  }

  /** Returns the status code of gRPC. */
  public Status.Code code() {
    return code;
  }

  /** Returns the server's reason, such as OVERLOADED; empty where something else failed. */
  public Optional<String> reason() {
    return Optional.ofNullable(reason);
  }

  /** Returns the field at fault, such as sampling.temperature. */
  public Optional<String> field() {
    return Optional.ofNullable(field);
  }

  /** Returns how long to wait before another try, as the server wishes. */
  public Optional<Duration> retryDelay() {
    return Optional.ofNullable(retryDelay);
  }

  /** Returns the id of the request in the server's log. */
  public Optional<String> requestId() {
    return Optional.ofNullable(requestId);
  }

  private static List<Any> detailsOf(StatusRuntimeException failure) {
    try {
      com.google.rpc.Status status = StatusProto.fromThrowable(failure);
      return status == null ? List.of() : status.getDetailsList();
    } catch (IllegalArgumentException malformed) { // not google.rpc.Status
      return List.of();
    }
  }

  private static String messageOf(Status status) {
    String description = status.getDescription();
    String text = description == null ? status.getCode().name() : description;
    Throwable cause = status.getCause();
    if (cause == null) {
      return text;
    }
    // Of a failed connection the description says only "io exception", and in more lines through
    // which parts of netty it went; what went wrong is the innermost cause.
    while (cause.getCause() != null) {
      cause = cause.getCause();
    }
    String line = text.lines().findFirst().orElse("");
    return cause.getMessage() == null ? line : line + ": " + cause.getMessage();
  }
}
