"""The table from statuses to HTTP."""

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from headrace_gateway import errors
from headrace_gateway.openai.options import read_options


def rpc_error(code, text="", *details, raw=None):
    status = Status()
    for detail in details:
        status.details.add().Pack(detail)
    packed = status.SerializeToString() if raw is None else raw
    trailers = grpc.aio.Metadata(("grpc-status-details-bin", packed)) if details or raw else None
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, details=text)


def reason(name):
    return ErrorInfo(reason=name, domain="headrace")


def json_path(path):
    return {"sampling.temperature": "temperature", "token_ids.ids[2]": "prompt[2]"}.get(path)


@pytest.mark.parametrize(
    ("error", "status", "type_", "code"),
    [
        (rpc_error(StatusCode.INVALID_ARGUMENT), 400, "invalid_request_error", None),
        (
            rpc_error(StatusCode.INVALID_ARGUMENT, "", reason("CONTEXT_LENGTH_EXCEEDED")),
            400,
            "invalid_request_error",
            "context_length_exceeded",
        ),
        (
            rpc_error(StatusCode.UNAUTHENTICATED),
            401,
            "invalid_request_error",
            "invalid_api_key",
        ),
        (
            rpc_error(StatusCode.PERMISSION_DENIED),
            403,
            "invalid_request_error",
            "permission_denied",
        ),
        (rpc_error(StatusCode.NOT_FOUND), 404, "invalid_request_error", "model_not_found"),
        (
            rpc_error(StatusCode.ALREADY_EXISTS),
            409,
            "invalid_request_error",
            "duplicate_request_id",
        ),
        (
            rpc_error(StatusCode.RESOURCE_EXHAUSTED, "SERVER: Received message larger than max"),
            413,
            "invalid_request_error",
            "request_too_large",
        ),
        (
            rpc_error(StatusCode.RESOURCE_EXHAUSTED, "full", reason("OVERLOADED")),
            429,
            "rate_limit_error",
            "rate_limit_exceeded",
        ),
        (
            rpc_error(StatusCode.RESOURCE_EXHAUSTED, "", reason("CLIENT_STALLED")),
            429,
            "rate_limit_error",
            "client_stalled",
        ),
        (rpc_error(StatusCode.CANCELLED), 503, "server_error", "server_unavailable"),
        (rpc_error(StatusCode.UNAVAILABLE), 503, "server_error", "server_unavailable"),
        (
            rpc_error(StatusCode.UNAVAILABLE, "", reason("DRAINING")),
            503,
            "server_error",
            "draining",
        ),
        (
            rpc_error(StatusCode.UNAVAILABLE, "", reason("ENGINE_UNAVAILABLE")),
            503,
            "server_error",
            "engine_unavailable",
        ),
        (rpc_error(StatusCode.DEADLINE_EXCEEDED), 504, "timeout", "deadline_exceeded"),
        (
            rpc_error(StatusCode.DEADLINE_EXCEEDED, "", reason("QUEUE_TIMEOUT")),
            504,
            "timeout",
            "queue_timeout",
        ),
        (rpc_error(StatusCode.UNIMPLEMENTED), 501, "server_error", "not_implemented"),
        (rpc_error(StatusCode.INTERNAL), 500, "server_error", "internal_error"),
        (rpc_error(StatusCode.UNKNOWN), 500, "server_error", "internal_error"),
        (rpc_error(StatusCode.DATA_LOSS), 500, "server_error", "internal_error"),
    ],
)
def test_each_status_has_its_row(error, status, type_, code):
    """Status, type and code follow from the status and its reason."""
    translated = errors.from_rpc_error(error, json_path)
    assert (translated.status, translated.type, translated.code) == (status, type_, code)
    assert translated.message


def test_the_words_of_the_server_pass_and_those_of_grpc_do_not():
    """A text without a reason of the contract may hold addresses or the text of an exception."""
    words = rpc_error(StatusCode.NOT_FOUND, "No such model.", reason("MODEL_NOT_FOUND"))
    assert errors.from_rpc_error(words, json_path).message == "No such model."
    assert errors.from_rpc_error(words, json_path).param == "model"
    secret = rpc_error(StatusCode.UNAVAILABLE, "failed to connect to ipv4:10.0.0.5:1920")
    assert errors.from_rpc_error(secret, json_path).message == (
        "The inference server cannot be reached."
    )
    foreign = rpc_error(StatusCode.UNKNOWN, "Unexpected", ErrorInfo(reason="X", domain="other"))
    assert errors.from_rpc_error(foreign, json_path).message == "The server failed on this request."


@pytest.mark.parametrize(
    ("field", "param", "message"),
    [
        ("sampling.temperature", "temperature", "temperature must be good."),
        ("token_ids.ids[2]", "prompt", "prompt[2] must be good."),
        ("output.text", None, "output.text must be good."),
    ],
)
def test_a_bad_field_is_named_as_the_caller_knows_it(field, param, message):
    """The field of the contract becomes that of the JSON body, in param and in the words."""
    violation = BadRequest.FieldViolation(field=field, description="")
    error = rpc_error(
        StatusCode.INVALID_ARGUMENT,
        f"{field} must be good.",
        reason("INVALID_FIELD"),
        BadRequest(field_violations=[violation]),
    )
    translated = errors.from_rpc_error(error, json_path)
    assert (translated.param, translated.message) == (param, message)


def test_every_field_in_the_words_is_named_as_the_caller_knows_it():
    """A rule that compares two fields of the contract compares two of the JSON body."""
    options = read_options(
        {"min_tokens": 4, "max_completion_tokens": 3},
        max_tokens_field="max_completion_tokens",
        default_max_tokens=None,
    )
    field = "stopping.min_output_tokens"
    error = rpc_error(
        StatusCode.INVALID_ARGUMENT,
        f"{field} must be at most max_output_tokens.",
        reason("INVALID_FIELD"),
        BadRequest(field_violations=[BadRequest.FieldViolation(field=field)]),
    )
    translated = errors.from_rpc_error(error, options.json_path)
    assert translated.message == "min_tokens must be at most max_completion_tokens."


def test_a_retry_time_comes_from_the_server_or_is_a_second():
    """429 and 503 always say when to try again; other errors never do."""
    retry = RetryInfo()
    retry.retry_delay.FromMilliseconds(2500)
    full = rpc_error(StatusCode.RESOURCE_EXHAUSTED, "", reason("OVERLOADED"), retry)
    assert errors.from_rpc_error(full, json_path).retry_after_seconds == 2.5
    gone = rpc_error(StatusCode.UNAVAILABLE)
    assert errors.from_rpc_error(gone, json_path).retry_after_seconds == 1.0
    late = rpc_error(StatusCode.DEADLINE_EXCEEDED)
    assert errors.from_rpc_error(late, json_path).retry_after_seconds is None


def test_details_that_cannot_be_read_are_none():
    """Broken details do not hide the status."""
    broken = rpc_error(StatusCode.NOT_FOUND, "words", raw=b"\xff\xff\xff")
    assert errors.from_rpc_error(broken, json_path).status == 404
