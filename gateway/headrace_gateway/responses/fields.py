"""The fields of a response's request: supported, refused, ignored. All others are ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.fields import read_fields
from headrace_gateway.openai.tools import parse_template_arguments
from headrace_gateway.responses.input_items import parse_input
from headrace_gateway.responses.text_config import parse_text_config
from headrace_gateway.responses.tools import parse_tool_choice, parse_tools
from headrace_gateway.responses.wishes import (
    parse_include,
    parse_metadata,
    parse_reasoning,
    parse_truncation,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RESPONSE_FIELDS: dict[str, Callable[[str, object], object]] = {
    "model": field_types.text,
    "input": parse_input,
    "instructions": field_types.text,
    "max_output_tokens": field_types.int32,
    "temperature": field_types.number,
    "top_p": field_types.number,
    "stream": field_types.boolean,
    "text": parse_text_config,
    "tools": parse_tools,
    "tool_choice": parse_tool_choice,
    "parallel_tool_calls": field_types.boolean,
    "include": parse_include,
    "top_logprobs": field_types.int32,
    "reasoning": parse_reasoning,
    "metadata": parse_metadata,
    "truncation": parse_truncation,
    "top_k": field_types.int32,
    "min_p": field_types.number,
    "seed": field_types.int64,
    "presence_penalty": field_types.number,
    "frequency_penalty": field_types.number,
    "repetition_penalty": field_types.number,
    "logit_bias": field_types.bias_by_token_id,
    "stop": field_types.text_or_list,
    "stop_token_ids": field_types.int32_list,
    "min_tokens": field_types.int32,
    "ignore_eos": field_types.boolean,
    "include_stop_str_in_output": field_types.boolean,
    "skip_special_tokens": field_types.boolean,
    "chat_template_kwargs": parse_template_arguments,
    "request_id": field_types.text,
    "priority": field_types.negated_int32,
    "cache_salt": field_types.text,
}
"""The fields that are supported, each with its reader: OpenAI's, then those of chats."""

STORED_FIELDS: Mapping[str, str] = {
    "previous_response_id": "send the items of the conversation as input",
    "conversation": "send the items of the conversation as input",
    "background": "wait for the answer, or read its stream",
    "prompt": "send its text as instructions and input",
}
"""The fields that need something stored, each with what to do instead."""

RESPONSE_NEUTRAL_VALUES: Mapping[str, tuple[object, ...]] = {
    "messages": ([],),
    "max_tokens": (),
    "max_completion_tokens": (),
    "response_format": (),
    "n": (1,),
    "context_management": ([],),
    "structured_outputs": ({},),
}
"""The fields that would change the answer and are not supported, each with the values that
ask for nothing.
"""

RESPONSE_IGNORED_FIELDS = (
    "store",
    "stream_options",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "service_tier",
    "max_tool_calls",
)
"""The fields that clients send and that have no effect here; nothing reads them."""


def read_response_fields(body: Mapping[str, object]) -> dict[str, Any]:
    """Return the values of the supported fields that were given.

    Raises:
        ApiError: 400, a field has the wrong type or asks for what is not supported.
    """
    for name, advice in STORED_FIELDS.items():
        if body.get(name) is not None and body[name] is not False:
            message = f"{name} is not supported, since nothing is stored; {advice}."
            raise invalid_field(name, message)
    return read_fields(body, RESPONSE_FIELDS, RESPONSE_NEUTRAL_VALUES)
