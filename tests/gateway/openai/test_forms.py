"""The form of an answer under all its names."""

import json

import pytest

from headrace.v1.constraint_pb2 import Choices, Constraint
from headrace_gateway.openai.api_error import ApiError
from headrace_gateway.openai.chat_request import parse_chat_request

MESSAGES = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"b": {}, "é": {}}}
SCHEMA_FORM = Constraint(json_schema=json.dumps(SCHEMA, ensure_ascii=False))


def options_of(**fields):
    return parse_chat_request({"messages": MESSAGES, **fields}).options


def constraint_of(**fields):
    request = options_of(**fields).to_generate_request()
    return request.constraint if request.HasField("constraint") else None


def json_schema(schema):
    return {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}


@pytest.mark.parametrize(
    ("fields", "constraint", "path"),
    [
        (
            {"response_format": {"type": "json_object"}},
            Constraint(json_object=True),
            "response_format",
        ),
        (
            {"response_format": json_schema(SCHEMA)},
            SCHEMA_FORM,
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_object", "schema": SCHEMA}},
            SCHEMA_FORM,
            "response_format.schema",
        ),
        (
            {"response_format": {"type": "json_object", "value": SCHEMA}},
            SCHEMA_FORM,
            "response_format.value",
        ),
        ({"guided_json": SCHEMA}, SCHEMA_FORM, "guided_json"),
        ({"guided_json": "{}"}, Constraint(json_schema="{}"), "guided_json"),
        ({"json_schema": SCHEMA}, SCHEMA_FORM, "json_schema"),
        ({"structured_outputs": {"json": SCHEMA}}, SCHEMA_FORM, "structured_outputs.json"),
        (
            {"structured_outputs": {"json_object": True, "regex": None}},
            Constraint(json_object=True),
            "structured_outputs.json_object",
        ),
        ({"guided_regex": "a+"}, Constraint(regex="a+"), "guided_regex"),
        ({"regex": "a+"}, Constraint(regex="a+"), "regex"),
        (
            {"structured_outputs": {"regex": "a+", "disable_fallback": True}},
            Constraint(regex="a+"),
            "structured_outputs.regex",
        ),
        ({"guided_grammar": "start: "}, Constraint(grammar="start: "), "guided_grammar"),
        ({"guided_choice": ["a"]}, Constraint(choices=Choices(texts=["a"])), "guided_choice"),
        ({"choice": []}, Constraint(choices=Choices()), "choice"),
    ],
    ids=str,
)
def test_each_name_asks_for_a_form(fields, constraint, path):
    """The server gets it in its own words, and its errors name the field that was sent."""
    assert constraint_of(**fields) == constraint
    kind = constraint.WhichOneof("form")
    assert options_of(**fields).json_path("constraint") == path
    assert options_of(**fields).json_path(f"constraint.{kind}") == path


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"response_format": {"type": "text"}},
        {"structured_outputs": {}},
        {"structured_outputs": {"json": None, "json_object": False}},
        {"guided_json": None, "response_format": {"type": "text"}},
    ],
    ids=str,
)
def test_a_wish_for_no_form_is_taken(fields):
    """Text is what there is without any."""
    assert constraint_of(**fields) is None


def test_the_choices_of_the_contract_have_a_path_of_their_own():
    """The field at fault is found below the oneof, too."""
    options = options_of(guided_choice=[""])
    assert options.json_path("constraint.choices.texts") == "guided_choice"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "guided_regex"),
        ({"guided_json": SCHEMA, "structured_outputs": {"regex": "a"}}, "guided_json"),
    ],
)
def test_an_answer_has_one_form(fields, param):
    """Of two the second in the list of names is at fault."""
    with pytest.raises(ApiError) as refusal:
        options_of(**fields)
    assert (refusal.value.status, refusal.value.param) == (400, param)
    assert "an answer has one form" in refusal.value.message
