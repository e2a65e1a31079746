"""What the fields of request bodies mean, in the words of docs/parameters.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELD_DESCRIPTIONS: Mapping[str, str] = {
    "model": "a name from `/v1/models`, at most 256 characters",
    "messages": "1 to 4096 messages",
    "prompt": "a string, a list of token ids, or a list of up to 128 of either",
    "max_tokens": "at least 0",
    "max_completion_tokens": "the same; wins over `max_tokens`",
    "min_tokens": "0 to the maximum: nothing but the maximum ends the answer before",
    "temperature": "0 to 2; 0 takes the most likely token",
    "top_p": "above 0, up to 1",
    "top_k": "at least 0; 0 and -1 leave all tokens",
    "min_p": "0 to 1",
    "seed": "an integer of 64 bits with its sign; answer i of `n` has this one + i",
    "n": "1 to 16 answers to each prompt",
    "presence_penalty": "-2 to 2, against tokens that the answer holds already",
    "frequency_penalty": "-2 to 2, the same for each time that it holds them",
    "repetition_penalty": "0.1 to 10, against tokens of prompt and answer; 1 changes nothing",
    "logit_bias": "an object of at most 1024 numbers from -100 to 100 by token ids",
    "stop": "a string or a list of at most 16, each of 1 to 256 characters",
    "stop_token_ids": "at most 64 token ids",
    "ignore_eos": "true: run on past the model's end of text",
    "include_stop_str_in_output": "true: keep the stop in the text",
    "skip_special_tokens": (
        "false: control tokens have their names in the text, but for the one that ends it"
    ),
    "stream": "true: send the answer as it is made",
    "stream_options": '`{"include_usage": true}`, with `stream` only',
    "add_special_tokens": (
        "false: a text does not get the tokens that the model has around one, such as that of "
        "its start"
    ),
    "suffix": (
        "the text after the answer, which fills the gap between the prompt, a string, and it; not "
        "with both `echo` and `logprobs`"
    ),
    "echo": (
        "true: each text begins with its prompt; that of token ids shows control tokens "
        "by their names"
    ),
    "best_of": (
        "`n` to 16 answers are made, and the `n` whose tokens are the likeliest on the "
        "average returned, the best first; without `stream`"
    ),
    "return_token_ids": (
        "true: each choice has `token_ids`; `prompt_token_ids` are in each of completions and "
        "beside those of a chat (in a stream in the first chunk)"
    ),
    "add_generation_prompt": "true: the rendered chat ends with the opening of an answer",
    "continue_final_message": "true: the model continues the last message",
    "response_format": (
        '`{"type": "text"}`, `{"type": "json_object"}` or `{"type": "json_schema", '
        '"json_schema": {"schema": {…}}}`'
    ),
    "structured_outputs": (
        "an object with one of `json`, `json_object`, `regex`, `choice`, `grammar`"
    ),
    "guided_json": "a JSON schema, as an object or as text",
    "guided_regex": "a regular expression",
    "guided_choice": "a list of texts",
    "guided_grammar": "a grammar",
    "json_schema": "as `guided_json`",
    "regex": "as `guided_regex`",
    "choice": "as `guided_choice`",
    "grammar": "as `guided_grammar`",
    "priority": "-100 to 100; lower ones come first, as in vLLM and unlike gRPC",
    "cache_salt": (
        "at most 256 characters; only requests with the same one share the cache of prompts"
    ),
    "logprobs": (
        "tell how likely each token was; chat: true or false; completions: 0 to 20 rivals for each"
    ),
    "top_logprobs": "0 to 20 of the most likely tokens beside each, with `logprobs` only",
    "prompt_logprobs": (
        "0 to 20: `prompt_logprobs` beside the choices tells of each token of the prompt how "
        "likely it and so many rivals were; without `stream`"
    ),
    "tools": (
        'at most 128 of `{"type": "function", "function": {"name", "description", "parameters"}}`'
    ),
    "tool_choice": (
        '`"auto"`, `"none"`, `"required"`, or `{"type": "function", "function": {"name": …}}`'
    ),
    "parallel_tool_calls": "false: an answer has one call at most",
    "chat_template_kwargs": (
        "an object of further variables of the chat template, such as "
        '`{"enable_thinking": false}`, of at most 64 KiB'
    ),
    "request_id": "a label for the log, at most 128 printable ASCII characters",
    "rid": "another name of `request_id`, which wins",
    "content": "the same under llama.cpp's name",
    "tokens": "token ids",
    "add_special": "llama.cpp's name for `add_special_tokens`, which wins",
}
"""Those of each supported field."""
