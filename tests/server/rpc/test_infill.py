"""Prompts with a suffix over a real channel: filled in by a model that can, refused by others."""

import grpc
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import model_pb2, stopping_pb2
from headrace.v1.model_service_pb2 import GetModelRequest
from tests.server.infilling_model import CONTROL_TOKENS, write_infilling_model
from tests.server.running_server import collect, failure, running_server, text_of

LOAD_SECONDS = 120.0
WORDS = {"text": "hello", "suffix": " world"}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return write_infilling_model(tmp_path_factory.mktemp("infilling"))


async def test_a_model_with_control_tokens_fills_in(directory):
    """It says that it can, reads both texts, answers until one of its ends, and counts them."""
    flags = ("--backend", "native", "--model", directory, "--kv-cache-bytes", "16MiB")
    async with running_server(*flags, ready_seconds=LOAD_SECONDS) as under:
        model = (await under.models.GetModel(GetModelRequest())).model
        assert model_pb2.CAPABILITY_INFILL in model.capabilities

        tokenized = await under.inference.Tokenize(pb.TokenizeRequest(**WORDS))
        assert tokenized.text == "<fim_prefix>hello<fim_suffix> world<fim_middle>"
        written = await under.inference.Tokenize(pb.TokenizeRequest(text=tokenized.text))
        assert list(tokenized.token_ids) == list(written.token_ids)

        greedy = {"sampling": {"temperature": 0}, "stopping": {"max_output_tokens": 12}}
        filled = await collect(under.generate(**WORDS, **greedy))
        assert filled[0].prompt.token_count == tokenized.token_count
        asked = await collect(under.generate(token_ids={"ids": tokenized.token_ids}, **greedy))
        assert text_of(filled) == text_of(asked)

        [pad] = (
            await under.inference.Tokenize(pb.TokenizeRequest(text=CONTROL_TOKENS[-1]))
        ).token_ids
        wish = {"sampling": {"logit_bias": {pad: 100.0}}}
        ended = await collect(under.generate(**WORDS, **wish, stopping={"max_output_tokens": 12}))
        assert text_of(ended) == ""
        assert ended[-1].deltas[0].finish.reason == stopping_pb2.FINISH_REASON_END_OF_TEXT
        await under.all_returned()


async def test_a_model_without_them_refuses_a_suffix():
    """Generate and Tokenize say so by the name of the field, and the model does not offer it."""
    async with running_server() as under:
        model = (await under.models.GetModel(GetModelRequest())).model
        assert model_pb2.CAPABILITY_INFILL not in model.capabilities
        calls = [under.generate(**WORDS), under.inference.Tokenize(pb.TokenizeRequest(**WORDS))]
        for call in calls:
            error = await failure(call)
            assert (error.code, error.reason, error.field) == (
                grpc.StatusCode.INVALID_ARGUMENT,
                "INVALID_FIELD",
                "suffix",
            )
            assert "no control tokens" in error.message
        await under.all_returned()
