"""The times of one answer."""

import pytest

from comparison.answer import Answer, WrongAnswerError


def make_answer(**changes):
    values = {
        "begin_seconds": 10.0,
        "piece_seconds": (10.5, 11.0, 12.0),
        "end_seconds": 12.5,
        "num_prompt_tokens": 64,
        "num_output_tokens": 5,
    }
    return Answer(**values | changes)


def test_the_times_are_those_of_text_and_end():
    """TTFT ends with the first text, TPOT shares the rest among the other tokens."""
    answer = make_answer()
    assert answer.ttft_seconds == 0.5
    assert answer.tpot_seconds == 2.0 / 4
    assert answer.gaps_seconds == (0.5, 1.0)


def test_an_answer_of_one_token_has_no_gaps():
    """And its TPOT is what came after the text."""
    answer = make_answer(piece_seconds=(10.5,), end_seconds=10.5, num_output_tokens=1)
    assert answer.tpot_seconds == 0.0
    assert answer.gaps_seconds == ()


def test_what_all_peers_do_passes():
    """The counts are those that were asked for."""
    make_answer().check(64, 5)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"piece_seconds": ()}, "an answer had no text"),
        ({"num_prompt_tokens": 65}, "a prompt of 64 tokens was counted as 65"),
        ({"num_output_tokens": 4}, "5 tokens were asked for and 4 came"),
    ],
)
def test_other_work_than_that_of_all_peers_is_told(changes, complaint):
    """A server that stops early would look fast."""
    with pytest.raises(WrongAnswerError, match=complaint):
        make_answer(**changes).check(64, 5)
