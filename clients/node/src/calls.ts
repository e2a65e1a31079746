/** How a call that streams is read, whichever library makes it. */

/** A call that runs. */
export interface StreamingCall<Response> extends AsyncIterable<Response> {
  cancel(): void;
}

/**
 * Start a call and read its responses; the signal, and leaving early, cancel it.
 *
 * @throws the reason of the signal, or what `toError` makes of the library's error.
 */
export async function* responsesOf<Response>(
  start: () => StreamingCall<Response>,
  signal: AbortSignal | undefined,
  toError: (error: unknown) => unknown,
): AsyncGenerator<Response> {
  signal?.throwIfAborted();
  const call = start();
  const cancel = () => call.cancel();
  // Not AbortSignal.any: on Node 20 a signal that lives on remembers each call made with it.
  signal?.addEventListener("abort", cancel);
  try {
    for await (const response of call) {
      yield response;
      signal?.throwIfAborted(); // what has come meanwhile is not wanted either
    }
  } catch (error) {
    signal?.throwIfAborted();
    throw toError(error);
  } finally {
    signal?.removeEventListener("abort", cancel);
    call.cancel(); // of itself neither library ends a call that nobody reads
  }
}

/** The pieces of text in responses of `Generate`. */
export async function* textsOf(
  responses: AsyncIterable<{ deltas: readonly { text: string }[] }>,
): AsyncGenerator<string> {
  for await (const { deltas } of responses) {
    for (const { text } of deltas) if (text) yield text;
  }
}
