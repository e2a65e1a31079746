"""Puts a candidate's text together from its tokens and decides where it ends. Never waits."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace_server.backends.interface import BackendFinish
from headrace_server.text.delta import CandidateDelta, Finish, FinishReason
from headrace_server.text.logprobs import add_bytes
from headrace_server.text.stop_strings import StopMatcher

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.backends.interface import Tokens
    from headrace_server.text.delta import ToolCallPiece
    from headrace_server.text.detokenizer import TokenDecoder
    from headrace_server.text.generation import GenerationRequest
    from headrace_server.text.logprobs import TextLogprobs
    from headrace_server.text.parsing.output_parser import OutputParser
    from headrace_server.text.parsing.sink import Parsed


class CandidateAssembler:
    """Collects what the next delta of a candidate carries.

    Args:
        request: says what ends the candidate and what is wanted of it.
        candidate_index: from 0.
        decoder: of the model.
        after: the tokens of the prompt.
        parser: sorts the output; None where all of it is text.
        shown_token_ids: the control tokens that `parser` reads.

    Attributes:
        finish: the end of the candidate once it is known; nothing is added after it.
        num_output_tokens: its tokens so far.
        num_reasoning_tokens: those up to the last one that has told of the reasoning.
    """

    def __init__(
        self,
        request: GenerationRequest,
        candidate_index: int,
        decoder: TokenDecoder,
        after: Sequence[int],
        parser: OutputParser | None = None,
        shown_token_ids: frozenset[int] = frozenset(),
    ) -> None:
        self._candidate_index = candidate_index
        self._stopping = request.stopping
        self._wants_text = request.want_text
        self._wants_logprobs = request.num_top_logprobs is not None
        self._shows_special_tokens = request.show_special_tokens
        self._wants_tokens = request.want_token_ids or self._wants_logprobs
        # Without text, too, the end tells whether there were calls.
        reads_text = (
            self._wants_text
            or self._wants_logprobs
            or bool(request.stopping.stop_sequences)
            or parser is not None
        )
        self._decoder = decoder
        self._detokenizer = decoder.start(after) if reads_text else None
        self._stops = StopMatcher(
            request.stopping.stop_sequences, include_stop=request.stopping.include_stop_in_output
        )
        self._parser = parser
        self._shown_token_ids = shown_token_ids
        self._text_parts: list[str] = []
        self._reasoning_parts: list[str] = []
        self._tool_calls: list[ToolCallPiece] = []
        self._token_ids: list[int] = []
        self._logprobs: list[TextLogprobs] = []
        self._cut_deltas: deque[CandidateDelta] = deque()
        self._is_complete = False
        self.finish: Finish | None = None
        self.num_output_tokens = 0
        self.num_reasoning_tokens = 0

    @property
    def num_pending_tokens(self) -> int:
        """The number of tokens since the last `take`."""
        return len(self._token_ids) + sum(len(delta.token_ids) for delta in self._cut_deltas)

    @property
    def has_news(self) -> bool:
        """Whether there is something to show since the last `take`."""
        return (
            bool(self._cut_deltas or self._text_parts or self._reasoning_parts or self._tool_calls)
            or (self._wants_tokens and bool(self._token_ids))
            or self.has_untold_finish
        )

    @property
    def has_untold_finish(self) -> bool:
        """Whether the candidate has ended since the last `take`."""
        return self.finish is not None and not self._is_complete

    def add(self, tokens: Tokens) -> None:
        """Add the tokens of an event up to the one that ends the candidate."""
        last_is_stop = tokens.finish is BackendFinish.STOP_TOKEN
        num_ordinary = len(tokens.token_ids) - last_is_stop
        for index in range(num_ordinary):
            self._add_one(tokens, index)
            if self.finish is not None:
                return
        if last_is_stop:
            self._end_at_stop_token(tokens, num_ordinary)
        elif tokens.finish is BackendFinish.COMPLETE:
            self.end(FinishReason.END_OF_TEXT)
        elif tokens.finish is BackendFinish.MAX_OUTPUT_TOKENS:
            self.end(self._limit_reason())

    def end(self, reason: FinishReason) -> None:
        """End the candidate where it is, unless its last characters complete a stop sequence."""
        if self.finish is None and self._detokenizer is not None:
            self._scan(self._detokenizer.flush())
        if self.finish is None:
            self._keep(self._stops.flush())
        if self.finish is None:
            self._finish(Finish(reason))

    def take(self) -> CandidateDelta:
        """Return what is new since the last time, up to text behind a call.

        That text is in a delta of its own, since within one text comes before calls: there is
        more to take while `has_news`.
        """
        if self._cut_deltas:
            return self._cut_deltas.popleft()
        self._is_complete = self.finish is not None
        return self._take_last(self.finish)

    def _take_last(self, finish: Finish | None) -> CandidateDelta:
        delta = CandidateDelta(
            candidate_index=self._candidate_index,
            text="".join(self._text_parts),
            token_ids=self._token_ids,
            logprobs=self._logprobs,
            finish=finish,
            reasoning="".join(self._reasoning_parts),
            tool_calls=_joined(self._tool_calls),
        )
        self._text_parts, self._token_ids, self._logprobs = [], [], []
        self._reasoning_parts, self._tool_calls = [], []
        return delta

    def _add_one(self, tokens: Tokens, index: int) -> None:
        token_id = tokens.token_ids[index]
        self._count(token_id)
        if self._detokenizer is not None:
            shown = self._shows_special_tokens or token_id in self._shown_token_ids
            text = self._detokenizer.feed(token_id, show_special=shown)
            if self._wants_logprobs:
                token_bytes = self._detokenizer.fed_bytes(token_id, text, show_special=shown)
                self._explain(tokens, index, token_bytes)
            self._scan(text)

    def _count(self, token_id: int) -> None:
        self.num_output_tokens += 1
        self._token_ids.append(token_id)

    def _explain(self, tokens: Tokens, index: int, token_bytes: bytes) -> None:
        """Keep how likely a token was."""
        token_id, logprobs = tokens.token_ids[index], tokens.logprobs[index]
        self._logprobs.append(add_bytes(logprobs, token_id, token_bytes, self._decoder))

    def _scan(self, piece: str) -> None:
        may_stop = self.num_output_tokens >= self._stopping.min_output_tokens
        scanned = self._stops.feed(piece, may_stop=may_stop)
        self._keep(scanned.text)
        if scanned.stop_sequence is not None and self.finish is None:
            self._finish(Finish(FinishReason.STOP_SEQUENCE, stop_sequence=scanned.stop_sequence))

    def _end_at_stop_token(self, tokens: Tokens, index: int) -> None:
        """End with a token that has text only when the request wants to see it."""
        token_id = tokens.token_ids[index]
        self._count(token_id)
        if self._detokenizer is not None:
            shown = self._stopping.include_stop_in_output
            text = self._detokenizer.feed(token_id, show_special=True) if shown else ""
            if self._wants_logprobs:
                token_bytes = (
                    self._detokenizer.fed_bytes(token_id, text, show_special=True) if shown else b""
                )
                self._explain(tokens, index, token_bytes)
            text += self._detokenizer.flush()
            self._keep(self._stops.feed(text, may_stop=False).text + self._stops.flush())
        if self.finish is not None:
            return
        if token_id in self._stopping.stop_token_ids:
            self._finish(Finish(FinishReason.STOP_SEQUENCE, stop_token_id=token_id))
        else:
            self._finish(Finish(FinishReason.END_OF_TEXT))

    def _limit_reason(self) -> FinishReason:
        if self._stopping.max_output_tokens is None:
            return FinishReason.CONTEXT_LENGTH
        return FinishReason.MAX_OUTPUT_TOKENS

    def _keep(self, text: str) -> None:
        """Take text that is certain, which may be the end of the last call that may be."""
        if self._parser is None:
            if text and self._wants_text:
                self._text_parts.append(text)
            return
        self._keep_parsed(self._parser.feed(text))
        if self._parser.is_over:
            self._finish(Finish(FinishReason.TOOL_CALLS))

    def _keep_parsed(self, parts: Sequence[Parsed]) -> None:
        for parsed in parts:
            self._keep_part(parsed)

    def _keep_part(self, parsed: Parsed) -> None:
        if parsed.reasoning:
            self.num_reasoning_tokens = self.num_output_tokens
        if not self._wants_text:
            return
        if self._tool_calls and (parsed.reasoning or parsed.text):
            self._cut_deltas.append(self._take_last(None))
        if parsed.reasoning:
            self._reasoning_parts.append(parsed.reasoning)
        if parsed.text:
            self._text_parts.append(parsed.text)
        self._tool_calls += parsed.tool_calls

    def _finish(self, finish: Finish) -> None:
        self.finish = finish
        if self._parser is not None:
            self._keep_parsed(self._parser.end())
            if finish.reason is FinishReason.END_OF_TEXT and self._parser.has_only_whole_calls:
                self.finish = Finish(FinishReason.TOOL_CALLS)


def _joined(pieces: Sequence[ToolCallPiece]) -> Sequence[ToolCallPiece]:
    """Join the pieces of each call."""
    joined: list[ToolCallPiece] = []
    for piece in pieces:
        if joined and joined[-1].index == piece.index:
            first = joined[-1]
            joined[-1] = replace(first, arguments=first.arguments + piece.arguments)
        else:
            joined.append(piece)
    return joined
