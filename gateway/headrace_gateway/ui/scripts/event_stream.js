// @ts-check
/** Server-sent events, from bytes as they arrive. */

/**
 * Yields the data of each event; comments and other fields are left out.
 *
 * @param {ReadableStream<Uint8Array>} body leaving the loop early closes it
 * @returns {AsyncGenerator<string>}
 */
export async function* readEvents(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + decoder.decode(value, { stream: true })).split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      for (const block of blocks) {
        const data = dataOf(block);
        if (data !== null) yield data;
      }
    }
  } finally {
    // Where nothing is left to read this does nothing; else it closes the connection.
    await reader.cancel().catch(() => {});
  }
}

/**
 * @param {string} block the lines of one event
 * @returns {string | null}
 */
function dataOf(block) {
  const lines = block.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  if (lines.length === 0) return null;
  return lines.map((line) => line.slice(line[5] === " " ? 6 : 5)).join("\n");
}
