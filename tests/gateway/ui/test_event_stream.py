"""The page's own reader of server-sent events."""

import pytest

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

READ = """async ([bytes, size]) => {
  const { readEvents } = await import("/ui/scripts/event_stream.js");
  const body = new ReadableStream({
    start(controller) {
      for (let i = 0; i < bytes.length; i += size) {
        controller.enqueue(new Uint8Array(bytes.slice(i, i + size)));
      }
      controller.close();
    },
  });
  return await Array.fromAsync(readEvents(body));
}"""


async def test_events_are_read_however_they_are_cut(chat):
    """Pieces may end anywhere, in a line end and within a character; comments are no events."""
    text = 'data: {"a": "日🌊"}\n\n: keep-alive\n\nevent: x\ndata:one\ndata: two\n\ndata: end\n\n'
    expected = ['{"a": "日🌊"}', "one\ntwo", "end"]
    for data in (text.encode(), text.replace("\n", "\r\n").encode()):
        for size in (1, 2, 3, 7, len(data)):
            assert await chat.run(READ, [list(data), size]) == expected


async def test_what_is_not_ended_is_no_event(chat):
    """The rest of a connection that broke is not taken for an event."""
    data = b'data: {"a": 1}\n\ndata: {"b"'
    assert await chat.run(READ, [list(data), len(data)]) == ['{"a": 1}']
