"""A model runner without a model: answers that are a pure function of what lies in the KV blocks.

It keeps the token ids themselves where a model keeps keys and values, reads the whole context
back from the blocks, and derives the next token from that. A wrong block, a block held
twice or a wrong position changes the answer, as it would with a real model.

The vocabulary is the 256 bytes and `SPECIAL_TOKENS`; `simulated_model/` holds its tokenizer. When
faults are on, the fault tokens act as soon as a step computes them.
"""

from __future__ import annotations

import os
import signal
import struct
import time
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headrace_server.engine.model_runner import (
    ModelDescription,
    ModelLoadError,
    RowFault,
    RowOutput,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace_server.engine.model_runner import (
        BatchRow,
        ReportProgress,
        RowSampling,
        TokenMask,
    )
    from headrace_server.engine.settings import EngineSettings, SimulatedSettings

# Their ids follow the bytes, in this order.
SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|fault_exit|>",  # the process ends as if it was killed
    "<|fault_hang|>",  # the step never ends
    "<|fault_raise|>",  # the step raises an exception
    "<|fault_nan|>",  # the row has no numbers to choose from
)
VOCABULARY_SIZE = 256 + len(SPECIAL_TOKENS)
END_OF_TEXT, _, _, FAULT_EXIT, FAULT_HANG, FAULT_RAISE, FAULT_NAN = range(256, VOCABULARY_SIZE)
END_OF_TURN = SPECIAL_TOKENS.index("<|im_end|>") + 256

MODEL_DIRECTORY = Path(__file__).parent / "simulated_model"

# Without a size given, the KV cache holds so many contexts of full length.
DEFAULT_NUM_CONTEXTS = 16

_LOAD_PARTS = 10

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


class SimulatedRunner:
    """Implements `ModelRunner`; `load` takes the time that the settings say."""

    def __init__(self, description: ModelDescription, settings: SimulatedSettings) -> None:
        self._description = description
        self._settings = settings
        self._slots = np.full((description.num_blocks, description.block_size), -1, np.int32)

    @classmethod
    def load(cls, settings: EngineSettings, report_progress: ReportProgress) -> SimulatedRunner:
        """Make a runner.

        Raises:
            ModelLoadError: the KV cache does not hold a block.
        """
        simulated = settings.simulated
        for part in range(_LOAD_PARTS):
            report_progress("loading the simulated model", part / _LOAD_PARTS)
            time.sleep(simulated.load_seconds / _LOAD_PARTS)
        context_length = min(
            simulated.context_length, settings.max_context_length or simulated.context_length
        )
        block_bytes = settings.block_size * np.dtype(np.int32).itemsize
        num_blocks = -(-context_length // settings.block_size) * DEFAULT_NUM_CONTEXTS
        if settings.kv_cache_bytes is not None:
            num_blocks = settings.kv_cache_bytes // block_bytes
        if num_blocks == 0:
            raise ModelLoadError(
                f"The KV cache of {settings.kv_cache_bytes} bytes does not hold one block; give it "
                f"at least {block_bytes} bytes."
            )
        description = ModelDescription(
            directory=str(MODEL_DIRECTORY),
            context_length=context_length,
            vocabulary_size=VOCABULARY_SIZE,
            num_blocks=num_blocks,
            block_size=settings.block_size,
            device_type="cpu",
        )
        return cls(description, simulated)

    @property
    def description(self) -> ModelDescription:
        """The facts of the simulated model."""
        return self._description

    def forward(self, batch: Sequence[BatchRow]) -> list[RowOutput | RowFault]:
        """Take the step's time, store the tokens and choose the next ones."""
        time.sleep(self._settings.step_seconds)
        return [self._compute(row) for row in batch]

    def _compute(self, row: BatchRow) -> RowOutput | RowFault:
        if self._settings.faults:
            _act_on_faults(row.token_ids)
        end = row.start + len(row.token_ids)
        positions = np.arange(row.start, end)
        block_ids = np.asarray(row.block_ids)
        block_size = self._description.block_size
        self._slots[block_ids[positions // block_size], positions % block_size] = row.token_ids
        if row.sampling is None:
            return RowOutput(None)
        context = self._slots[block_ids].reshape(-1)[:end]
        if self._settings.faults and FAULT_NAN in context:
            return RowFault.NOT_A_NUMBER
        choice = choose_token(context, row.sampling)
        return choice if isinstance(choice, RowFault) else RowOutput(choice)


def choose_token(context: np.ndarray, sampling: RowSampling) -> int | RowFault:
    """Choose the token after `context`: one of a text of letters, some of several bytes.

    A seed counts only where the sampling leaves a choice. NaN stands for a choice of nothing.
    """
    banned = frozenset(sampling.banned_token_ids)
    if sampling.mask is not None:
        banned |= _masked_token_ids(sampling.mask)
    for token_id in _candidates(context, sampling):
        if token_id not in banned:
            return token_id
    allowed = [token_id for token_id in range(VOCABULARY_SIZE) if token_id not in banned]
    return allowed[0] if allowed else RowFault.NOT_A_NUMBER


def _masked_token_ids(mask: TokenMask) -> frozenset[int]:
    bits = np.unpackbits(mask.wait().view(np.uint8), bitorder="little")[:VOCABULARY_SIZE]
    return frozenset(np.flatnonzero(bits == 0).tolist())


def _candidates(context: np.ndarray, sampling: RowSampling) -> Iterator[int]:
    """The tokens that come into question, the best first."""
    tail = bytes(token_id if 0 <= token_id < 256 else 0 for token_id in context[-3:].tolist())
    for length in (3, 2, 1):
        if tail[-length:] in _NEXT_BYTES:
            yield _NEXT_BYTES[tail[-length:]]
    is_greedy = sampling.temperature == 0 or sampling.top_k == 1
    seed = 0 if is_greedy else sampling.seed
    letters = _CONSONANTS if tail[-1:] in b"aeiou " else _VOWELS
    for attempt in range(8):
        key = struct.pack("<qqq", seed, sampling.position, attempt)
        digest = blake2b(context.tobytes(), key=key, digest_size=16).digest()
        end, letter = struct.unpack("<QQ", digest)
        if end % _MEAN_ANSWER_LETTERS == 0:
            yield END_OF_TURN
        yield letters[letter % len(letters)][0]


def _act_on_faults(token_ids: Sequence[int]) -> None:
    if FAULT_EXIT in token_ids:
        os.kill(os.getpid(), signal.SIGKILL)
    while FAULT_HANG in token_ids:
        time.sleep(3600)
    if FAULT_RAISE in token_ids:
        raise RuntimeError("fault on demand")
