"""The four arrays of log probabilities in completions."""

import json
import math

import msgspec
import pytest

from headrace.v1.logprobs_pb2 import TokenLogprobs, TopLogprob
from headrace_gateway.openai.completion_logprobs import LogprobsWriter, lead_of


def told(token_id, token_bytes, logprob=None, *top):
    rivals = [TopLogprob(token_id=i, token_bytes=b, logprob=n) for i, b, n in top]
    return TokenLogprobs(token_id=token_id, token_bytes=token_bytes, logprob=logprob, top=rivals)


def as_json(value):
    return json.loads(msgspec.json.encode(value))


def test_tokens_have_their_texts_likelihoods_rivals_and_places():
    """The first token of a prompt has nulls; a token that is none of the rivals is beside them."""
    writer = LogprobsWriter()
    logprobs = writer.write(
        [told(1, b"He"), told(2, b"llo", -1.0, (3, b"y", -0.5), (2, b"llo", -1.0))]
    )
    assert as_json(logprobs) == {
        "tokens": ["He", "llo"],
        "token_logprobs": [None, -1.0],
        "top_logprobs": [None, {"y": -0.5, "llo": -1.0}],
        "text_offset": [0, 2],
    }
    more = writer.write([told(4, b"!", -math.inf, (5, b"?", -0.25))])
    assert as_json(logprobs + more)["top_logprobs"][2] == {"?": -0.25, "!": -9999.0}
    assert as_json(more)["token_logprobs"] == [-9999.0]
    assert as_json(more)["text_offset"] == [5]


def test_a_part_of_a_character_is_told_in_bytes():
    """The joined bytes are exact, and the character has one place, that of its first byte."""
    smile = "a😀b".encode()
    parts = [told(i, smile[i : i + 1], -1.0) for i in range(6)]
    logprobs = LogprobsWriter(offset=7).write(parts)
    escaped = [f"bytes:\\x{byte:02x}" for byte in "😀".encode()]
    assert logprobs.tokens == ["a", *escaped, "b"]
    assert logprobs.text_offset == [7, 8, 8, 8, 8, 9]


def test_two_parts_of_characters_are_two_rivals():
    """Rivals that are not text are told apart; of equal texts the likelier one stays."""
    rivals = [(1, b"\xc3", -0.5), (2, b"\xc4", -1.0), (3, b"x", -2.0), (4, b"x", -3.0)]
    [top] = LogprobsWriter().write([told(1, b"\xc3", -0.5, *rivals)]).top_logprobs
    assert top == {"bytes:\\xc3": -0.5, "bytes:\\xc4": -1.0, "x": -2.0}


@pytest.mark.parametrize(
    ("tokens", "text", "lead"),
    [
        ([b"Hel", b"lo"], "Hello", 0),
        ([b" Hel", b"lo"], "Hello", 1),
        ([b"<s>", b"Hel", b"lo"], "Hello", 3),
        ([b"<s>", b" Hel"], "Hello", 4),
        ([b"<s>"], "", 0),
        ([b"something", b" else"], "Hello", 0),
        ([], "Hello", 0),
    ],
)
def test_what_the_tokenizer_puts_in_front_is_no_text(tokens, text, lead):
    """An opening token, a space, or both are in the tokens and not in the prompt."""
    messages = [told(i, token) for i, token in enumerate(tokens)]
    assert lead_of(messages, text) == lead


def test_what_stands_in_front_has_no_place_of_its_own():
    """The text begins with the first token that is text."""
    logprobs = LogprobsWriter(lead=4).write([told(0, b"<s>"), told(1, b" He", -1.0)])
    assert logprobs.text_offset == [0, 0]
    more = LogprobsWriter(lead=4).write([told(0, b"<s>"), told(1, b" He", -1.0), told(2, b"y", -1)])
    assert more.text_offset == [0, 0, 2]
