"""Tells by a chat template how its model calls tools and reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace_server.text.parsing.formats import (
    HERMES_OPENING,
    LLAMA3_OPENING,
    MISTRAL_OPENING,
    ToolCallFormat,
)
from headrace_server.text.parsing.reasoning import ReasoningTags

if TYPE_CHECKING:
    from headrace_server.text.chat_template import ChatTemplate

# What a template of Llama 3 shows calls by where it has no place for built-in tools.
_LLAMA3_ROLE: Final = "ipython"

# What the calls of some models have between the tags of Hermes instead of JSON.
_XML_CALL: Final = "<function="

_REASONING_TAGS: Final = (
    ReasoningTags("<think>", "</think>"),
    ReasoningTags("[THINK]", "[/THINK]"),
)


def find_call_format(template: ChatTemplate | None) -> ToolCallFormat | None:
    """Return the format in which a model calls tools; None where it is not known.

    A model whose template has no place for tools is told of them in the manner of Hermes.
    """
    if template is None:
        return None
    if not template.shows_tools:
        return ToolCallFormat.HERMES
    source = template.source
    if MISTRAL_OPENING in source:
        return ToolCallFormat.MISTRAL
    if HERMES_OPENING in source and _XML_CALL not in source:
        return ToolCallFormat.HERMES
    if LLAMA3_OPENING in source or _LLAMA3_ROLE in source:
        return ToolCallFormat.LLAMA3_JSON
    return None


def find_reasoning_tags(template: ChatTemplate | None) -> ReasoningTags | None:
    """Return the tags of a model's reasoning; None where its template has none."""
    if template is None:
        return None
    for tags in _REASONING_TAGS:
        if tags.closing in template.source:
            return tags
    return None
