"""The key goes with every call, is told to nobody else, and its lack has an error of its own."""

import inspect
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from grpc import StatusCode

import headrace
from headrace import AsyncClient, Client
from headrace.channel import key_metadata
from tests.client.scripted_server import ScriptedServer, running_server

KEY = "sk-0123_./+=~abc"
CALLS = {
    "Generate": lambda client: client.generate("Hi"),
    "Tokenize": lambda client: client.tokenize("Hi"),
    "Detokenize": lambda client: client.detokenize([1]),
    "ListModels": lambda client: client.list_models(),
    "GetModel": lambda client: client.get_model(),
    "Check": lambda client: client.check_health(),
}


@pytest.fixture
def callers(monkeypatch):
    """The authorization of each call that the server got, by its name."""
    seen = {}

    def noting(name, answer):
        def note(self, request, context):
            metadata = dict(context.invocation_metadata())
            seen[name] = metadata.get("authorization")
            return answer(self, request, context)

        return note

    for name in CALLS:
        monkeypatch.setattr(ScriptedServer, name, noting(name, getattr(ScriptedServer, name)))
    return seen


@pytest.mark.parametrize("api_key", [None, KEY])
@pytest.mark.parametrize("client_class", [Client, AsyncClient])
async def test_the_key_goes_with_every_call(callers, client_class, api_key):
    """Each call has the key, and none where there is none."""
    with running_server() as server:
        client = client_class(server.target, api_key=api_key)
        for call in CALLS.values():
            result = call(client)
            if inspect.isawaitable(result):
                await result
        closing = client.close()
        if closing is not None:
            await closing
    assert callers == dict.fromkeys(CALLS, None if api_key is None else f"Bearer {KEY}")


@pytest.mark.parametrize("key", ["", "two words", "schlüssel", "line\n", "tab\t"])
@pytest.mark.parametrize("client_class", [Client, AsyncClient])
def test_a_key_that_cannot_be_sent_is_refused(client_class, key):
    """What no header holds is refused when the client is made, without telling it."""
    with pytest.raises(ValueError, match=r"^api_key must be visible ASCII") as caught:
        client_class("localhost", api_key=key)
    assert not key or key not in str(caught.value)


def test_the_key_is_in_no_text_of_the_client():
    """Neither a client nor what it is made of shows the key."""
    with Client("localhost", api_key=KEY) as client:
        assert KEY not in repr(client) + repr(client._connection)
    assert key_metadata(KEY) == (("authorization", f"Bearer {KEY}"),)


class Refusing(grpc.ServerInterceptor):
    """Refuses every call as something between client and server does."""

    def intercept_service(self, continuation, details):
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: context.abort(StatusCode.UNAUTHENTICATED, "Jwt is missing")
        )


def test_a_refusal_of_a_proxy_is_an_error_of_authentication():
    """A status without the server's details has a sentence with the words of who refused."""
    proxy = grpc.server(ThreadPoolExecutor(1), interceptors=[Refusing()])
    target = f"127.0.0.1:{proxy.add_insecure_port('127.0.0.1:0')}"
    proxy.start()
    with Client(target) as client, pytest.raises(headrace.AuthenticationError) as caught:
        client.get_model()
    proxy.stop(None).wait()
    assert (caught.value.code, caught.value.reason) == (StatusCode.UNAUTHENTICATED, None)
    assert caught.value.message == (
        f"{target} takes no call without a key that it knows: Jwt is missing."
    )
