"""What a caller may ask for: the keyword arguments of the client's methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, NotRequired

    from headrace.tools import ToolCall


class ChatMessage(TypedDict):
    """One turn of a conversation, such as ``{"role": "user", "content": "Hi"}``.

    Args:
        role: who speaks.
        content: the words of the turn.
        name: the name of the speaker, for templates that show one.
        tool_calls: the calls of an assistant, as they were returned.
        tool_call_id: the id of the call whose result a ``tool`` tells.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    name: NotRequired[str]
    tool_calls: NotRequired[Sequence[ToolCall]]
    tool_call_id: NotRequired[str]


class Tool(TypedDict):
    """A function that the model can ask for.

    Args:
        name: 1 to 64 letters, digits, ``_`` and ``-``.
        description: what it does and when to ask for it.
        parameters: the JSON Schema of the arguments, as a dict or as JSON text. Default: no
            arguments.
    """

    name: str
    description: NotRequired[str]
    parameters: NotRequired[Mapping[str, Any] | str]


class PromptOptions(TypedDict, total=False):
    """A prompt that is not given as text, and the model that reads it.

    An option that is left out or None takes the server's default.

    Args:
        messages: the prompt as a conversation, rendered with the model's chat
            template.
        token_ids: the prompt as token ids.
        add_generation_prompt: whether the rendered conversation ends with the
            opening of an answer. Default: True, or False with
            `continue_final_message`.
        continue_final_message: whether the model continues the last message
            instead of answering it. Default: False.
        tools: what the model can ask for, at most 128.
        tool_choice: ``"auto"`` leaves it to the model, ``"none"`` hides the tools,
            ``"required"`` makes every answer at least one call; any other text is the
            name of the tool to call. Default: auto.
        parallel_tool_calls: whether an answer may have several calls. Default: True.
        template_arguments: further variables of the chat template, such as
            ``{"enable_thinking": False}``.
        add_special_tokens: whether a prompt as text gets the tokens that the model has
            around a text, such as that of its start. Default: True.
        suffix: the text after the answer, which fills the gap between a prompt as text and
            it, by models that have `Capability.INFILL`. Default: none.
        model: the name of the model or an alias. Default: the served model.
        timeout: the longest time for the call, in seconds; past it the work is
            stopped and `DeadlineExceededError` raised. Default: no limit.
    """

    messages: Sequence[ChatMessage] | None
    token_ids: Sequence[int] | None
    add_generation_prompt: bool | None
    continue_final_message: bool | None
    tools: Sequence[Tool] | None
    tool_choice: str | None
    parallel_tool_calls: bool | None
    template_arguments: Mapping[str, Any] | None
    add_special_tokens: bool | None
    suffix: str | None
    model: str | None
    timeout: float | None


class GenerateOptions(PromptOptions, total=False):
    """The wishes for an answer.

    Where no default is given below, the model's own holds; `get_model` tells it.

    Args:
        temperature: the randomness, from 0 to 2. 0 takes the most likely token.
        top_p: the probability mass to choose from, above 0 and up to 1.
        top_k: the number of the most likely tokens to choose from; 0 leaves all.
        min_p: the least probability relative to the most likely token, 0 to 1.
        seed: the same seed, prompt and options give the same answer; candidate i
            has this one + i. Default: a fresh one for each call.
        presence_penalty: the number that is taken off the logits of tokens that the
            output holds already, from -2 to 2.
        frequency_penalty: the same for each time that it holds them.
        repetition_penalty: the number that divides positive logits of tokens that
            prompt or output hold already and multiplies negative ones, 0.1 to 10.
        logit_bias: the numbers that are added to the logits of some tokens, by id, each
            from -100 to 100. Default: none.
        candidate_count: the number of answers to the prompt, 1 to 16. Default: 1.
        max_output_tokens: the largest number of tokens. Default: the room that the
            prompt leaves.
        min_output_tokens: the number of tokens before which nothing ends the answer.
            Default: 0.
        stop: one text or several that end the answer.
        stop_token_ids: token ids that end the answer, beside the model's own.
        ignore_end_of_text: whether the model runs on past its end. Default: False.
        include_stop: whether the stop that matched stays in the text. Default: False.
        json_schema: the JSON Schema of the answer, as a dict or as JSON text. Of this and
            the next four options at most one may be given.
        json_object: whether the answer is a JSON object of any content. Default: False.
        regex: the regular expression that matches the whole answer.
        grammar: the grammar of the answer in llguidance's variant of the Lark syntax.
        choices: the texts of which the answer is one.
        max_queue_seconds: the longest wait for the engine; past it
            `QueueTimeoutError` is raised. Default: no limit.
        max_seconds: the longest time for the answer; past it the answer ends where
            it is, with `FinishReason.TIME_LIMIT`. Default: no limit.
        output_text: whether the answer carries text. Default: True.
        output_token_ids: whether the answer carries token ids. Default: True.
        output_special_tokens: whether control tokens have their names in the text, but for
            the one that ends it. Default: False.
        top_logprobs: the number of the most likely tokens, 0 to 20, to tell with the log
            probability of each output token. Default: no log probabilities are told.
        prompt_logprobs: the same for the tokens of the prompt; with
            ``max_output_tokens=0`` nothing else is made.
        priority: the rank in the server's queue, -100 to 100; those of a higher one come
            first. Default: 0.
        cache_salt: a secret, of at most 256 characters; only requests with the same one
            share what the server remembers of prompts. Default: shared with all who
            give none.
        request_id: a label for the server's log, at most 128 printable ASCII
            characters; only one request with it is answered at a time.
    """

    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    seed: int | None
    presence_penalty: float | None
    frequency_penalty: float | None
    repetition_penalty: float | None
    logit_bias: Mapping[int, float] | None
    candidate_count: int | None
    max_output_tokens: int | None
    min_output_tokens: int | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    ignore_end_of_text: bool | None
    include_stop: bool | None
    json_schema: Mapping[str, Any] | str | None
    json_object: bool | None
    regex: str | None
    grammar: str | None
    choices: Sequence[str] | None
    max_queue_seconds: float | None
    max_seconds: float | None
    output_text: bool | None
    output_token_ids: bool | None
    output_special_tokens: bool | None
    top_logprobs: int | None
    prompt_logprobs: int | None
    priority: int | None
    cache_salt: str | None
    request_id: str | None


class StreamOptions(GenerateOptions, total=False):
    """The wishes for an answer and for the pieces it comes in.

    Args:
        chunk_min_tokens: the number of tokens to collect for a piece, 1 to 1024: more
            of them cost less. Default: 1.
        chunk_max_delay_seconds: the longest wait for that number, 0 to 60. Default:
            no limit.
    """

    chunk_min_tokens: int | None
    chunk_max_delay_seconds: float | None
