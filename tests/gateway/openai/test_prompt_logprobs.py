"""How likely the tokens of a prompt were, in vLLM's shape."""

import json
import math

import msgspec

from headrace.v1.logprobs_pb2 import TokenLogprobs, TopLogprob
from headrace_gateway.openai.prompt_logprobs import prompt_logprobs


def test_each_token_has_itself_and_its_rivals():
    """The first has nothing before it; ranks are those of the rivals, by token ids."""
    top = [
        TopLogprob(token_id=7, token_bytes=b"a", logprob=-0.5),
        TopLogprob(token_id=8, token_bytes=b"\xc3", logprob=-math.inf),
    ]
    messages = [
        TokenLogprobs(token_id=1, token_bytes=b"<s>"),
        TokenLogprobs(token_id=8, token_bytes=b"\xc3", logprob=-math.inf, top=top),
        TokenLogprobs(token_id=9, token_bytes=b"z", logprob=-2.0, top=top[:1]),
        TokenLogprobs(token_id=9, token_bytes=b"z", logprob=-2.0),
    ]
    first = {"logprob": -0.5, "rank": 1, "decoded_token": "a"}
    second = {"logprob": -9999.0, "rank": 2, "decoded_token": "\ufffd"}
    own = {"logprob": -2.0, "rank": None, "decoded_token": "z"}
    assert json.loads(msgspec.json.encode(prompt_logprobs(messages))) == [
        None,
        {"7": first, "8": second},
        {"7": first, "9": own},
        {"9": own},
    ]
