"""The choices of a completion, piece by piece as the server tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from headrace_gateway.openai.answer import finish_reason, stop_reason
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.completion_logprobs import (
    CompletionLogprobs,
    LogprobsWriter,
    lead_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.v1 import inference_service_pb2, stopping_pb2


class CompletionChoice(msgspec.Struct, frozen=True):
    """The text of an answer, or its new piece. The answers to a prompt follow each other.

    `stop_reason` is the stop of the request that ended it.
    """

    index: int
    text: str
    finish_reason: str | None = None
    logprobs: CompletionLogprobs | None = None
    token_ids: list[int] | UnsetType = UNSET
    prompt_token_ids: list[int] | UnsetType = UNSET
    stop_reason: str | int | UnsetType = UNSET


MAX_ECHO_CHARACTERS = 8 * 1024 * 1024
"""The most that all choices together may repeat of their prompts, which is made at once, also in a
stream; a token id is of up to seven characters.
"""

_TOKEN_ID_CHARACTERS = 7


@dataclass(frozen=True, slots=True)
class Shape:
    """What the choices of a request tell.

    Args:
        num_choices: how many there are for each prompt.
        logprobs: whether the log probabilities of their tokens are told.
        token_ids: whether the ids of their tokens are told.
    """

    num_choices: int = 1
    logprobs: bool = False
    token_ids: bool = False


@dataclass(frozen=True, slots=True)
class PromptView:
    """What the choices tell of their prompt.

    Args:
        echo: the text that they begin with.
        token_ids: of the prompt; None where they are not told.
    """

    echo: str = ""
    token_ids: tuple[int, ...] | None = None

    @property
    def num_characters(self) -> int:
        """How long it is in each choice."""
        return len(self.echo) + _TOKEN_ID_CHARACTERS * len(self.token_ids or ())


def require_bounded_echo(prompts: Iterable[PromptView], num_choices: int) -> None:
    """Check how much all choices repeat.

    Args:
        prompts: what the choices tell of each.
        num_choices: how many there are for each.

    Raises:
        ApiError: 400, it is too much.
    """
    num_characters = sum(prompt.num_characters for prompt in prompts) * num_choices
    if num_characters > MAX_ECHO_CHARACTERS:
        raise invalid_field(
            "n",
            f"The choices would repeat {num_characters} characters of their prompts, more than "
            f"{MAX_ECHO_CHARACTERS}; ask for fewer, or without echo and return_token_ids.",
        )


class PromptChoices:
    """Makes the pieces of all choices of one prompt.

    Args:
        prompt: what they tell of it.
        first_index: the index of the first of them.
        shape: what else they tell.
    """

    def __init__(self, prompt: PromptView, first_index: int, shape: Shape) -> None:
        self._prompt = prompt
        self._indices = range(first_index, first_index + shape.num_choices)
        self._shape = shape
        self._prompt_writer: LogprobsWriter | None = None
        self._writers = [LogprobsWriter(len(prompt.echo)) for _ in self._indices]

    def opening(self) -> list[CompletionChoice]:
        """Return the pieces that tell of the prompt, where it is told of."""
        ids = self._prompt.token_ids
        if not self._prompt.echo and ids is None:
            return []
        told: list[int] | UnsetType = UNSET if ids is None else list(ids)
        return [
            CompletionChoice(index, self._prompt.echo, token_ids=self._ids(), prompt_token_ids=told)
            for index in self._indices
        ]

    def pieces(self, response: inference_service_pb2.GenerateResponse) -> list[CompletionChoice]:
        """Return what a response adds: of each choice its new tokens, then its end.

        What is told of tokens does not wait for text that is held back.
        """
        pieces = self._prompt_pieces(response) if response.prompt_logprobs else []
        for delta in response.deltas:
            index = self._indices[delta.candidate_index]
            logprobs, token_ids = self._logprobs(delta), self._ids(delta.token_ids)
            if delta.text or logprobs or token_ids:
                pieces.append(CompletionChoice(index, delta.text, None, logprobs, token_ids))
            if delta.HasField("finish"):
                pieces.append(self._end(index, delta.finish))
        return pieces

    def _end(self, index: int, finish: stopping_pb2.Finish) -> CompletionChoice:
        stop = stop_reason(finish)
        return CompletionChoice(
            index,
            "",
            finish_reason(finish.reason),
            None,
            self._ids(),
            stop_reason=UNSET if stop is None else stop,
        )

    def _prompt_pieces(
        self, response: inference_service_pb2.GenerateResponse
    ) -> list[CompletionChoice]:
        if self._prompt_writer is None:
            lead = lead_of(response.prompt_logprobs, self._prompt.echo)
            self._prompt_writer = LogprobsWriter(lead=lead)
        logprobs = self._prompt_writer.write(response.prompt_logprobs)
        return [CompletionChoice(index, "", None, logprobs, self._ids()) for index in self._indices]

    def _logprobs(self, delta: inference_service_pb2.CandidateDelta) -> CompletionLogprobs | None:
        if not self._shape.logprobs or not delta.logprobs:
            return None
        return self._writers[delta.candidate_index].write(delta.logprobs)

    def _ids(self, token_ids: Iterable[int] = ()) -> list[int] | UnsetType:
        return list(token_ids) if self._shape.token_ids else UNSET
