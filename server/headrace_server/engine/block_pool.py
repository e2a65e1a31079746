"""The KV blocks: which are free, and that none is lost or held twice."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class BlockPoolError(Exception):
    """The books of the KV blocks do not balance: a fault of the engine itself."""


class BlockPool:
    """Hands out block ids from 0 to `num_blocks` - 1.

    Args:
        num_blocks: number of blocks in all.
        block_size: tokens in a block.
    """

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        # The block that was given back first is taken first: what it holds is the
        # oldest, which is what a cache of prefixes gives up first.
        self._free_ids = deque(range(num_blocks))
        self._is_free = bytearray(b"\x01" * num_blocks)

    @property
    def num_free(self) -> int:
        """Number of blocks that nobody holds."""
        return len(self._free_ids)

    def num_blocks_for(self, num_tokens: int) -> int:
        """Number of blocks that hold `num_tokens` tokens."""
        return -(-num_tokens // self.block_size)

    def take(self, num_blocks: int) -> list[int]:
        """Take blocks out of the pool.

        Raises:
            BlockPoolError: fewer are free.
        """
        if num_blocks > self.num_free:
            raise BlockPoolError(f"{num_blocks} blocks wanted, {self.num_free} are free")
        block_ids = [self._free_ids.popleft() for _ in range(num_blocks)]
        for block_id in block_ids:
            self._is_free[block_id] = 0
        return block_ids

    def give_back(self, block_ids: Iterable[int]) -> None:
        """Put blocks back into the pool.

        Raises:
            BlockPoolError: one of them is free already.
        """
        for block_id in block_ids:
            if self._is_free[block_id]:
                raise BlockPoolError(f"block {block_id} is given back twice")
            self._is_free[block_id] = 1
            self._free_ids.append(block_id)

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> None:
        """Check that every block is either free or in one of the block tables, once.

        Raises:
            BlockPoolError: a block is lost or counted twice.
        """
        seen = sorted([*self._free_ids, *(block_id for table in tables for block_id in table)])
        if seen != list(range(self.num_blocks)):
            raise BlockPoolError(
                f"{self.num_blocks} blocks in all, but free and held ones together are "
                f"{len(seen)}, of which {len(set(seen))} are distinct"
            )
