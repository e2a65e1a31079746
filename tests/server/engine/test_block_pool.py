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


def test_a_shared_block_is_free_when_its_last_holder_gives_it_back():
    """Each holder counts."""
    pool = BlockPool(2, 16)
    block_ids = pool.take(1)
    pool.share(block_ids)
    pool.give_back(block_ids)

    assert pool.num_free == 1
    pool.give_back(block_ids)
    assert pool.num_free == 2


def test_a_free_block_is_found_by_its_name_until_it_is_taken():
    """Blocks without a name are taken first, then the named one that was free the longest."""
    pool = BlockPool(3, 16)
    old, new = pool.take(2)
    pool.name(old, b"old")
    pool.name(new, b"new")
    pool.give_back([old, new])

    assert (pool.num_free, pool.num_cached) == (3, 2)
    assert pool.take(2) == [2, old]
    assert (pool.find(b"old"), pool.find(b"new")) == (None, new)
    pool.check_integrity([[2, old]])


def test_a_cached_block_that_was_used_again_is_the_last_to_be_taken():
    """Use counts, not age."""
    pool = BlockPool(2, 16)
    first, second = pool.take(2)
    pool.name(first, b"first")
    pool.name(second, b"second")
    pool.give_back([first, second])
    pool.share([first])
    pool.give_back([first])

    assert pool.take(1) == [second]
    assert pool.find(b"first") == first


def test_a_name_stays_with_its_first_block():
    """Two blocks of the same content are not confused; the second has no name."""
    pool = BlockPool(2, 16)
    first, second = pool.take(2)
    pool.name(first, b"name")
    pool.name(second, b"name")

    assert pool.find(b"name") == first
    assert [pool.has_name(block_id) for block_id in (first, second)] == [True, False]


def test_a_forgotten_block_stays_with_its_holders_and_is_found_no_more():
    """It comes back as a blank block."""
    pool = BlockPool(1, 16)
    block_ids = pool.take(1)
    pool.name(block_ids[0], b"name")
    pool.forget(block_ids)
    pool.check_integrity([block_ids])
    pool.give_back(block_ids)

    assert pool.find(b"name") is None
    assert (pool.num_free, pool.num_cached) == (1, 0)


def test_integrity_finds_lost_and_wrongly_shared_blocks():
    """Blank, cached and held blocks together are all blocks, and tables and holders agree."""
    pool = BlockPool(4, 16)
    table, other = pool.take(2), pool.take(1)

    pool.check_integrity([table, other])
    for tables in ([table], [table, table], [table, table, other], [table, other, [3]]):
        with pytest.raises(BlockPoolError):
            pool.check_integrity(tables)
    pool.share(table)
    pool.check_integrity([table, table, other])
