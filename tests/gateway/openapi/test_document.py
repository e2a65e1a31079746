"""The OpenAPI document says what the tables of the gateway say."""

import re
from pathlib import Path

import aiohttp
import pytest
from jsonschema import Draft202012Validator

from headrace_gateway.openai import fields
from headrace_gateway.openapi.document import OPERATIONS, openapi_document
from headrace_gateway.openapi.field_descriptions import FIELD_DESCRIPTIONS
from headrace_gateway.openapi.field_schemas import field_schema, knows, or_null
from tests.gateway.routes_of import routes_of
from tests.gateway.test_keys import OPEN

DOCUMENT = openapi_document("1.2.3")
SCHEMAS = DOCUMENT["components"]["schemas"]
PAGE = (Path(__file__).parents[3] / "docs" / "parameters.md").read_text()
TABLES = {
    "ChatCompletionRequest": fields.CHAT_FIELDS,
    "CompletionRequest": fields.COMPLETION_FIELDS,
    "TokenizeTextRequest": fields.TOKENIZE_FIELDS,
    "DetokenizeRequest": fields.DETOKENIZE_FIELDS,
}


def validator(name):
    return Draft202012Validator({**DOCUMENT, "$ref": f"#/components/schemas/{name}"})


def refs_in(value):
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref":
                yield item
            yield from refs_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from refs_in(item)


def test_every_endpoint_is_described():
    """The document has those of the gateway and no others, each with a name of its own."""
    described = {f"{operation.method} {operation.path}" for operation in OPERATIONS}
    routes = {f"{method} {path}" for path, methods in routes_of().items() for method in methods}
    # Those below /v1 have short forms, which are not told one by one.
    assert described == {each for each in routes if each.replace(" /", " /v1/") not in routes}
    assert len({operation.name for operation in OPERATIONS}) == len(OPERATIONS)
    assert DOCUMENT["info"]["version"] == "1.2.3"


def test_the_document_tells_where_a_key_is_needed():
    """Both ways of sending one are there; the open endpoints are those of the gateway."""
    keyed = openapi_document("1", has_keys=True)
    assert keyed["security"] == [{"bearer": []}, {"apiKey": []}]
    # A gateway without keys may stand before a server that has some.
    assert DOCUMENT["security"] == [*keyed["security"], {}]
    schemes = keyed["components"]["securitySchemes"]
    assert schemes["bearer"] == {"type": "http", "scheme": "bearer"}
    assert schemes["apiKey"] == {"type": "apiKey", "in": "header", "name": "X-Api-Key"}
    described = {
        path
        for path, methods in keyed["paths"].items()
        for operation in methods.values()
        if operation.get("security") == []
    }
    pages = {"/", "/ui/{path}", "/docs", "/docs/", "/docs/{path}"}
    assert described == OPEN - pages


def test_everything_that_is_referred_to_is_there():
    """Each reference has its place, and each schema is one."""
    for ref in refs_in(DOCUMENT):
        target = DOCUMENT
        for key in ref.removeprefix("#/").split("/"):
            target = target[key]
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)
    assert [name for name in SCHEMAS if "." in name or name.startswith("_")] == []


@pytest.mark.parametrize("name", TABLES)
def test_every_field_is_described(name):
    """A body has the fields of its table, each with what reads it and what it means."""
    described = SCHEMAS[name]["properties"]
    for field, read in TABLES[name].items():
        assert knows(read), field
        assert described[field]["description"]
    refused = {"TokenizeTextRequest": fields.TOKENIZE_NEUTRAL_VALUES, "DetokenizeRequest": {}}
    neutral = refused.get(name, fields.NEUTRAL_VALUES)
    ignored = fields.IGNORED_FIELDS if "Completion" in name else ()
    assert set(described) == {*TABLES[name], *neutral, *ignored}


def test_the_words_are_those_of_the_page():
    """A field means the same to people and to programs."""
    rows = re.findall(r"^\| `(\w+)` \| (?:yes|no) \| (?:yes|no) \| (.*?) \|", PAGE, re.MULTILINE)
    words = {}
    for name, value in rows:
        words.setdefault(name, re.sub(r",? see \[[^\]]*\]\(#[^)]*\)", "", value))
    assert words == FIELD_DESCRIPTIONS


@pytest.mark.parametrize(
    ("name", "body", "is_valid"),
    [
        ("ChatCompletionRequest", {"messages": [{"role": "user", "content": "a"}]}, True),
        ("ChatCompletionRequest", {"messages": []}, False),
        ("ChatCompletionRequest", {}, False),
        ("ChatCompletionRequest", {"messages": [{"role": "user"}], "temperature": 3}, False),
        ("ChatCompletionRequest", {"messages": [{"role": "user"}], "temperature": None}, True),
        ("ChatCompletionRequest", {"messages": [{"role": "user"}], "logprobs": 5}, False),
        ("ChatCompletionRequest", {"messages": [{"role": "user"}], "new_field": 5}, True),
        ("CompletionRequest", {"prompt": "a", "logprobs": 5}, True),
        ("CompletionRequest", {"prompt": [[1], [2]], "best_of": 2}, True),
        ("CompletionRequest", {"prompt": [["a"]]}, False),
        ("CompletionRequest", {"prompt": "a", "suffix": "b"}, True),
        ("CompletionRequest", {"prompt": "a", "suffix": ["b"]}, False),
        ("ChatCompletionRequest", {"messages": [{"role": "user"}], "suffix": "b"}, False),
        ("ChatCompletionRequest", {"messages": [{"role": "user"}], "suffix": ""}, True),
        ("TokenizeTextRequest", {"content": "a"}, True),
        ("TokenizeTextRequest", {}, False),
        ("DetokenizeRequest", {"tokens": [1]}, True),
        ("DetokenizeRequest", {"tokens": "1"}, False),
    ],
)
def test_the_schemas_tell_bodies_apart(name, body, is_valid):
    """What a schema allows is what the gateway and the server take."""
    assert validator(name).is_valid(body) == is_valid


def test_a_reader_that_is_not_known_may_read_anything():
    """A field to come does not keep the gateway from starting."""
    assert field_schema("new_field", print) == {}
    assert or_null({}) == {}


@pytest.mark.parametrize("operation", [each for each in OPERATIONS if each.bodies])
def test_each_body_has_an_example_that_is_one(operation):
    """An example is as one of its schemas describes it."""
    assert any(validator(name).is_valid(operation.example) for name in operation.bodies)


async def test_the_examples_are_answered(service):
    """Who sends an example as it is gets an answer."""
    async with aiohttp.ClientSession(service.url) as session:
        for operation in OPERATIONS:
            if operation.bodies:
                async with session.post(operation.path, json=operation.example) as response:
                    assert response.status == 200, operation.path


async def test_the_document_is_served(gateway):
    """It is JSON and in the version that is running."""
    async with gateway.request("GET", "/openapi.json") as response:
        assert (response.status, response.content_type) == (200, "application/json")
        served = await response.json()
    assert served["openapi"] == "3.1.0"
    assert set(served["paths"]) == set(DOCUMENT["paths"])
