"""The one table of errors, and text that is safe to send."""

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from headrace.v1 import error_reason_pb2
from headrace_server import errors
from headrace_server.rpc.errors import MAX_MESSAGE_BYTES, clean, to_status

TABLE = [
    (errors.InvalidFieldError("a.b", "a.b is bad."), "INVALID_ARGUMENT", "INVALID_FIELD"),
    (errors.TemplateRefusalError("chat.messages", "No."), "INVALID_ARGUMENT", "INVALID_FIELD"),
    (
        errors.ContextLengthExceededError("text", "Too long."),
        "INVALID_ARGUMENT",
        "CONTEXT_LENGTH_EXCEEDED",
    ),
    (errors.UnauthenticatedError("No."), "UNAUTHENTICATED", "UNAUTHENTICATED"),
    (errors.ModelNotFoundError("No."), "NOT_FOUND", "MODEL_NOT_FOUND"),
    (
        errors.InvalidConstraintError("constraint.regex", "Bad."),
        "INVALID_ARGUMENT",
        "INVALID_CONSTRAINT",
    ),
    (errors.DuplicateRequestIdError("No."), "ALREADY_EXISTS", "DUPLICATE_REQUEST_ID"),
    (errors.OverloadedError("Full.", 2.0), "RESOURCE_EXHAUSTED", "OVERLOADED"),
    (errors.ClientStalledError("Slow."), "RESOURCE_EXHAUSTED", "CLIENT_STALLED"),
    (errors.DrainingError("Bye.", 0.25), "UNAVAILABLE", "DRAINING"),
    (errors.EngineUnavailableError("Dead.", 1.0), "UNAVAILABLE", "ENGINE_UNAVAILABLE"),
    (errors.QueueTimeoutError("Late."), "DEADLINE_EXCEEDED", "QUEUE_TIMEOUT"),
    (errors.DeadlineExceededError("Late."), "DEADLINE_EXCEEDED", "DEADLINE_EXCEEDED"),
    (errors.RequestFailedError("Ours."), "INTERNAL", "INTERNAL"),
]


def details(status):
    packed = status_pb2.Status.FromString(dict(status.trailers)["grpc-status-details-bin"])
    known = (
        error_details_pb2.ErrorInfo,
        error_details_pb2.BadRequest,
        error_details_pb2.RetryInfo,
    )
    unpacked = {}
    for detail in packed.details:
        (kind,) = [kind for kind in known if detail.Is(kind.DESCRIPTOR)]
        unpacked[kind.__name__] = message = kind()
        detail.Unpack(message)
    return packed, unpacked


@pytest.mark.parametrize(("error", "code", "reason"), TABLE, ids=[reason for *_, reason in TABLE])
def test_an_error_has_its_code_and_reason(error, code, reason):
    """Each error leaves with the code and the reason of the contract, in details too."""
    status = to_status(error)
    packed, unpacked = details(status)
    assert status.code == grpc.StatusCode[code]
    assert packed.code == grpc.StatusCode[code].value[0]
    assert packed.message == status.message == error.message
    assert unpacked["ErrorInfo"] == error_details_pb2.ErrorInfo(reason=reason, domain="headrace")


@pytest.mark.parametrize("error", [error for error, *_ in TABLE], ids=repr)
def test_words_that_may_quote_the_caller_are_not_logged(error):
    """Templates quote messages and constraints quote themselves; all other words are ours."""
    quotes = isinstance(error, errors.TemplateRefusalError | errors.InvalidConstraintError)
    assert to_status(error).logged_message == (None if quotes else error.message)


def test_every_reason_of_the_contract_has_a_row():
    """The table and the enum of the contract hold the same reasons."""
    reasons = list(error_reason_pb2.ErrorReason.keys())
    names = {name.removeprefix("ERROR_REASON_") for name in reasons}
    assert {reason for *_, reason in TABLE} == names - {"UNSPECIFIED"}


def test_every_error_has_a_row():
    """An error of the server that the table lacks would leave without a status of ours."""
    bases = {errors.RequestError, errors.RetryableError}
    found = {
        error
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.RequestError)
    }
    assert {type(error) for error, *_ in TABLE} == found - bases


def test_every_error_of_the_server_has_a_row():
    """No class of errors.py lacks a status."""
    concrete = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.RequestError)
    } - {errors.RequestError, errors.RetryableError}
    assert {type(error) for error, *_ in TABLE} == concrete


def test_a_bad_field_is_a_field_violation():
    """BadRequest names the field and says what is wrong."""
    _, unpacked = details(to_status(errors.InvalidFieldError("a.b[0]", "a.b[0] is bad.")))
    (violation,) = unpacked["BadRequest"].field_violations
    assert (violation.field, violation.description) == ("a.b[0]", "a.b[0] is bad.")


def test_a_refusal_that_may_pass_says_when_to_come_back():
    """RetryInfo and grpc-retry-pushback-ms tell the same time; other errors have neither."""
    status = to_status(errors.OverloadedError("Full.", 1.5))
    _, unpacked = details(status)
    assert dict(status.trailers)["grpc-retry-pushback-ms"] == "1500"
    assert unpacked["RetryInfo"].retry_delay.ToMilliseconds() == 1500
    final = to_status(errors.ModelNotFoundError("No."))
    assert "grpc-retry-pushback-ms" not in dict(final.trailers)
    assert "RetryInfo" not in details(final)[1]


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("plain", "plain"),
        ("näïve ✓ 😀", "näïve ✓ 😀"),
        ("a\ud800b", "a?b"),
        ("a\r\nb\x1b[31mc\x00d\x9be", "a  b [31mc d e"),
        ("a\u202eb\u2028c", "a b c"),
    ],
)
def test_text_is_cleaned(text, cleaned):
    """Lone surrogates and control characters do not leave the server."""
    assert clean(text) == cleaned


@pytest.mark.parametrize("text", ["x" * 5000, "é" * 5000, "😀" * 5000, "\ud800" * 5000])
def test_text_is_cut_to_a_kibibyte_of_whole_characters(text):
    """A long text is cut, stays valid and says that it was cut."""
    cleaned = clean(text)
    assert len(cleaned.encode()) <= MAX_MESSAGE_BYTES
    assert cleaned[:-1] in text or set(cleaned) <= {"?", "…"}
