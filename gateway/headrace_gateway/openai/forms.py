"""The form that an answer must have, under each of the names that clients know it by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.v1 import constraint_pb2
from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.json_text import to_json_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Options of vLLM's structured_outputs that ask for nothing else than there is.
_HARMLESS_OPTIONS = ("disable_fallback", "disable_any_whitespace")


@dataclass(frozen=True, slots=True)
class Form:
    """A form as the contract has it.

    Args:
        constraint: of the contract.
        path: the JSON path that it came from, for errors.
    """

    constraint: constraint_pb2.Constraint
    path: str


def parse_schema(name: str, value: object) -> Form:
    """Read a JSON schema: as an object, or as text.

    Raises:
        ApiError: 400, it is neither, or JSON cannot hold it.
    """
    if isinstance(value, str):
        return Form(constraint_pb2.Constraint(json_schema=field_types.text(name, value)), name)
    if not isinstance(value, dict):
        raise invalid_field(name, f"{name} must be a JSON schema, as an object or as text.")
    return Form(constraint_pb2.Constraint(json_schema=to_json_text(name, value)), name)


def parse_regex(name: str, value: object) -> Form:
    """Read a regular expression.

    Raises:
        ApiError: 400, it is no text.
    """
    return Form(constraint_pb2.Constraint(regex=field_types.text(name, value)), name)


def parse_grammar(name: str, value: object) -> Form:
    """Read a grammar.

    Raises:
        ApiError: 400, it is no text.
    """
    return Form(constraint_pb2.Constraint(grammar=field_types.text(name, value)), name)


def parse_choices(name: str, value: object) -> Form:
    """Read a list of texts.

    Raises:
        ApiError: 400, it is something else.
    """
    if not isinstance(value, list):
        raise invalid_field(name, f"{name} must be a list of strings.")
    texts = [field_types.text(name, item) for item in value]
    return Form(constraint_pb2.Constraint(choices=constraint_pb2.Choices(texts=texts)), name)


def parse_response_format(name: str, value: object) -> Form | None:
    """Read OpenAI's response_format; None where it asks for text.

    Raises:
        ApiError: 400, it is malformed.
    """
    if not isinstance(value, dict):
        raise invalid_field(name, f"{name} must be an object with a type.")
    match value.get("type"):
        case "text":
            return None
        case "json_object":
            return _object_form(name, value)
        case "json_schema":
            wrapper = value.get("json_schema")
            schema = wrapper.get("schema") if isinstance(wrapper, dict) else None
            path = f"{name}.json_schema.schema"
            if not isinstance(schema, dict):
                raise invalid_field(name, f"{path} must be a JSON schema as an object.")
            return parse_schema(path, schema)
        case _:
            raise invalid_field(name, f"{name}.type must be text, json_object or json_schema.")


def parse_structured_outputs(name: str, value: object) -> Form | None:
    """Read vLLM's structured_outputs; None where it asks for nothing.

    Raises:
        ApiError: 400, it is malformed or asks for several forms or for what is not supported.
    """
    if not isinstance(value, dict):
        raise invalid_field(name, f"{name} must be an object.")
    given = {key: item for key, item in value.items() if item is not None}
    forms = [read(f"{name}.{key}", given[key]) for key, read in _PARTS.items() if key in given]
    for key, item in given.items():
        if key not in _PARTS and key not in _HARMLESS_OPTIONS and item is not False:
            raise invalid_field(name, f"{name}.{key} is not supported; leave it out.")
    return _only([form for form in forms if form is not None])


def read_form(values: Mapping[str, Any]) -> Form | None:
    """Return the one form of the values that `FORM_FIELDS` have read; None for any.

    Raises:
        ApiError: 400, there are several.
    """
    return _only([form for name in FORM_FIELDS if (form := values.get(name)) is not None])


def _only(forms: list[Form]) -> Form | None:
    if len(forms) > 1:
        first, second, *_ = forms
        message = f"{second.path} cannot go with {first.path}: an answer has one form."
        raise invalid_field(second.path.partition(".")[0], message)
    return forms[0] if forms else None


def _object_form(name: str, value: Mapping[str, Any]) -> Form:
    """Read the schema beside the type: `schema` is llama.cpp's name for it, `value` TGI's."""
    schemas = [
        parse_schema(f"{name}.{key}", value[key])
        for key in ("schema", "value")
        if value.get(key) is not None
    ]
    return _only(schemas) or _any_object(name)


def _any_object(path: str) -> Form:
    return Form(constraint_pb2.Constraint(json_object=True), path)


def _parse_any_object(name: str, value: object) -> Form | None:
    return _any_object(name) if field_types.boolean(name, value) else None


_PARTS: Mapping[str, Callable[[str, object], Form | None]] = {
    "json": parse_schema,
    "json_object": _parse_any_object,
    "regex": parse_regex,
    "choice": parse_choices,
    "grammar": parse_grammar,
}

FORM_FIELDS: Mapping[str, Callable[[str, object], Form | None]] = {
    "response_format": parse_response_format,
    "structured_outputs": parse_structured_outputs,
    "guided_json": parse_schema,
    "guided_regex": parse_regex,
    "guided_choice": parse_choices,
    "guided_grammar": parse_grammar,
    "json_schema": parse_schema,
    "regex": parse_regex,
    "choice": parse_choices,
    "grammar": parse_grammar,
}
"""The fields that ask for a form, each with its reader: OpenAI's first, then those of vLLM and
SGLang.
"""
