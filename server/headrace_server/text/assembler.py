"""Puts the text of an answer together from its tokens and decides where it ends. Never waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace_server.backends.interface import BackendFinish
from headrace_server.text.generation import Finish, FinishReason
from headrace_server.text.stop_strings import StopMatcher

if TYPE_CHECKING:
    from headrace_server.backends.interface import Tokens
    from headrace_server.text.detokenizer import Detokenizer
    from headrace_server.text.generation import GenerationRequest


class AnswerAssembler:
    """Collects what the next delta of an answer carries.

    Args:
        request: says what ends the answer and whether it has text.
        detokenizer: at the start of the answer.

    Attributes:
        finish: the end of the answer once it is known; nothing is added after it.
        num_output_tokens: tokens of the answer so far.
    """

    def __init__(self, request: GenerationRequest, detokenizer: Detokenizer) -> None:
        self._stopping = request.stopping
        self._want_text = request.want_text
        reads_text = request.want_text or bool(request.stopping.stop_sequences)
        self._detokenizer = detokenizer if reads_text else None
        self._stops = StopMatcher(
            request.stopping.stop_sequences, include_stop=request.stopping.include_stop_in_output
        )
        self._text_parts: list[str] = []
        self._token_ids: list[int] = []
        self.finish: Finish | None = None
        self.num_output_tokens = 0

    @property
    def num_pending_tokens(self) -> int:
        """The number of tokens since the last `take`."""
        return len(self._token_ids)

    @property
    def has_pending_text(self) -> bool:
        """Whether there is text since the last `take`."""
        return bool(self._text_parts)

    def add(self, tokens: Tokens) -> None:
        """Add the tokens of an event up to the one that ends the answer."""
        last_is_stop = tokens.finish is BackendFinish.STOP_TOKEN
        ordinary = tokens.token_ids[:-1] if last_is_stop else tokens.token_ids
        for token_id in ordinary:
            self._count(token_id)
            if self._detokenizer is not None:
                self._scan(self._detokenizer.feed(token_id))
                if self.finish is not None:
                    return
        if last_is_stop:
            self._count(tokens.token_ids[-1])
            self._end_at_stop_token(tokens.token_ids[-1])
        elif tokens.finish is BackendFinish.MAX_OUTPUT_TOKENS:
            self.end(self._limit_reason())

    def end(self, reason: FinishReason) -> None:
        """End the answer where it is, unless its last characters complete a stop sequence."""
        if self._detokenizer is not None:
            self._scan(self._detokenizer.flush())
        if self.finish is None:
            self._keep(self._stops.flush())
            self.finish = Finish(reason)

    def take(self) -> tuple[str, tuple[int, ...]]:
        """Return the text and the token ids since the last time."""
        text, token_ids = "".join(self._text_parts), tuple(self._token_ids)
        self._text_parts.clear()
        self._token_ids.clear()
        return text, token_ids

    def _count(self, token_id: int) -> None:
        self.num_output_tokens += 1
        self._token_ids.append(token_id)

    def _scan(self, piece: str) -> None:
        may_stop = self.num_output_tokens >= self._stopping.min_output_tokens
        scanned = self._stops.feed(piece, may_stop=may_stop)
        self._keep(scanned.text)
        if scanned.stop_sequence is not None:
            self.finish = Finish(FinishReason.STOP_SEQUENCE, stop_sequence=scanned.stop_sequence)

    def _end_at_stop_token(self, token_id: int) -> None:
        """End with a token that has text only when the request wants to see it."""
        if self._detokenizer is not None:
            shown = self._stopping.include_stop_in_output
            text = self._detokenizer.feed(token_id, show_special=True) if shown else ""
            text += self._detokenizer.flush()
            self._keep(self._stops.feed(text, may_stop=False).text + self._stops.flush())
        if token_id in self._stopping.stop_token_ids:
            self.finish = Finish(FinishReason.STOP_SEQUENCE, stop_token_id=token_id)
        else:
            self.finish = Finish(FinishReason.END_OF_TEXT)

    def _limit_reason(self) -> FinishReason:
        if self._stopping.max_output_tokens is None:
            return FinishReason.CONTEXT_LENGTH
        return FinishReason.MAX_OUTPUT_TOKENS

    def _keep(self, text: str) -> None:
        if text and self._want_text:
            self._text_parts.append(text)
