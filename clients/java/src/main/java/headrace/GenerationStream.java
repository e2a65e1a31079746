package headrace;

import headrace.v1.CandidateDelta;
import headrace.v1.GenerateResponse;
import io.grpc.Context;
import io.grpc.StatusRuntimeException;
import java.util.Iterator;
import java.util.function.Supplier;

/**
 * The answer to one request as it is made; it can be read once. Closing it cancels the call, if it
 * is not complete, and the server stops the work at once. Any thread may close it while another
 * reads, which then gets a {@link HeadraceException} with the code CANCELLED.
 */
public final class GenerationStream
    implements Iterator<GenerateResponse>, Iterable<GenerateResponse>, AutoCloseable {
  private final Context.CancellableContext call = Context.current().withCancellation();
  private final Iterator<GenerateResponse> responses;

  GenerationStream(Supplier<Iterator<GenerateResponse>> start) {
    // The call is bound to the context in which it is started.
    Context outer = call.attach();
    try {
      responses = start.get();
    } catch (RuntimeException failure) {
      close();
      throw failure;
    } finally {
      call.detach(outer);
    }
  }

  /** Waits for the next response and tells whether there is one. */
  @Override
  public boolean hasNext() {
    try {
      if (responses.hasNext()) {
        return true;
      }
    } catch (StatusRuntimeException failure) {
      close();
      throw HeadraceException.of(failure);
    }
    close();
    return false;
  }

  /** Waits for the next response and returns it. */
  @Override
  public GenerateResponse next() {
    // Failures of the call are told by hasNext, which next would otherwise call inside.
    hasNext();
    return responses.next();
  }

  /** Returns this stream, so that {@code for} reads what has not been read. */
  @Override
  public Iterator<GenerateResponse> iterator() {
    return this;
  }

  /** Reads the rest of the answer and returns the text of its first candidate. */
  public String readText() {
    StringBuilder text = new StringBuilder();
    while (hasNext()) {
      text.append(textOf(next()));
    }
    return text.toString();
  }

  /** Returns the text of the first candidate in a response; empty where it has none. */
  public static String textOf(GenerateResponse response) {
    for (CandidateDelta delta : response.getDeltasList()) {
      if (delta.getCandidateIndex() == 0) {
        return delta.getText();
      }
    }
    return "";
  }

  /** Cancels the call, if it is not complete. It does not wait. */
  @Override
  public void close() {
    call.cancel(null);
  }
}
