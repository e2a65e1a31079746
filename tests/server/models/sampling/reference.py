"""Sampling by definition: one row, one rule after the other, in numpy and double precision."""

import math

import numpy as np

from headrace_server.engine.model_runner import RowSampling

_MASK_32, _MASK_64 = (1 << 32) - 1, (1 << 64) - 1


def make_row(**changes) -> RowSampling:
    values = {
        "position": 0,
        "temperature": 1.0,
        "top_k": None,
        "top_p": 1.0,
        "min_p": 0.0,
        "seed": 0,
        "banned_token_ids": (),
    }
    return RowSampling(**(values | changes))


class ReadyMask:
    """A mask that allows some ids."""

    def __init__(self, allowed, vocabulary_size: int) -> None:
        words = [0] * -(-vocabulary_size // 32)
        for token_id in allowed:
            words[token_id // 32] |= 1 << token_id % 32
        self.allowed = frozenset(allowed)
        self._words = np.array(words, dtype=np.uint32).view(np.int32)

    def wait(self) -> np.ndarray:
        return self._words


def changed_logits(logits: np.ndarray, row: RowSampling) -> np.ndarray:
    """Logits [vocabulary] after bias, bans, mask and penalties."""
    changed = [float(logit) for logit in logits]
    for token_id, amount in row.logit_bias.items():
        changed[token_id] += amount
    for token_id in set(row.prompt_token_ids) | set(row.output_token_ids):
        if changed[token_id] > 0:
            changed[token_id] /= row.repetition_penalty
        else:
            changed[token_id] *= row.repetition_penalty
    for token_id in row.output_token_ids:
        changed[token_id] -= row.frequency_penalty
    for token_id in set(row.output_token_ids):
        changed[token_id] -= row.presence_penalty
    for token_id in range(len(changed)):
        if row.mask is not None and token_id not in row.mask.allowed:
            changed[token_id] = -math.inf
        if token_id in row.banned_token_ids:
            changed[token_id] = -math.inf
    return np.array(changed)


def kept_tokens(logits: np.ndarray, row: RowSampling) -> list[int]:
    """The ids that top-k, top-p and min-p leave, of logits [vocabulary], the most likely first."""
    order = np.lexsort((np.arange(len(logits)), -logits))[: row.top_k]
    order = order[logits[order] > -math.inf]
    weights = np.exp((logits[order] - logits[order[0]]) / row.temperature)
    limit = math.inf if row.top_p >= 1.0 else row.top_p * weights.sum()
    kept, mass = [], 0.0
    for token, weight in zip(order.tolist(), weights.tolist(), strict=True):
        if not kept or (mass < limit and weight >= row.min_p):
            kept.append(token)
        mass += weight
    return kept


def chosen_token(logits: np.ndarray, row: RowSampling) -> int:
    """The token of the largest sum of score and noise among those kept."""
    changed = changed_logits(logits, row)
    if row.temperature == 0.0:
        return int(changed.argmax())
    scores = {
        token: changed[token] / row.temperature + noise(row.seed, row.position, token)
        for token in kept_tokens(changed, row)
    }
    return max(scores, key=scores.get)


def noise(seed: int, position: int, token_id: int) -> float:
    """Gumbel noise: -log of the time of a token, which waits for the first of its block."""
    keys = _split_mix((_split_mix(seed & _MASK_64) + position * 0x9E3779B97F4A7C15) & _MASK_64)
    of_block, of_token = _hash(keys, ~(token_id // 64)), _hash(keys, token_id)
    time = _exponential(of_block) / 64
    if of_block % 64 != token_id % 64:
        time += _exponential(of_token)
    return -math.log(time)


def _exponential(bits: int) -> float:
    uniform = (bits & 0x7FFFFFFF) / 2**31
    return -math.log1p(-min(max(uniform, 2.0**-32), 1 - 2.0**-24))


def _hash(keys: int, number: int) -> int:
    bits = ((number & _MASK_32) ^ (keys & _MASK_32)) * (keys >> 32 | 1) & _MASK_32
    for shift, factor in ((16, 0x21F0AAAD), (15, 0xD35A2D97), (15, 1)):
        bits = (bits ^ bits >> shift) * factor & _MASK_32
    return bits


def _split_mix(value: int) -> int:
    value = (value + 0x9E3779B97F4A7C15) & _MASK_64
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK_64
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK_64
    return value ^ value >> 31
