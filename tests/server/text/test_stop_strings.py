import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_server.text.stop_strings import StopMatcher

PIECES = st.lists(st.text("ab ", max_size=4), max_size=12)
STOPS = st.lists(st.text("ab ", min_size=1, max_size=4), min_size=1, max_size=4)


def search(text, stops):
    """The stop that ends first in the whole text and where it ends; the first listed of equals."""
    for end in range(1, len(text) + 1):
        for stop in stops:
            if text[:end].endswith(stop):
                return stop, end
    return None, len(text)


def run(pieces, stops, *, include_stop=False):
    """The outputs of a matcher piece by piece, and the stop that it found."""
    matcher = StopMatcher(stops, include_stop=include_stop)
    outputs = []
    for piece in pieces:
        scanned = matcher.feed(piece)
        outputs.append(scanned.text)
        if scanned.stop_sequence is not None:
            return outputs, scanned.stop_sequence
    return [*outputs, matcher.flush()], None


@given(PIECES, STOPS, st.booleans())
def test_pieces_give_what_the_whole_text_gives(pieces, stops, include_stop):
    """However a text is cut, the same stop is found and the same text is left."""
    text = "".join(pieces)
    stop, end = search(text, stops)
    outputs, found = run(pieces, stops, include_stop=include_stop)

    cut = end if include_stop or stop is None else end - len(stop)
    assert (text[:cut], stop) == ("".join(outputs), found)


@given(PIECES, STOPS)
def test_only_what_may_begin_a_stop_is_held_back(pieces, stops):
    """After each piece, what is not out yet is the longest end that begins a stop sequence."""
    matcher = StopMatcher(stops, include_stop=False)
    text = output = ""
    for piece in pieces:
        scanned = matcher.feed(piece)
        if scanned.stop_sequence is not None:
            return
        text, output = text + piece, output + scanned.text
        longest = max(
            (
                n
                for n in range(len(text) + 1)
                if any(s[:-1].startswith(text[len(text) - n :]) for s in stops)
            ),
            default=0,
        )
        assert len(text) - longest == len(output)


@given(PIECES, STOPS, st.integers(0, 12))
def test_a_stop_that_is_passed_over_is_only_text(pieces, stops, num_passed):
    """A stop that ends while stopping is not allowed does not stop; one that ends later does."""
    matcher = StopMatcher(stops, include_stop=True)
    output, found = "", None
    for index, piece in enumerate(pieces):
        scanned = matcher.feed(piece, may_stop=index >= num_passed)
        output += scanned.text
        if (found := scanned.stop_sequence) is not None:
            break
    else:
        output += matcher.flush()

    text = "".join(pieces)
    first = len("".join(pieces[:num_passed]))
    expected = next(
        (
            (stop, end)
            for end in range(first + 1, len(text) + 1)
            for stop in stops
            if text[:end].endswith(stop)
        ),
        (None, len(text)),
    )
    assert (expected[0], text[: expected[1]]) == (found, output)


@pytest.mark.parametrize(
    ("stops", "text", "output", "stop"),
    [
        (["b", "ab"], "xab", "xa", "b"),
        (["ab", "b"], "xab", "x", "ab"),
        (["abcd", "bc"], "abcd", "a", "bc"),
        (["\n\n"], "a\n\nb", "a", "\n\n"),
        (["🌊e"], "a🌊e", "a", "🌊e"),
        (["aab"], "aaab", "a", "aab"),
    ],
)
def test_the_stop_that_ends_first_wins(stops, text, output, stop):
    """Of several stops the earliest end counts, then the order of the list."""
    outputs, found = run(text, stops)
    assert (output, stop) == ("".join(outputs), found)


def test_without_stops_text_passes_through():
    """Nothing is held back when there is nothing to look for."""
    assert run(["a", "\n"], []) == (["a", "\n", ""], None)
