"""The KV blocks: which are free, how many hold each, and which content is still known."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence


class BlockPoolError(Exception):
    """The books of the KV blocks do not balance: a fault of the engine itself."""


class BlockPool:
    """Hands out block ids from 0 to `num_blocks` - 1.

    A block is held by one or several sequences, or it is free. A block with a name can be found by
    it, also when it is free, until it is taken for something else: blocks without a name are taken
    first, then the one that has been free for the longest time.

    Args:
        num_blocks: number of blocks in all.
        block_size: tokens in a block.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self._blank_ids = deque(range(num_blocks))
        self._cached_ids: OrderedDict[int, None] = OrderedDict()
        self._num_holders = [0] * num_blocks
        self._names: list[Hashable | None] = [None] * num_blocks
        self._ids_by_name: dict[Hashable, int] = {}

    @property
    def num_free(self) -> int:
        """Number of blocks that nobody holds."""
        return len(self._blank_ids) + len(self._cached_ids)

    @property
    def num_cached(self) -> int:
        """Number of the free blocks that can still be found by a name."""
        return len(self._cached_ids)

    def num_blocks_for(self, num_tokens: int) -> int:
        """Number of blocks that hold `num_tokens` tokens."""
        return -(-num_tokens // self.block_size)

    def num_free_among(self, block_ids: Iterable[int]) -> int:
        """How many of the blocks nobody holds."""
        return sum(self._num_holders[block_id] == 0 for block_id in block_ids)

    def take(self, num_blocks: int) -> list[int]:
        """Take blocks out of the pool.

        Raises:
            BlockPoolError: fewer are free.
        """
        if num_blocks > self.num_free:
            raise BlockPoolError(f"{num_blocks} blocks wanted, {self.num_free} are free")
        block_ids = [self._take_one() for _ in range(num_blocks)]
        for block_id in block_ids:
            self._num_holders[block_id] = 1
        return block_ids

    def share(self, block_ids: Iterable[int]) -> None:
        """Hold blocks that were found by their names or that others hold."""
        for block_id in block_ids:
            if self._num_holders[block_id] == 0:
                del self._cached_ids[block_id]
            self._num_holders[block_id] += 1

    def give_back(self, block_ids: Iterable[int]) -> None:
        """Hold blocks no longer; of those that become free the first are the first to be taken.

        Raises:
            BlockPoolError: one of them is free already.
        """
        for block_id in block_ids:
            if self._num_holders[block_id] == 0:
                raise BlockPoolError(f"block {block_id} is given back twice")
            self._num_holders[block_id] -= 1
            if self._num_holders[block_id] == 0:
                if self._names[block_id] is None:
                    self._blank_ids.append(block_id)
                else:
                    self._cached_ids[block_id] = None

    def name(self, block_id: int, name: Hashable) -> None:
        """Let a held block be found by a name in place of an older one.

        A name stays with the block that has it: both hold the same.
        """
        if name not in self._ids_by_name:
            self._drop_name(block_id)
            self._names[block_id] = name
            self._ids_by_name[name] = block_id

    def has_name(self, block_id: int) -> bool:
        """Whether the block can be found by a name."""
        return self._names[block_id] is not None

    def find(self, name: Hashable) -> int | None:
        """The block of that name; `share` it before anything else is taken."""
        return self._ids_by_name.get(name)

    def forget(self, block_ids: Iterable[int]) -> None:
        """Let held blocks no longer be found; who holds them goes on."""
        for block_id in block_ids:
            self._drop_name(block_id)

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """Check that every block is blank, cached, or held as often as the block tables say.

        Raises:
            BlockPoolError: a block is lost or counted wrongly, or a name leads astray.
        """
        num_holders = Counter(block_id for table in tables for block_id in table)
        held = {block_id for block_id, count in enumerate(self._num_holders) if count}
        if num_holders != {block_id: self._num_holders[block_id] for block_id in held}:
            raise BlockPoolError("the holders of the blocks are not those of the block tables")
        parts = (self._blank_ids, self._cached_ids, held)
        num_distinct = len(set().union(*parts))
        if not num_distinct == sum(map(len, parts)) == self.num_blocks:
            raise BlockPoolError(
                f"{self.num_blocks} blocks in all, but {num_distinct} distinct ones among "
                f"{len(self._blank_ids)} blank, {len(self._cached_ids)} cached and {len(held)} held"
            )
        num_named = self.num_blocks - self._names.count(None)
        if num_named != len(self._ids_by_name) or any(
            self._names[block_id] != name for name, block_id in self._ids_by_name.items()
        ):
            raise BlockPoolError("the names of the blocks do not lead to them")
        if any(self._names[block_id] is None for block_id in self._cached_ids) or any(
            self._names[block_id] is not None for block_id in self._blank_ids
        ):
            raise BlockPoolError("free blocks are cached that have no name, or the reverse")

    def _take_one(self) -> int:
        if self._blank_ids:
            return self._blank_ids.popleft()
        block_id, _ = self._cached_ids.popitem(last=False)
        self._drop_name(block_id)
        return block_id

    def _drop_name(self, block_id: int) -> None:
        name, self._names[block_id] = self._names[block_id], None
        if name is not None:
            del self._ids_by_name[name]
