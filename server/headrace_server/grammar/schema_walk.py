"""Finds the place of a keyword in a JSON schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The keywords whose value is a schema or a list of schemas, and those with schemas by name.
_WITH_SCHEMAS: Final = (
    *("items", "prefixItems", "additionalItems", "unevaluatedItems", "contains"),
    *("additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
)
_WITH_NAMED_SCHEMAS: Final = (
    *("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"),
)


def find_schema(schema: Any, predicate: Callable[[dict[str, Any]], bool]) -> str | None:
    """Return the first schema, from the outside in, that `predicate` is true of.

    Returns:
        Its place as a URI fragment such as ``#/properties/name``; None where there is none.
    """
    waiting = [("#", schema)]
    for place, each in waiting:
        if isinstance(each, dict):
            if predicate(each):
                return place
            waiting += _subschemas(place, each)
    return None


def _subschemas(place: str, schema: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for keyword in _WITH_SCHEMAS:
        value = schema.get(keyword)
        if isinstance(value, list):
            for index, each in enumerate(value):
                yield f"{place}/{keyword}/{index}", each
        else:
            yield f"{place}/{keyword}", value
    for keyword in _WITH_NAMED_SCHEMAS:
        value = schema.get(keyword)
        if isinstance(value, dict):
            for name, each in value.items():
                yield f"{place}/{keyword}/{name.replace('~', '~0').replace('/', '~1')}", each
