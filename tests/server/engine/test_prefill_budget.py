from hypothesis import given
from hypothesis import strategies as st

from headrace_server.engine.prefill_budget import align_chunk, share_budget


def test_of_equal_prompts_the_first_gets_all():
    """One prompt is finished before the next is begun."""
    assert share_budget([100, 100, 100], 64) == [64, 0, 0]
    assert share_budget([24, 100, 100], 64) == [24, 40, 0]


def test_a_short_prompt_passes_a_long_one_that_keeps_half():
    """The shortest comes first, but the first in line goes on."""
    assert share_budget([1000, 16, 8], 64) == [40, 16, 8]
    assert share_budget([1000, 500, 400], 64) == [32, 0, 32]


@given(st.lists(st.integers(1, 300), max_size=6), st.integers(0, 300))
def test_the_budget_is_used_and_never_exceeded(num_uncomputed, budget):
    """No prompt gets more than it needs, and nothing is left while one needs more."""
    shares = share_budget(num_uncomputed, budget)

    assert all(0 <= share <= need for share, need in zip(shares, num_uncomputed, strict=True))
    assert sum(shares) == min(budget, sum(num_uncomputed))


def test_a_chunk_ends_with_a_block_where_that_takes_no_more_steps():
    """The last chunk, and one that would make the prompt late, stay as they are."""
    assert align_chunk(0, 44, 500, block_size=16) == 32
    assert align_chunk(24, 64, 500, block_size=16) == 56
    assert align_chunk(0, 44, 44, block_size=16) == 44
    assert align_chunk(0, 44, 88, block_size=16) == 44
    assert align_chunk(0, 6, 500, block_size=16) == 6


@given(st.integers(0, 100), st.integers(1, 100), st.integers(1, 1000), st.integers(1, 32))
def test_aligned_chunks_take_no_more_steps(start, num_tokens, num_uncomputed, block_size):
    """However it is cut, a prompt takes as many steps as with full chunks."""
    num_tokens = min(num_tokens, num_uncomputed)
    num_steps, num_left = 0, num_uncomputed
    while num_left:
        chunk = align_chunk(start, min(num_tokens, num_left), num_left, block_size)
        assert 0 < chunk <= num_tokens
        start, num_left, num_steps = start + chunk, num_left - chunk, num_steps + 1

    assert num_steps == -(-num_uncomputed // num_tokens)
