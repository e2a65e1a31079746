"""The tables of JSON schemas, with what is too long for them to show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

_FOLDER = Path(__file__).parent
_LEVELS = 20


@dataclass(frozen=True, slots=True)
class Followed:
    """A schema that answers must match."""

    name: str
    schema: dict[str, Any]

    @property
    def family(self) -> str:
        return self.name.partition(".")[0]

    @property
    def arguments(self) -> dict[str, Any]:
        """The schema of arguments: itself, or one that has it as its only property."""
        return _arguments(self.schema)


@dataclass(frozen=True, slots=True)
class Refused:
    """A schema that is refused, words of the refusal, and those as a schema of arguments."""

    name: str
    schema: dict[str, Any]
    words: str
    words_of_arguments: str

    @property
    def arguments(self) -> dict[str, Any]:
        return _arguments(self.schema)


def followed() -> list[Followed]:
    families = _read("followed.yaml") | _read("followed_objects.yaml")
    families["lengths"] = _long_ones()
    return [
        Followed(f"{family}.{name}", schema)
        for family, schemas in families.items()
        for name, schema in schemas.items()
    ]


def refused() -> list[Refused]:
    return [
        _refused(f"{family}.{name}", **row)
        for family, rows in _read("refused.yaml").items()
        for name, row in rows.items()
    ]


def _refused(
    name: str, schema: dict[str, Any], words: str, of_arguments: str | None = None
) -> Refused:
    if of_arguments is None:
        is_moved = _arguments(schema) is not schema
        of_arguments = words.replace(" at #", " at #/properties/value") if is_moved else words
    return Refused(name, schema, words, of_arguments)


def _read(name: str) -> dict[str, Any]:
    return yaml.safe_load((_FOLDER / name).read_text())


def _long_ones() -> dict[str, Any]:
    deep = {"type": "boolean"}
    for _ in range(_LEVELS):
        deep = _closed({"a": deep})
    deep_list = {"type": "boolean"}
    for _ in range(_LEVELS):
        deep_list = {"type": "array", "items": deep_list, "minItems": 1, "maxItems": 1}
    return {
        "many_words": {"enum": [f"w{index}" for index in range(500)]},
        "many_numbers": {"enum": list(range(0, 1500, 3))},
        "thousands_of_letters": {"enum": ["a" * 1000, "b" * 1000]},
        "hundred_alternatives": {"anyOf": [{"const": index} for index in range(100)]},
        "hundred_properties": _closed({f"p{index}": {"enum": [index]} for index in range(100)}),
        "deep_objects": deep,
        "deep_lists": deep_list,
    }


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _arguments(schema: dict[str, Any]) -> dict[str, Any]:
    if schema.get("type") in ("object", ["object"]):
        return schema
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    return _closed({"value": inner}) | definitions
