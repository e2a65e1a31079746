"""Statuses become exceptions with the facts of their details; refusals are retried."""

import pickle
import socket
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import grpc
import pytest
from grpc import StatusCode

import headrace
from headrace import AsyncClient, Client
from tests.client.scripted_server import REQUEST_ID, Admit, Hold, Refusal, hello, piece

STATUSES = [
    (StatusCode.INVALID_ARGUMENT, "INVALID_FIELD", headrace.InvalidRequestError),
    (
        StatusCode.INVALID_ARGUMENT,
        "CONTEXT_LENGTH_EXCEEDED",
        headrace.ContextLengthExceededError,
    ),
    (StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", headrace.AuthenticationError),
    (StatusCode.UNAUTHENTICATED, None, headrace.AuthenticationError),
    (StatusCode.NOT_FOUND, "MODEL_NOT_FOUND", headrace.ModelNotFoundError),
    (StatusCode.ALREADY_EXISTS, "DUPLICATE_REQUEST_ID", headrace.DuplicateRequestIdError),
    (StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", headrace.OverloadedError),
    (StatusCode.RESOURCE_EXHAUSTED, "CLIENT_STALLED", headrace.ClientStalledError),
    (StatusCode.UNAVAILABLE, "DRAINING", headrace.UnavailableError),
    (StatusCode.UNAVAILABLE, "ENGINE_UNAVAILABLE", headrace.UnavailableError),
    (StatusCode.DEADLINE_EXCEEDED, "QUEUE_TIMEOUT", headrace.QueueTimeoutError),
    (StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", headrace.DeadlineExceededError),
    (StatusCode.INTERNAL, "INTERNAL", headrace.InternalError),
    (StatusCode.INVALID_ARGUMENT, None, headrace.InvalidRequestError),
    (StatusCode.UNAVAILABLE, None, headrace.UnavailableError),
    (StatusCode.UNKNOWN, None, headrace.InternalError),
    (StatusCode.PERMISSION_DENIED, None, headrace.HeadraceError),
    (StatusCode.FAILED_PRECONDITION, "NEWER_THAN_THIS_CLIENT", headrace.HeadraceError),
]


def error_of(server, *steps):
    """The error of one attempt that the server answers with these steps."""
    server.script = lambda request: iter(steps)
    with (
        Client(server.target, max_attempts=1) as client,
        pytest.raises(headrace.HeadraceError) as caught,
    ):
        client.generate("Hi")
    return caught.value


@pytest.mark.parametrize(("code", "reason", "error_class"), STATUSES)
def test_a_status_has_its_class(server, code, reason, error_class):
    """Each reason, and each code where there is no reason, has its own exception."""
    error = error_of(server, Refusal(code, "What happened.", reason))
    assert type(error) is error_class
    assert (error.code, error.reason) == (code, reason)
    assert "What happened." in error.message


def test_an_error_has_the_facts_of_the_details(server):
    """Message, field, retry time and request id come from the details of the status."""
    refusal = Refusal(
        StatusCode.INVALID_ARGUMENT,
        "sampling.temperature must be from 0 to 2.",
        "INVALID_FIELD",
        "sampling.temperature",
        2.5,
    )
    error = error_of(server, refusal)
    assert error.message == str(error) == "temperature must be from 0 to 2."
    assert error.field == "temperature"
    assert error.retry_after_seconds == 2.5
    assert error.request_id == REQUEST_ID


async def test_both_clients_raise_the_same(server):
    """The asynchronous client raises what the blocking one does."""
    refusal = Refusal(StatusCode.NOT_FOUND, "No such model.", "MODEL_NOT_FOUND")
    expected = error_of(server, refusal)
    async with AsyncClient(server.target) as client:
        with pytest.raises(headrace.ModelNotFoundError) as caught:
            await client.generate("Hi")
    assert vars(caught.value) == vars(expected)


def test_a_message_that_is_too_large_is_invalid(client):
    """A limit of gRPC itself is an invalid request, not an overload to try again."""
    with pytest.raises(headrace.InvalidRequestError, match="larger than max"):
        client.generate("x" * (5 * 1024 * 1024))


def test_errors_survive_pickling(server):
    """An error passes between processes whole."""
    error = error_of(server, Refusal(StatusCode.UNAVAILABLE, "Gone.", "DRAINING", None, 1.0))
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is headrace.UnavailableError
    assert vars(copy) == vars(error)


def test_a_refused_connection_says_where_and_what_to_do():
    """Where nothing listens, the error names the address and the command that serves."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # so that nobody else listens there
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        with Client(target) as client, pytest.raises(headrace.UnavailableError) as caught:
            client.check_health()
    assert caught.value.message == (
        f"Nothing answers at {target} (Connection refused). "
        "Start a server with `headrace serve`, or check the address."
    )


def test_an_unknown_host_is_named():
    """A name that does not resolve is called unknown."""
    unknown = pytest.raises(headrace.UnavailableError, match=r"no-such-host.invalid:1920 is not")
    with Client("no-such-host.invalid") as client, unknown:
        client.check_health()


def test_the_http_port_is_told_from_the_grpc_port():
    """A client that was given the HTTP port is told so."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), QuietHandler)
    Thread(target=http.serve_forever).start()
    try:
        mistaken = pytest.raises(headrace.UnavailableError, match="not the HTTP port")
        with Client(f"127.0.0.1:{http.server_port}") as client, mistaken:
            client.check_health()
    finally:
        http.shutdown()
        http.server_close()


class QuietHandler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass


def refuse_times(server, count, refusal):
    """A script that refuses `count` calls and then answers; each call notes its time."""
    times = []

    def script(request):
        times.append(time.monotonic())
        return iter([refusal]) if len(times) <= count else hello(request)

    server.script = script
    return times


@pytest.mark.parametrize("code", [StatusCode.UNAVAILABLE, StatusCode.RESOURCE_EXHAUSTED])
def test_a_refusal_is_retried_when_the_server_wishes(client, server, code):
    """A refused call is made again after the time that the server asked for."""
    reason = {"UNAVAILABLE": "DRAINING", "RESOURCE_EXHAUSTED": "OVERLOADED"}[code.name]
    times = refuse_times(server, 2, Refusal(code, "Not now.", reason, None, 0.3))
    assert client.generate("Hi").text == "Hello 🌍"
    assert len(times) == 3
    # gRPC counts from the begin of the turn in which it read the refusal.
    assert times[1] - times[0] >= 0.25
    assert times[2] - times[1] >= 0.25


def test_retries_have_an_end(client, server):
    """After the last attempt the refusal is raised."""
    refusal = Refusal(StatusCode.UNAVAILABLE, "Not now.", "DRAINING", None, 0.01)
    times = refuse_times(server, 99, refusal)
    with pytest.raises(headrace.UnavailableError, match="Not now"):
        client.generate("Hi")
    assert len(times) == 3


def test_retries_can_be_switched_off(server):
    """With one attempt the first refusal is raised."""
    refusal = Refusal(StatusCode.UNAVAILABLE, "Not now.", "DRAINING", None, 0.01)
    times = refuse_times(server, 1, refusal)
    with Client(server.target, max_attempts=1) as client, pytest.raises(headrace.UnavailableError):
        client.generate("Hi")
    assert len(times) == 1


GONE = Refusal(StatusCode.UNAVAILABLE, "Gone.", "ENGINE_UNAVAILABLE", None, 0.01)


def test_a_call_is_not_repeated_once_it_was_taken(client, server):
    """After the response headers were seen a failure is raised and the call not made again."""
    hold = Hold()
    server.script = lambda request: iter([Admit(), hold, GONE])
    with client.stream("Hi") as stream:
        hold.over.set()
        with pytest.raises(headrace.UnavailableError, match="Gone"):
            list(stream)
    assert len(server.calls) == 1


@pytest.mark.parametrize("steps", [[Admit(), piece("Hel")], [piece("Hel")]])
def test_a_call_is_not_repeated_once_there_was_text(client, server, steps):
    """After the first piece a failure is raised and the call not made again."""
    server.script = lambda request: iter([*steps, GONE])
    with pytest.raises(headrace.UnavailableError, match="Gone"):
        client.generate("Hi")
    assert len(server.calls) == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        (StatusCode.INTERNAL, "INTERNAL"),
        (StatusCode.DEADLINE_EXCEEDED, "QUEUE_TIMEOUT"),
    ],
)
def test_other_errors_are_not_retried(client, server, code, reason):
    """A call is made again only where the server says that it makes sense."""
    times = refuse_times(server, 1, Refusal(code, "No.", reason))
    with pytest.raises(headrace.HeadraceError):
        client.generate("Hi")
    assert len(times) == 1


def test_clients_do_not_share_a_connection(server):
    """Two clients have two connections, so that neither waits for the other's streams."""
    with Client(server.target) as first, Client(server.target) as second:
        first.generate("Hi")
        second.generate("Hi")
    assert len({call.peer for call in server.calls}) == 2
    assert grpc.__version__ in server.calls[0].metadata["user-agent"]
    assert server.calls[0].metadata["user-agent"].startswith("headrace-python/")
