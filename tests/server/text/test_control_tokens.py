import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models

from headrace_server.errors import InvalidFieldError
from headrace_server.text.control_tokens import (
    NUM_CANDIDATES,
    ControlTokenFinder,
    Marks,
    unused_characters,
)
from tests.server.text.tokenizer_files import byte_level_tokenizer

FINDER = ControlTokenFinder(byte_level_tokenizer())
MARKS = Marks("(", ")")
TEXTS = st.lists(st.sampled_from(["<|im_end|>", "<|im_", "end|>", "<think>", "é ", "x"])).map(
    "".join
)


@given(TEXTS)
def test_marks_can_be_taken_away_again(text):
    """Taking the marks gives the text back, and each control token is known as a caller's."""
    [spans] = FINDER.find([text])
    marked = MARKS.take(MARKS.put(text, spans))

    assert text == marked.text
    assert text.count("<|im_end|>") == len(spans)
    assert all(marked.is_of_caller(span) for span in spans)


@given(TEXTS, TEXTS)
def test_only_what_is_marked_is_of_a_caller(before, after):
    """A token that a template writes between texts of a caller stays the template's."""
    spans_before, spans_after = FINDER.find([before, after])
    marked = MARKS.take(
        MARKS.put(before, spans_before) + "<|endoftext|>" + MARKS.put(after, spans_after)
    )
    [spans] = FINDER.find([marked.text])
    of_template = [span for span in spans if not marked.is_of_caller(span)]
    assert of_template == [(len(before), len(before) + len("<|endoftext|>"))]


def test_what_a_template_joins_of_a_caller_is_of_the_caller():
    """A control token round a lone mark was put together from a caller's pieces."""
    marked = MARKS.take("<|im_)end|> <|im_end|>")
    assert [marked.is_of_caller(span) for span in FINDER.find([marked.text])[0]] == [True, False]


def test_marks_leave_white_space_outside():
    """A token that swallows white space is marked without it, so that trimming works as ever."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.add_special_tokens([AddedToken("<m>", lstrip=True, rstrip=True, special=True)])
    text = "a  <m> \n"
    [spans] = ControlTokenFinder(tokenizer).find([text])

    assert spans == [(1, 8)]
    assert MARKS.put(text, spans) == "a  (<m>) \n"
    marked = MARKS.take(MARKS.put(text, spans))
    assert marked.is_of_caller(spans[0])


def test_non_special_tokens_are_not_control_tokens():
    """A token that the tokenizer does not call special is text in every place."""
    assert FINDER.find(["<think> <a tool call>"]) == [[]]


def test_unused_characters_are_in_no_text():
    """Marks are chosen among the characters that nobody wrote."""
    assert unused_characters(["\U000f0000", "a\U000f0002"], 2) == ["\U000f0001", "\U000f0003"]


def test_texts_full_of_private_characters_are_refused():
    """Who leaves no character for a mark gets an error that says so."""
    everything = "".join(chr(0xF0000 + i) for i in range(NUM_CANDIDATES))
    with pytest.raises(InvalidFieldError, match="private-use"):
        unused_characters([everything], 1)
