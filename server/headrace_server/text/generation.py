"""The front's own types of a request for an answer, which are valid by construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from headrace_server.text.tools import NO_TOOLS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace_server.grammar.spec import ConstraintSpec
    from headrace_server.text.tools import ToolCall, ToolUse

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """A prompt given to the tokenizer as it is, or two texts whose gap the model fills.

    Args:
        text: of the prompt.
        add_special_tokens: whether it gets the tokens that the model has around a text.
        suffix: the text after the gap; empty where there is none.
    """

    text: str
    add_special_tokens: bool = True
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """A prompt given to the model as it is."""

    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One turn of a conversation.

    Args:
        role: who speaks.
        content: the words.
        name: None when not given.
        tool_calls: those of an assistant.
        tool_call_id: the call whose result a tool tells; None when not given.
    """

    role: Role
    content: str
    name: str | None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class ChatPrompt:
    """A conversation to render with the model's chat template.

    Args:
        messages: at least one.
        add_generation_prompt: whether the answer is opened.
        continue_final_message: whether the last message is left open.
        tool_use: what the model can ask for.
        template_arguments_json: further variables of the template as a JSON object, which may not
            be one; empty for none.
    """

    messages: tuple[ChatMessage, ...]
    add_generation_prompt: bool
    continue_final_message: bool
    tool_use: ToolUse = NO_TOOLS
    template_arguments_json: str = ""


Prompt = TextPrompt | TokenPrompt | ChatPrompt


@dataclass(frozen=True, slots=True)
class TokenizedPrompt:
    """A prompt in tokens, at least one; `text` is what was tokenized, None for a `TokenPrompt`."""

    token_ids: tuple[int, ...]
    text: str | None


@dataclass(frozen=True, slots=True)
class Sampling:
    """What the request asks for; None takes the model's default. `top_k` 0 leaves all.

    The penalties and the bias are those of `backends.interface.SamplingParams`.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stopping:
    """When the answer ends. `max_output_tokens` None leaves the room of the context."""

    max_output_tokens: int | None = None
    min_output_tokens: int = 0
    stop_sequences: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_end_of_text: bool = False
    include_stop_in_output: bool = False


@dataclass(frozen=True, slots=True)
class Chunking:
    """How the answer is cut.

    Args:
        min_tokens: tokens of all candidates to collect before a delta is due; the end of a
            candidate is due at once.
        max_delay_seconds: longest wait for `min_tokens`; None has no limit.
        whole: one delta for the whole answer.
    """

    min_tokens: int = 1
    max_delay_seconds: float | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A request in which every field is in range; only its length is not known yet.

    Args:
        request_id: the server's own id, unique for ever.
        num_candidates: how many answers to the prompt.
        want_text: whether deltas carry text.
        want_token_ids: whether deltas carry token ids.
        show_special_tokens: whether control tokens have their names in the text.
        num_top_logprobs: how many of the most likely tokens are told with the log probability
            of each output token; None wants no log probabilities.
        num_prompt_top_logprobs: the same for the prompt.
        constraint: the form that each candidate must have; it may turn out to have none.
        max_queue_seconds: see max_queue_duration in the contract.
        max_seconds: see max_duration in the contract.
        priority: requests of a higher one come first.
        caller: who asks; the engine is shared fairly between callers.
        key_name, cache_salt: only requests with the same two share what is computed of prompts.
    """

    request_id: str
    prompt: Prompt
    sampling: Sampling = Sampling()
    stopping: Stopping = Stopping()
    num_candidates: int = 1
    want_text: bool = True
    want_token_ids: bool = False
    show_special_tokens: bool = False
    num_top_logprobs: int | None = None
    num_prompt_top_logprobs: int | None = None
    chunking: Chunking = Chunking()
    constraint: ConstraintSpec | None = None
    max_queue_seconds: float | None = None
    max_seconds: float | None = None
    priority: int = 0
    caller: str = ""
    key_name: str = ""
    cache_salt: str = ""
