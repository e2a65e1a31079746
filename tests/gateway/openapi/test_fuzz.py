"""Requests that are made up from the OpenAPI document get answers that the document describes."""

from __future__ import annotations

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from headrace_gateway.openapi.document import OPERATIONS, openapi_document
from tests.gateway.service import serving

NUM_EXAMPLES = 12
BOUND_SECONDS = 60.0
# So short that no made-up length makes a long answer.
CONTEXT_LENGTH = "256"
CHECKS = [
    not_a_server_error,
    negative_data_rejection,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
SCHEMA = schemathesis.openapi.from_dict(openapi_document("0"))


def cases():
    """Return each endpoint; those that take a body twice: as described, and as it is not."""
    for operation in OPERATIONS:
        for mode in GenerationMode if operation.bodies else [GenerationMode.POSITIVE]:
            name = f"{operation.method} {operation.path} {mode.value}"
            yield pytest.param(operation, mode, id=name)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    flags = ("--max-model-len", CONTEXT_LENGTH)
    with serving(tmp_path_factory.mktemp("service"), flags) as service:
        yield service.url


@pytest.mark.parametrize(("operation", "mode"), list(cases()))
def test_answers_are_as_described(url, operation, mode):
    """No request makes a fault, what is not as described is refused, and answers are as described.

    Some requests that are as described are refused, since the document has no words for why.
    """
    described = SCHEMA[operation.path][operation.method]

    @hypothesis.settings(max_examples=NUM_EXAMPLES)
    @hypothesis.given(case=described.as_strategy(mode))
    def ask(case):
        response = case.call(base_url=url, timeout=BOUND_SECONDS)
        case.validate_response(response, checks=CHECKS)
        assert response.headers["x-request-id"]

    ask()
