import pytest

from headrace_server.engine.block_pool import BlockPool, BlockPoolError


def test_taken_blocks_are_distinct_and_come_back():
    """What is given back can be taken again, the longest unused block first."""
    pool = BlockPool(num_blocks=4, block_size=16)
    first, second = pool.take(3), pool.take(1)
    pool.give_back(second)
    pool.give_back(first)

    assert [first, second] == [[0, 1, 2], [3]]
    assert pool.take(4) == [3, 0, 1, 2]


@pytest.mark.parametrize(("num_tokens", "num_blocks"), [(0, 0), (1, 1), (16, 1), (17, 2)])
def test_blocks_are_counted_up(num_tokens, num_blocks):
    """A part of a block takes a whole one."""
    assert num_blocks == BlockPool(4, 16).num_blocks_for(num_tokens)


def test_more_than_is_free_is_refused_and_nothing_is_taken():
    """A pool never hands out a part of what was asked for."""
    pool = BlockPool(2, 16)
    with pytest.raises(BlockPoolError):
        pool.take(3)
    assert pool.num_free == 2


def test_giving_back_twice_is_an_error():
    """A double free is noticed where it happens."""
    pool = BlockPool(2, 16)
    block_ids = pool.take(1)
    pool.give_back(block_ids)
    with pytest.raises(BlockPoolError):
        pool.give_back(block_ids)


def test_integrity_finds_lost_and_shared_blocks():
    """Free and held blocks together must be all blocks, each once."""
    pool = BlockPool(4, 16)
    table, other = pool.take(2), pool.take(1)

    pool.check_integrity([table, other])
    with pytest.raises(BlockPoolError):
        pool.check_integrity([table])
    with pytest.raises(BlockPoolError):
        pool.check_integrity([table, table])
