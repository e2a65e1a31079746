"""Cuts a delta into pieces whose responses stay below 1 MiB."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from headrace_server.text.delta import AnswerDelta, CandidateDelta, ToolCallPiece

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace_server.text.logprobs import TextLogprobs

# What a response may hold by the upper bounds below. What is left of the MiB is for the ends of
# 16 candidates, of which each can name a stop sequence of 1 KiB, and for counts and times.
MAX_CONTENT_BYTES: Final = 960 * 1024
# Laying out log probabilities takes time in which others wait: with this, some milliseconds.
MAX_PROMPT_LOGPROBS_BYTES: Final = 128 * 1024

_CHARACTER_BYTES: Final = 4
_TOKEN_ID_BYTES: Final = 5
# Tags, lengths, id and number of one log probability, without the bytes of the token.
_LOGPROB_BYTES: Final = 24
# Tags, lengths, index, id and name of one piece of a call.
_CALL_BYTES: Final = 256


def fits(delta: AnswerDelta) -> bool:
    """Whether a delta is small enough as it is, which nearly every one is."""
    return not delta.prompt_logprobs and sum(map(_size, delta.candidates)) <= MAX_CONTENT_BYTES


def cut(delta: AnswerDelta) -> Iterator[AnswerDelta]:
    """Return the pieces of a delta in order."""
    if delta.prompt_logprobs:
        yield from _cut_prompt_logprobs(delta)
    else:
        yield from _cut_candidates(delta)


def _cut_prompt_logprobs(delta: AnswerDelta) -> Iterator[AnswerDelta]:
    prompt, rest = delta.prompt, delta.prompt_logprobs
    while rest:
        count = max(1, _num_fitting(map(_logprobs_size, rest), MAX_PROMPT_LOGPROBS_BYTES))
        yield AnswerDelta(prompt=prompt, prompt_logprobs=rest[:count])
        prompt, rest = None, rest[count:]


def _cut_candidates(delta: AnswerDelta) -> Iterator[AnswerDelta]:
    prompt = delta.prompt
    pieces: list[CandidateDelta] = []
    room = MAX_CONTENT_BYTES
    for rest in delta.candidates:
        while _size(rest) > room:
            piece, rest = _split(rest, room)  # noqa: PLW2901 - what is left of it
            yield AnswerDelta([*pieces, piece], prompt)
            prompt, pieces, room = None, [], MAX_CONTENT_BYTES
        pieces.append(rest)
        room -= _size(rest)
    yield replace(delta, candidates=pieces, prompt=prompt)


def _split(candidate: CandidateDelta, room: int) -> tuple[CandidateDelta, CandidateDelta]:
    """Take what fits off the front: tokens with their log probabilities, then what they say."""
    sizes = _token_sizes(candidate)
    num_tokens = _num_fitting(sizes, room)
    room -= sum(sizes[:num_tokens])
    reasoning = candidate.reasoning[: room // _CHARACTER_BYTES]
    room -= _CHARACTER_BYTES * len(reasoning)
    text = candidate.text[: room // _CHARACTER_BYTES]
    room -= _CHARACTER_BYTES * len(text)
    calls, other_calls = _split_calls(candidate.tool_calls, room)
    head = CandidateDelta(
        candidate.candidate_index,
        text,
        candidate.token_ids[:num_tokens],
        candidate.logprobs[:num_tokens],
        reasoning=reasoning,
        tool_calls=calls,
    )
    tail = replace(
        candidate,
        text=candidate.text[len(text) :],
        token_ids=candidate.token_ids[num_tokens:],
        logprobs=candidate.logprobs[num_tokens:],
        reasoning=candidate.reasoning[len(reasoning) :],
        tool_calls=other_calls,
    )
    return head, tail


def _split_calls(
    pieces: Sequence[ToolCallPiece], room: int
) -> tuple[Sequence[ToolCallPiece], Sequence[ToolCallPiece]]:
    """Take what fits off the front, of the last piece a part of its arguments."""
    count = _num_fitting(map(_call_size, pieces), room)
    head, tail = list(pieces[:count]), list(pieces[count:])
    room -= sum(map(_call_size, head)) + _CALL_BYTES
    num_characters = room // _CHARACTER_BYTES
    if tail and num_characters > 0:
        cut = tail[0]
        head.append(replace(cut, arguments=cut.arguments[:num_characters]))
        tail[0] = ToolCallPiece(cut.index, "", "", cut.arguments[num_characters:])
    return head, tail


def _size(candidate: CandidateDelta) -> int:
    num_characters = len(candidate.text) + len(candidate.reasoning)
    size = _CHARACTER_BYTES * num_characters + _TOKEN_ID_BYTES * len(candidate.token_ids)
    if candidate.tool_calls:
        size += sum(map(_call_size, candidate.tool_calls))
    return size + sum(map(_logprobs_size, candidate.logprobs)) if candidate.logprobs else size


def _call_size(piece: ToolCallPiece) -> int:
    return _CALL_BYTES + _CHARACTER_BYTES * len(piece.arguments)


def _token_sizes(candidate: CandidateDelta) -> Sequence[int]:
    """The size of each token: its id, its log probabilities, or both."""
    id_sizes = [_TOKEN_ID_BYTES] * len(candidate.token_ids)
    sizes = list(map(_logprobs_size, candidate.logprobs))
    if not id_sizes or not sizes:
        return id_sizes or sizes
    return list(map(sum, zip(id_sizes, sizes, strict=True)))


def _logprobs_size(logprobs: TextLogprobs) -> int:
    num_bytes = len(logprobs.token_bytes) + sum(map(len, logprobs.top_token_bytes))
    return _LOGPROB_BYTES * (1 + len(logprobs.top_token_ids)) + num_bytes


def _num_fitting(sizes: Iterable[int], room: int) -> int:
    """The number of the first items that together fit into `room`."""
    count = 0
    for size in sizes:
        room -= size
        if room < 0:
            break
        count += 1
    return count
