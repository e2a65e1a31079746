import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_server.engine.frames import MAX_FRAME_BYTES, FrameBuffer, FrameError, encode_frame
from headrace_server.engine.messages import AbortSequence


@given(st.lists(st.integers(0, 2**40), max_size=6), st.lists(st.integers(0, 60), max_size=6))
def test_bodies_do_not_depend_on_how_the_bytes_are_cut(sequence_ids, cuts):
    """A buffer yields the same frames however the socket cuts them."""
    frames = [encode_frame(AbortSequence(sequence_id)) for sequence_id in sequence_ids]
    data = b"".join(frames)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    buffer = FrameBuffer()

    bodies = []
    for begin, end in itertools.pairwise(edges):
        bodies += buffer.feed(data[begin:end])

    assert [frame[4:] for frame in frames] == bodies


def test_a_length_beyond_the_limit_is_an_error():
    """Bytes that are no frames are noticed instead of waited for."""
    length = (MAX_FRAME_BYTES + 1).to_bytes(4, "little")
    with pytest.raises(FrameError):
        FrameBuffer().feed(length)
