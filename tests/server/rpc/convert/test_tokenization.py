"""The requests of Tokenize and Detokenize."""

import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace_server.errors import InvalidFieldError
from headrace_server.rpc.convert.tokenization import to_detokenize_ids, to_tokenize_prompt


def test_a_prompt_too_large_to_be_tokenized_in_one_message_is_refused():
    """Tokenize bounds its input so that its answer can be received."""
    with pytest.raises(InvalidFieldError) as caught:
        to_tokenize_prompt(pb.TokenizeRequest(text="a" * (1024 * 1024 + 1)))
    assert caught.value.field == "text"


def test_too_many_or_negative_ids_are_not_detokenized():
    """Detokenize bounds the number of its ids and refuses what cannot be one."""
    with pytest.raises(InvalidFieldError):
        to_detokenize_ids(pb.DetokenizeRequest(token_ids=[1] * (256 * 1024 + 1)))
    with pytest.raises(InvalidFieldError) as caught:
        to_detokenize_ids(pb.DetokenizeRequest(token_ids=[1, -1]))
    assert caught.value.field == "token_ids[1]"
