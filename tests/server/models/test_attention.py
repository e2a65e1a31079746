"""Paged attention against the definition, and what is computed together."""

import random

import pytest
import torch

import headrace_server.models  # noqa: F401
from headrace_server.engine.model_runner import BatchRow
from headrace_server.models.attention.plan import AttentionPlanner
from headrace_server.models.attention.sdpa import Scoring, paged_attention
from headrace_server.models.kv_cache import LayerCache
from headrace_server.models.precision import Precision, WeightFormat
from headrace_server.models.step_inputs import row_order

PRECISION = Precision(
    torch.device("cpu"), torch.float32, kv=torch.float32, weights=WeightFormat.DENSE
)
NUM_HEADS, NUM_KV_HEADS, HEAD_DIM = 6, 2, 8
WINDOWS = (None, 7, 300)


def attention_by_definition(query, keys, values, scoring):
    """One token's attention in double precision; the last key is its own."""
    window, scale = scoring.window, scoring.scale or 1 / HEAD_DIM**0.5
    if window is not None:
        keys, values = keys[-window:], values[-window:]
    heads = []
    for head in range(NUM_HEADS):
        shared = head // (NUM_HEADS // NUM_KV_HEADS)
        scores = keys[:, shared].double() @ query[head].double() * scale
        if scoring.softcap is not None:
            scores = (scores / scoring.softcap).tanh() * scoring.softcap
        heads.append(scores.softmax(0) @ values[:, shared].double())
    return torch.cat(heads)


def rows_of(lengths, block_size, num_blocks, seed):
    """Rows of (start, tokens), with blocks in random order."""
    free = list(range(num_blocks))
    random.Random(seed).shuffle(free)
    rows = []
    for index, (start, num_tokens) in enumerate(lengths):
        blocks = [free.pop() for _ in range(-(-(start + num_tokens) // block_size))]
        rows.append(BatchRow(index, [0] * num_tokens, start, blocks, None))
    return rows


@pytest.mark.parametrize("block_size", [16, 3])
@pytest.mark.parametrize(
    "scoring",
    [*map(Scoring, WINDOWS), Scoring(7, scale=0.7), Scoring(None, scale=2.0, softcap=1.5)],
    ids=str,
)
@pytest.mark.parametrize(
    "lengths",
    [
        [(0, 1), (40, 1), (41, 1), (700, 1), (15, 1), (16, 1)],
        [(0, 600)],
        [(250, 9), (256, 2), (3, 1), (0, 33), (511, 258), (90, 1)],
    ],
    ids=["decode", "prompt", "mixed"],
)
def test_attention_follows_the_definition(lengths, scoring, block_size):
    """Decode rows and parts of prompts, together, attend to exactly their own context."""
    torch.manual_seed(0)
    num_blocks = 1600 // block_size + 20
    cache = LayerCache(
        keys=torch.randn(num_blocks, NUM_KV_HEADS, HEAD_DIM, block_size),
        values=torch.randn(num_blocks, NUM_KV_HEADS, block_size, HEAD_DIM),
    )
    planner = AttentionPlanner(block_size, 4096, WINDOWS, PRECISION)
    batch = rows_of(lengths, block_size, num_blocks, seed=1)
    rows = [batch[index] for index in row_order(batch)]
    queries = torch.randn(sum(len(row.token_ids) for row in rows), NUM_HEADS * HEAD_DIM)
    actual = paged_attention(queries, cache, planner.plan(rows), scoring)
    expected = []
    for row in rows:
        blocks = torch.tensor(row.block_ids)
        all_keys = cache.keys[blocks].permute(0, 3, 1, 2).flatten(0, 1)
        all_values = cache.values[blocks].transpose(1, 2).flatten(0, 1)
        for offset in range(len(row.token_ids)):
            end = row.start + offset + 1
            keys, values = all_keys[:end], all_values[:end]
            query = queries[len(expected)].view(NUM_HEADS, HEAD_DIM)
            expected.append(attention_by_definition(query, keys, values, scoring))
    torch.testing.assert_close(actual, torch.stack(expected).float(), atol=1e-5, rtol=1e-5)


def test_rows_of_similar_length_decode_together():
    """Little padding is cheaper than another group; much is not."""
    planner = AttentionPlanner(16, 4096, {None}, PRECISION)

    def group_sizes(*starts):
        rows = rows_of([(start, 1) for start in starts], 16, 20_000, seed=0)
        plan = planner.plan([rows[index] for index in row_order(rows)])
        assert [group.tokens.stop for group in plan.decode][-1:] == [len(starts)]
        return [group.num_rows for group in plan.decode]

    assert group_sizes(100, 90, 120, 60) == [4]
    assert group_sizes(100, 8000, 90, 8100) == [2, 2]
    assert group_sizes(*range(0, 160, 10)) == [5, 5, 6]
    # Of rows of 256 blocks of 4 KiB, four fill what is gathered at once.
    assert group_sizes(*[4090] * 9) == [4, 4, 1]
    assert group_sizes(100_000, 100_001) == [1, 1]


def test_padding_is_bounded():
    """Of the blocks that are read, at most a third is padding, but for a few of small groups."""
    planner = AttentionPlanner(16, 4096, {None}, PRECISION)
    generator = random.Random(0)
    for _ in range(50):
        lengths = [(generator.randrange(4000), 1) for _ in range(generator.randint(1, 64))]
        rows = rows_of(lengths, 16, 30_000, seed=0)
        plan = planner.plan([rows[index] for index in row_order(rows)])
        read = sum(len(group.block_table) for group in plan.decode)
        needed = sum(len(row.block_ids) for row in rows)
        assert read - needed <= needed / 3 + 8 * len(plan.decode)
