"""Schemas of arguments as people write them; each ends by itself, whatever a model says."""

NAME = {"type": "string", "maxLength": 12}


def an_object(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


SCHEMAS = {
    "nothing": {},
    "no_properties": an_object(),
    "one_string": an_object(["city"], city=NAME),
    "optional_string": an_object(city=NAME),
    "enum": an_object(["unit"], unit={"enum": ["celsius", "fahrenheit"]}),
    "mixed_enum": an_object(["x"], x={"enum": ["a", 1, 2.5, None, True, ["b"], {"c": 1}]}),
    "const": an_object(["kind"], kind={"const": "exact"}),
    "boolean": an_object(["wide"], wide={"type": "boolean"}),
    "null": an_object(["gone"], gone={"type": "null"}),
    "integer": an_object(["n"], n={"type": "integer", "minimum": 0, "maximum": 999}),
    "negative": an_object(["n"], n={"type": "integer", "minimum": -20, "maximum": -3}),
    "number": an_object(["x"], x={"type": "number", "minimum": 0, "maximum": 1}),
    "multiple": an_object(
        ["n"], n={"type": "integer", "multipleOf": 5, "minimum": 0, "maximum": 99}
    ),
    "nullable": an_object(["city"], city={"type": ["string", "null"], "maxLength": 8}),
    "any_of": an_object(
        ["x"], x={"anyOf": [{"type": "integer", "maximum": 9, "minimum": 0}, NAME]}
    ),
    "pattern": an_object(["code"], code={"type": "string", "pattern": "^[A-Z]{3}-[0-9]{2}$"}),
    "date": an_object(["day"], day={"type": "string", "format": "date"}),
    "time": an_object(["at"], at={"type": "string", "format": "date-time"}),
    "uuid": an_object(["id"], id={"type": "string", "format": "uuid"}),
    "length": an_object(["word"], word={"type": "string", "minLength": 3, "maxLength": 8}),
    "array": an_object(["tags"], tags={"type": "array", "items": NAME, "maxItems": 3}),
    "least_items": an_object(
        ["ids"],
        ids={
            "type": "array",
            "items": {"type": "integer", "minimum": 1, "maximum": 9},
            "minItems": 2,
            "maxItems": 4,
        },
    ),
    "tuple": an_object(
        ["point"],
        point={
            "type": "array",
            "prefixItems": [{"enum": [0, 1]}, {"enum": ["x", "y"]}],
            "items": False,
            "minItems": 2,
        },
    ),
    "nested": an_object(["place"], place=an_object(["city"], city=NAME, country=NAME)),
    "deep": an_object(["a"], a=an_object(["b"], b=an_object(["c"], c={"enum": [1, 2]}))),
    "objects": an_object(
        ["people"],
        people={
            "type": "array",
            "items": an_object(["name"], name=NAME),
            "minItems": 1,
            "maxItems": 2,
        },
    ),
    "reference": {
        "type": "object",
        "properties": {"from": {"$ref": "#/$defs/place"}, "to": {"$ref": "#/$defs/place"}},
        "required": ["from", "to"],
        "$defs": {"place": {"enum": ["Paris", "Rome", "Berlin"]}},
    },
    "definitions": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"size": {"$ref": "#/definitions/Size", "description": "How large"}},
        "required": ["size"],
        "definitions": {"Size": {"title": "Size", "enum": ["S", "M", "L"], "type": "string"}},
    },
    "strict": an_object(["a", "b"], a={"enum": ["é", "日本"]}, b={"enum": ['"', "\\", "\n"]})
    | {"additionalProperties": False},
    "alternatives": {
        "type": "object",
        "anyOf": [
            an_object(["by_name"], by_name=NAME) | {"additionalProperties": False},
            an_object(["by_id"], by_id={"enum": [1, 2, 3]}) | {"additionalProperties": False},
        ],
    },
    "odd_names": an_object(
        ["a b", "", "$x"], **{"a b": {"enum": [1]}, "": {"enum": [2]}, "$x": {"enum": [3]}}
    ),
    "many": an_object(
        [f"p{i}" for i in range(8)], **{f"p{i}": {"type": "boolean"} for i in range(8)}
    ),
}
