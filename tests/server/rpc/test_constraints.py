"""Constraints over a real channel: answers have their form, and bad ones are refused."""

import json
import re

import grpc
import pytest
import pytest_asyncio

from headrace.v1 import stopping_pb2
from tests.server.running_server import collect, failure, running_server, text_of

LONG = {"max_output_tokens": 400}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 9}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
CHOICES = ["yes", "no", "maybe"]
GRAMMAR = 'start: "<" WORD ">"\nWORD: /[a-z]{3}/'

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared():
    async with running_server() as under:
        yield under


@pytest_asyncio.fixture(loop_scope="module")
async def under(shared):
    yield shared
    await shared.all_returned()


def is_person(text):
    value = json.loads(text)
    return set(value) == {"name", "age"} and isinstance(value["age"], int)


FORMS = [
    ({"json_schema": json.dumps(SCHEMA)}, is_person),
    ({"regex": "[a-c]{2,5}"}, lambda text: re.fullmatch("[a-c]{2,5}", text)),
    ({"grammar": GRAMMAR}, lambda text: re.fullmatch("<[a-z]{3}>", text)),
    ({"choices": {"texts": CHOICES}}, lambda text: text in CHOICES),
]


@pytest.mark.parametrize(
    ("constraint", "matches"), FORMS, ids=["schema", "regex", "lark", "choice"]
)
async def test_every_candidate_has_the_form(under, constraint, matches):
    """As a whole, where nothing cuts it, and its end is one of text."""
    responses = await collect(
        under.generate(
            constraint=constraint, stopping=LONG, sampling={"candidate_count": 3, "temperature": 1}
        )
    )
    finished = [d for r in responses for d in r.deltas if d.HasField("finish")]
    whole = [
        d.candidate_index
        for d in finished
        if d.finish.reason == stopping_pb2.FINISH_REASON_END_OF_TEXT
    ]
    assert len(finished) == 3
    assert whole
    for index in whole:
        text = "".join(d.text for r in responses for d in r.deltas if d.candidate_index == index)
        assert matches(text), text


async def test_a_json_object_begins_as_one(under):
    """Of any content, so that only its beginning is certain."""
    stopping = {"max_output_tokens": 3}
    responses = await collect(under.generate(constraint={"json_object": True}, stopping=stopping))
    assert text_of(responses).startswith("{")


@pytest.mark.parametrize(
    ("constraint", "field", "words"),
    [
        ({"json_schema": "{"}, "constraint.json_schema", "not valid JSON"),
        ({"json_schema": '{"type": 5}'}, "constraint.json_schema", "JSON schema"),
        ({"regex": "("}, "constraint.regex", "regular expression"),
        ({"regex": "a" * (64 * 1024 + 1)}, "constraint.regex", "65537 bytes"),
        ({"grammar": "start: nothing"}, "constraint.grammar", "grammar"),
        ({"choices": {"texts": []}}, "constraint.choices.texts", "no choices"),
        ({"choices": {"texts": ["a", ""]}}, "constraint.choices.texts", "Choice 1 is empty"),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_what_cannot_be_followed_is_refused(under, constraint, field, words):
    """Before admission, by its field, with a reason and a sentence."""
    error = await failure(under.generate(constraint=constraint, stopping=LONG))
    assert error.code is grpc.StatusCode.INVALID_ARGUMENT
    assert (error.reason, error.field) == ("INVALID_CONSTRAINT", field)
    assert words in error.message


async def test_a_constraint_without_a_form_is_an_invalid_field(under):
    """There is nothing to follow."""
    error = await failure(under.generate(constraint={}))
    assert (error.reason, error.field) == ("INVALID_FIELD", "constraint")
