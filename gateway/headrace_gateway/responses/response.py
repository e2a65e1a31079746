"""A response and the items of its output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from headrace_gateway.openai.logprobs import TokenLogprob
from headrace_gateway.responses.text_config import TextConfig
from headrace_gateway.responses.tools import FunctionTool, NamedFunction
from headrace_gateway.responses.wishes import Reasoning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_gateway.openai.answer import Identity, TokenCounts
    from headrace_gateway.responses.response_request import Settings

ItemStatus = Literal["in_progress", "completed", "incomplete"]
ResponseStatus = Literal["in_progress", "completed", "incomplete", "failed"]


class OutputText(msgspec.Struct, frozen=True, tag_field="type", tag="output_text"):
    """A text; there are never annotations, log probabilities where they are asked for."""

    text: str
    annotations: list[str] = []
    logprobs: list[TokenLogprob] = []


class OutputMessage(msgspec.Struct, frozen=True, tag_field="type", tag="message"):
    """What the model said."""

    id: str
    status: ItemStatus
    content: list[OutputText]
    role: str = "assistant"


class OutputCall(msgspec.Struct, frozen=True, tag_field="type", tag="function_call"):
    """A call of a function; its arguments are JSON text, unless the answer was cut."""

    id: str
    status: ItemStatus
    call_id: str
    name: str
    arguments: str


class ReasoningText(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning_text"):
    """What the model thought."""

    text: str


class OutputReasoning(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning"):
    """The reasoning before the answer, as a whole: there are no summaries."""

    id: str
    status: ItemStatus
    content: list[ReasoningText]
    summary: list[str] = []
    encrypted_content: str | None = None


OutputItem = OutputMessage | OutputCall | OutputReasoning


class InputTokensDetails(msgspec.Struct, frozen=True):
    """The input tokens that did not need to be computed; writing them costs nothing."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, frozen=True):
    """The output tokens up to the end of the reasoning."""

    reasoning_tokens: int


class ResponseUsage(msgspec.Struct, frozen=True):
    """Token counts under the names of this API."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class IncompleteDetails(msgspec.Struct, frozen=True):
    """Why an answer was cut: by its length, that of the context, or a time limit."""

    reason: str = "max_output_tokens"


class ResponseError(msgspec.Struct, frozen=True):
    """Why a response failed; the code is one of OpenAI's."""

    code: str
    message: str


class Response(msgspec.Struct, frozen=True, tag_field="object", tag="response"):
    """An answer, so far or as a whole."""

    id: str
    created_at: int
    model: str
    status: ResponseStatus
    output: list[OutputItem]
    instructions: str | None
    max_output_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_logprobs: int
    parallel_tool_calls: bool
    tool_choice: str | NamedFunction
    tools: list[FunctionTool]
    text: TextConfig
    reasoning: Reasoning
    metadata: dict[str, str]
    usage: ResponseUsage | None = None
    incomplete_details: IncompleteDetails | None = None
    error: ResponseError | None = None
    background: bool = False
    previous_response_id: str | None = None
    service_tier: str = "default"
    store: bool = False
    truncation: str = "disabled"


def response(
    identity: Identity,
    settings: Settings,
    status: ResponseStatus,
    output: Sequence[OutputItem] = (),
    usage: ResponseUsage | None = None,
    error: ResponseError | None = None,
) -> Response:
    """Return a response in a state."""
    return Response(
        id=identity.id,
        created_at=identity.created,
        model=identity.model,
        status=status,
        output=list(output),
        instructions=settings.instructions,
        max_output_tokens=settings.max_output_tokens,
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_logprobs=settings.top_logprobs,
        parallel_tool_calls=settings.parallel_tool_calls,
        tool_choice=settings.tool_choice,
        tools=list(settings.tools),
        text=settings.text,
        reasoning=settings.reasoning,
        metadata=dict(settings.metadata),
        usage=usage,
        incomplete_details=IncompleteDetails() if status == "incomplete" else None,
        error=error,
    )


def response_usage(counts: TokenCounts) -> ResponseUsage:
    """Return token counts under the names of this API."""
    return ResponseUsage(
        counts.prompt,
        InputTokensDetails(counts.cached),
        counts.output,
        OutputTokensDetails(counts.reasoning),
        counts.prompt + counts.output,
    )
