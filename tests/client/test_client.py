"""The calls beside generation, the same for both clients."""

import inspect
from datetime import UTC, datetime

import grpc
import pytest

import headrace
from headrace import Capability, Model, Sampling, Tokenization, UnavailableError
from headrace.v1 import inference_service_pb2 as pb
from tests.client.scripted_server import Refusal, a_model

TINY = Model(
    name="tiny",
    aliases=("small",),
    context_length=2048,
    vocabulary_size=500,
    default_sampling=Sampling(
        temperature=0.5, top_p=1.0, top_k=0, min_p=0.0, frequency_penalty=0.25
    ),
    end_of_text_token_ids=(0,),
    capabilities=(Capability.COMPLETION, Capability.CHAT),
    tokenizer_fingerprint="f00d",
    ready_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
)


@pytest.fixture(params=["client", "async_client"])
def call(request, server):
    """Calls a method of the one client or the other and returns its result."""
    client = request.getfixturevalue(request.param)

    async def call(method, *args, **kwargs):
        result = getattr(client, method)(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    return call


async def test_tokenize_returns_ids_and_the_text(call, server):
    """Tokenize returns the ids and the text that was tokenized."""
    assert await call("tokenize", "Hi", model="small") == Tokenization((7, 8, 9), "<Hi>")
    assert server.unary_request == pb.TokenizeRequest(text="Hi", model="small")


async def test_tokenize_of_ids_has_no_text(call):
    """Token ids were not tokenized, so there is no text that was."""
    assert await call("tokenize", token_ids=[7, 8, 9]) == Tokenization((7, 8, 9), None)


async def test_detokenize_returns_the_text(call, server):
    """Detokenize returns the text of ids."""
    assert await call("detokenize", (1, 2), include_special_tokens=True) == "1 2"
    expected = pb.DetokenizeRequest(token_ids=[1, 2], include_special_tokens=True)
    assert server.unary_request == expected


async def test_get_model_describes_a_model(call, server):
    """get_model gives every fact of a model, under its name or an alias."""
    assert await call("get_model", "small") == TINY
    assert server.unary_request.name == "small"


async def test_list_models_reads_every_page(call, server):
    """list_models follows the pages to the end."""
    server.page_size = 2
    server.models = [a_model(name) for name in ("a", "b", "c", "d", "e")]
    assert [model.name for model in await call("list_models")] == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize("is_serving", [True, False])
async def test_check_health_tells_whether_requests_are_taken(call, server, is_serving):
    """check_health asks for the health of the service that generates."""
    server.is_serving = is_serving
    assert await call("check_health") is is_serving
    assert server.unary_request.service == "headrace.v1.InferenceService"


async def test_a_loading_model_is_unavailable(server):
    """While a model is loading, get_model raises with the words of the server."""
    refusal = Refusal(
        grpc.StatusCode.UNAVAILABLE, "Loading, 40 %.", "ENGINE_UNAVAILABLE", None, 1.0
    )
    server.model_refusal = refusal
    loading = pytest.raises(UnavailableError, match=r"Loading, 40 %")
    with headrace.Client(server.target, max_attempts=1) as client, loading as caught:
        client.get_model()
    assert caught.value.retry_after_seconds == 1.0


def test_every_public_name_can_be_imported():
    """Every name that the package lists is there, and no other."""
    for name in headrace.__all__:
        assert getattr(headrace, name) is not None
    assert set(headrace.__all__) <= set(dir(headrace))
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = headrace.Nothing
