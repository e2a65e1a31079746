"""How the simulated model chooses: a text of letters, and a distribution made up around it.

Everything is a pure function of the context and of the sampling.
"""

from __future__ import annotations

import struct
from hashlib import blake2b, shake_128
from typing import TYPE_CHECKING

import numpy as np

from headrace_server.engine.logprobs import TokenLogprobs
from headrace_server.engine.model_runner import RowFault
from headrace_server.engine.simulated_vocabulary import END_OF_TURN, VOCABULARY_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from headrace_server.engine.model_runner import RowSampling, TokenMask

# The letters of an answer as their bytes. No two begin with the same byte, so that the first
# byte tells the others.
_VOWELS = [letter.encode() for letter in (*"aeiou", "é", " ", " ")]
_CONSONANTS = [letter.encode() for letter in (*"bcdfghklmnprstvwz", "Ω", "日", "🌊", ". ", "\n")]
_NEXT_BYTES = {
    letter[:length]: letter[length]
    for letter in (*_VOWELS, *_CONSONANTS)
    for length in range(1, len(letter))
}
_MEAN_ANSWER_LETTERS = 512
_NUM_ATTEMPTS = 8

# Logits: of the best candidate, from one candidate to the next, of every letter that would do, and
# of the least likely token.
_BEST_LOGIT = 6.0
_CANDIDATE_STEP = 0.5
_LETTER_LOGIT = 1.0
_LEAST_LOGIT = -8.0


def choose_token(context: npt.NDArray[np.int32], sampling: RowSampling) -> int | RowFault:
    """Choose the token after `context`: one of a text of letters, some of several bytes.

    A seed counts only where the sampling leaves a choice. NaN stands for a choice of nothing.
    """
    if _is_adjusted(sampling):
        return _choose_adjusted(context, sampling)
    banned = frozenset(sampling.banned_token_ids)
    for token_id in _candidates(context, _seed(sampling)):
        if token_id not in banned:
            return token_id
    allowed = [token_id for token_id in range(VOCABULARY_SIZE) if token_id not in banned]
    return allowed[0] if allowed else RowFault.NOT_A_NUMBER


def token_logprobs(context: npt.NDArray[np.int32], token_id: int, num_top: int) -> TokenLogprobs:
    """How likely a token is after `context`, with the most likely ones.

    The distribution knows no sampling; its most likely token is the one of a greedy choice.
    """
    logits = _logits(context, seed=0)
    logprobs = logits - np.log(np.exp(logits).sum())
    top_token_ids = np.argsort(-logprobs, kind="stable")[:num_top].tolist()
    return TokenLogprobs(
        float(logprobs[token_id]), top_token_ids, [float(logprobs[i]) for i in top_token_ids]
    )


def _seed(sampling: RowSampling) -> int:
    is_greedy = sampling.temperature == 0 or sampling.top_k == 1
    return 0 if is_greedy else sampling.seed


def _is_adjusted(sampling: RowSampling) -> bool:
    return bool(
        sampling.logit_bias
        or sampling.presence_penalty
        or sampling.frequency_penalty
        or sampling.repetition_penalty != 1.0
        or sampling.mask is not None
    )


def _choose_adjusted(context: npt.NDArray[np.int32], sampling: RowSampling) -> int | RowFault:
    """Take the best of the logits, with those of the seed's candidates, after all adjustments."""
    logits = _logits(context, _seed(sampling))
    for token_id, bias in sampling.logit_bias.items():
        logits[token_id] += bias
    seen = [*sampling.prompt_token_ids, *sampling.output_token_ids]
    if sampling.repetition_penalty != 1.0 and seen:
        repeated = np.unique(seen)
        scale = np.where(logits[repeated] > 0, 1 / sampling.repetition_penalty, 1.0)
        scale = np.where(logits[repeated] < 0, sampling.repetition_penalty, scale)
        logits[repeated] *= scale
    counts = np.bincount(np.asarray(sampling.output_token_ids, int), minlength=VOCABULARY_SIZE)
    logits -= sampling.presence_penalty * (counts > 0) + sampling.frequency_penalty * counts
    logits[list(sampling.banned_token_ids)] = -np.inf
    if sampling.mask is not None:
        logits[~_allowed(sampling.mask)] = -np.inf
    best = int(np.argmax(logits))
    return best if np.isfinite(logits[best]) else RowFault.NOT_A_NUMBER


def _allowed(mask: TokenMask) -> npt.NDArray[np.bool_]:
    bits = np.unpackbits(mask.wait().view(np.uint8), bitorder="little")
    return bits[:VOCABULARY_SIZE].astype(bool)


def _logits(context: npt.NDArray[np.int32], seed: int) -> npt.NDArray[np.float64]:
    """The logits after `context`: noise, above it the letters that would do, then candidates."""
    noise = np.frombuffer(shake_128(context.tobytes()).digest(2 * VOCABULARY_SIZE), np.uint16)
    share = noise / 2**16
    logits = _LEAST_LOGIT * share
    letters = [letter[0] for letter in _next_letters(context)]
    logits[letters] = _LETTER_LOGIT * share[letters]
    candidates = dict.fromkeys(_candidates(context, seed))
    for rank, token_id in enumerate(candidates):
        logits[token_id] = _BEST_LOGIT - rank * _CANDIDATE_STEP
    return logits


def _candidates(context: npt.NDArray[np.int32], seed: int) -> Iterator[int]:
    """The tokens that come into question, the best first."""
    tail = _tail(context)
    for length in (3, 2, 1):
        if tail[-length:] in _NEXT_BYTES:
            yield _NEXT_BYTES[tail[-length:]]
    letters = _next_letters(context)
    for attempt in range(_NUM_ATTEMPTS):
        key = struct.pack("<qqq", seed, len(context), attempt)
        digest = blake2b(context.tobytes(), key=key, digest_size=16).digest()
        end, letter = struct.unpack("<QQ", digest)
        if end % _MEAN_ANSWER_LETTERS == 0:
            yield END_OF_TURN
        yield letters[letter % len(letters)][0]


def _next_letters(context: npt.NDArray[np.int32]) -> list[bytes]:
    return _CONSONANTS if _tail(context)[-1:] in b"aeiou " else _VOWELS


def _tail(context: npt.NDArray[np.int32]) -> bytes:
    return bytes(token_id if 0 <= token_id < 256 else 0 for token_id in context[-3:].tolist())
