"""The one table of request fields: which are supported, refused, or without effect.

A field with a null value was not given. A field that is in neither table is
ignored, as OpenAI's clients expect of fields to come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace_gateway.openai import field_types
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.forms import FORM_FIELDS
from headrace_gateway.openai.messages import parse_messages
from headrace_gateway.openai.prompts import parse_prompts
from headrace_gateway.openai.stream_options import parse_stream_options
from headrace_gateway.openai.tools import (
    parse_template_arguments,
    parse_tool_choice,
    parse_tools,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Reader = Callable[[str, object], object]

_COMMON: dict[str, Reader] = {
    "model": field_types.text,
    "request_id": field_types.text,
    "rid": field_types.text,
    "stream": field_types.boolean,
    "stream_options": parse_stream_options,
    "max_tokens": field_types.int32,
    "min_tokens": field_types.int32,
    "temperature": field_types.number,
    "top_p": field_types.number,
    "top_k": field_types.int32,
    "min_p": field_types.number,
    "seed": field_types.int64,
    "presence_penalty": field_types.number,
    "frequency_penalty": field_types.number,
    "repetition_penalty": field_types.number,
    "logit_bias": field_types.bias_by_token_id,
    "n": field_types.int32,
    "stop": field_types.text_or_list,
    "stop_token_ids": field_types.int32_list,
    "ignore_eos": field_types.boolean,
    "include_stop_str_in_output": field_types.boolean,
    "skip_special_tokens": field_types.boolean,
    **FORM_FIELDS,
    "priority": field_types.negated_int32,
    "cache_salt": field_types.text,
}

CHAT_FIELDS: dict[str, Reader] = {
    **_COMMON,
    "messages": parse_messages,
    "max_completion_tokens": field_types.int32,
    "add_generation_prompt": field_types.boolean,
    "continue_final_message": field_types.boolean,
    "logprobs": field_types.boolean,
    "top_logprobs": field_types.int32,
    "prompt_logprobs": field_types.count_or_false,
    "return_token_ids": field_types.boolean,
    "tools": parse_tools,
    "tool_choice": parse_tool_choice,
    "parallel_tool_calls": field_types.boolean,
    "chat_template_kwargs": parse_template_arguments,
}
"""The fields of a chat that are supported, each with its reader."""

COMPLETION_FIELDS: dict[str, Reader] = {
    **_COMMON,
    "prompt": parse_prompts,
    "add_special_tokens": field_types.boolean,
    "suffix": field_types.text,
    "echo": field_types.boolean,
    "logprobs": field_types.count_or_false,
    "best_of": field_types.int32,
    "return_token_ids": field_types.boolean,
}
"""The fields of a completion that are supported, each with its reader."""

TOKENIZE_FIELDS: dict[str, Reader] = {
    "model": field_types.text,
    "prompt": field_types.text,
    "content": field_types.text,
    "add_special_tokens": field_types.boolean,
    "add_special": field_types.boolean,
    "suffix": field_types.text,
}
"""The fields of a text to turn into tokens; a chat has those of a chat."""

DETOKENIZE_FIELDS: dict[str, Reader] = {
    "model": field_types.text,
    "tokens": field_types.int32_list,
}
"""The fields of tokens to turn into text, each with its reader."""

_NOTHING: tuple[object, ...] = (False, "", [], {})

NEUTRAL_VALUES: dict[str, tuple[object, ...]] = {
    "best_of": (1,),
    "top_logprobs": (0,),
    "prompt_logprobs": _NOTHING,
    "length_penalty": (1,),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "modalities": ([], ["text"]),
    "audio": _NOTHING,
    "web_search_options": (),
    "suffix": ("",),
    "echo": (False,),
    "max_completion_tokens": (),
    "use_beam_search": (False,),
    "bad_words": ([],),
    "allowed_token_ids": (),
    "logits_processors": _NOTHING,
    "truncate_prompt_tokens": (),
    "add_special_tokens": (False,),
    "return_tokens_as_token_ids": (False,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "documents": ([],),
}
"""The fields that would change the answer and are not supported, each with the values
that ask for nothing. Any other value is refused: an answer that ignores it would be
wrong.
"""

IGNORED_FIELDS = (
    "user",
    "metadata",
    "store",
    "service_tier",
    "prompt_cache_key",
    "safety_identifier",
    "verbosity",
    "reasoning_effort",
)
"""The fields that clients send and that have no effect here, for those who want to know them;
nothing reads them.
"""


TOKENIZE_NEUTRAL_VALUES: dict[str, tuple[object, ...]] = {
    "parse_special": (True,),
    "return_token_strs": (False,),
    "with_pieces": (False,),
    "truncate_prompt_tokens": (),
}
"""The same for a text to turn into tokens, in which the model's own rules are followed."""


def read_fields(
    body: Mapping[str, object],
    supported: Mapping[str, Reader],
    neutral_values: Mapping[str, tuple[object, ...]] = NEUTRAL_VALUES,
) -> dict[str, Any]:
    """Return the values of the supported fields that were given.

    Args:
        body: the JSON object.
        supported: their readers.
        neutral_values: the fields that are refused, each with the values that are not.

    Raises:
        ApiError: 400, a field has the wrong type or asks for what is not supported.
    """
    values = {
        name: read(name, body[name])
        for name, read in supported.items()
        if body.get(name) is not None
    }
    for name, neutral in neutral_values.items():
        value = body.get(name)
        if value is not None and name not in supported and not _is_one_of(value, neutral):
            raise invalid_field(name, f"{name} is not supported; leave it out.")
    return values


def _is_one_of(value: object, neutral: tuple[object, ...]) -> bool:
    # 1 == True in Python and not in JSON.
    return any(
        value == item and isinstance(value, bool) == isinstance(item, bool) for item in neutral
    )
