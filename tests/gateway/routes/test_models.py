"""GET /v1/models over HTTP, in front of a scripted server."""

import grpc
import pytest

from tests.client.scripted_server import Refusal, a_model


@pytest.mark.parametrize("path", ["/v1/models", "/models"])
async def test_all_names_are_listed(gateway, server, path):
    """Pages of the server become one list of names and aliases."""
    server.models = [a_model("org/one"), a_model("two")]
    server.page_size = 1
    async with gateway.request("GET", path) as response:
        body = await response.json()
    assert [entry["id"] for entry in body["data"]] == ["org/one", "small", "two", "small"]


@pytest.mark.parametrize("path", ["/v1/models/org/tiny", "/v1/models/org%2Ftiny"])
async def test_a_name_may_hold_slashes(gateway, server, path):
    """A model is found by a name with a slash, escaped or not."""
    async with gateway.request("GET", path) as response:
        body = await response.json()
    assert server.unary_request.name == "org/tiny"
    assert body == {
        "object": "model",
        "id": "org/tiny",
        "created": 1767323045,
        "owned_by": "headrace",
        "max_model_len": 2048,
    }


async def test_an_unknown_name_is_404(gateway, server):
    """The words of the server say what is served."""
    server.model_refusal = Refusal(
        grpc.StatusCode.NOT_FOUND, 'The model "gpt-4" is not served here.', "MODEL_NOT_FOUND"
    )
    async with gateway.request("GET", "/v1/models/gpt-4") as response:
        error = (await response.json())["error"]
    assert response.status == 404
    assert error == {
        "message": 'The model "gpt-4" is not served here.',
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }
