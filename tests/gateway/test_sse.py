"""Server-sent events."""

from headrace_gateway import sse


def test_an_event_is_one_data_line_and_an_empty_one():
    """Events, the end and comments have the bytes that every client knows."""
    assert sse.encode(b'{"a":1}') == b'data: {"a":1}\n\n'
    assert sse.encode(b"{}", "a.b") == b"event: a.b\ndata: {}\n\n"
    assert sse.DONE == b"data: [DONE]\n\n"
    assert sse.KEEP_ALIVE == b": keep-alive\n\n"
