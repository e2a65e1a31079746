"""Which KV blocks a sequence gets, which it shares, and which outlive it in the prefix cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator

    from headrace_server.engine.block_pool import BlockPool
    from headrace_server.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Placement:
    """What admitting a sequence would take.

    Args:
        shared_ids: blocks that hold the beginning of the sequence already.
        num_new_blocks: blocks to be taken beside those.
        num_taken_blocks: by how many blocks there will be fewer free ones.
        num_uncomputed_tokens: tokens that remain to be run through the model.
    """

    shared_ids: list[int]
    num_new_blocks: int
    num_taken_blocks: int
    num_uncomputed_tokens: int


class KvMemory:
    """Gives sequences their KV blocks out of a pool.

    The prefix cache is the pool's full blocks under the names of `BlockNames`. A block gets its
    name when a token was chosen behind it: then the model has read all of it and found numbers
    there. Until then only the sequence itself can find it again.

    Args:
        pool: nobody else takes blocks out of it.
        prefix_cache: whether sequences find what others have computed.
    """

    def __init__(self, pool: BlockPool, *, prefix_cache: bool) -> None:
        self._pool = pool
        self._prefix_cache = prefix_cache

    def find_place(self, sequence: Sequence) -> Placement:
        """Look for blocks to share; without effect."""
        shared_ids = self._sharable_ids(sequence)
        num_tokens = len(sequence.token_ids)
        num_new_blocks = self._pool.num_blocks_for(num_tokens) - len(shared_ids)
        return Placement(
            shared_ids,
            num_new_blocks,
            num_new_blocks + self._pool.num_free_among(shared_ids),
            num_tokens - len(shared_ids) * self._pool.block_size,
        )

    def place(self, sequence: Sequence, placement: Placement) -> None:
        """Give a sequence the blocks of all its tokens, as just found."""
        self._pool.share(placement.shared_ids)
        sequence.block_ids = [*placement.shared_ids, *self._pool.take(placement.num_new_blocks)]
        sequence.num_computed_tokens = len(placement.shared_ids) * self._pool.block_size
        sequence.num_named_blocks = 0

    def extend(self, sequence: Sequence) -> bool:
        """Give a sequence the blocks that its tokens lack; False if too few are free."""
        num_blocks = self._num_lacking_blocks(sequence)
        if num_blocks > self._pool.num_free:
            return False
        sequence.block_ids.extend(self._pool.take(num_blocks))
        return True

    def can_extend(self, sequences: Iterable[Sequence]) -> bool:
        """Whether all of these sequences can be extended."""
        return sum(map(self._num_lacking_blocks, sequences)) <= self._pool.num_free

    def catch_up(self, sequence: Sequence) -> None:
        """Let a sequence in its prompt skip what others have computed since it was placed."""
        first = sequence.num_computed_tokens // self._pool.block_size
        found_ids = list(self._find(sequence, first)) if self._prefix_cache else []
        if found_ids:
            # The first may replace one that is computed in part.
            end = first + len(found_ids)
            self._pool.share(found_ids)
            self._pool.give_back(sequence.block_ids[first:end])
            sequence.block_ids = [
                *sequence.block_ids[:first],
                *found_ids,
                *sequence.block_ids[end:],
            ]
            sequence.num_computed_tokens = end * self._pool.block_size

    def vouch(self, sequence: Sequence) -> None:
        """A token was chosen behind all that is computed: let others find it."""
        num_full = sequence.num_computed_tokens // self._pool.block_size
        first, sequence.num_named_blocks = sequence.num_named_blocks, num_full
        if self._prefix_cache and num_full > first:
            names = sequence.block_names.of_first(num_full, sequence.token_ids)
            for index in range(first, num_full):
                self._pool.name(sequence.block_ids[index], names[index])

    def distrust(self, sequence: Sequence) -> None:
        """The sequence has failed: nobody is to find any of its blocks, shared ones included."""
        self._pool.forget(sequence.block_ids)

    def release(self, sequence: Sequence) -> None:
        """Take all blocks from a sequence; those with a name can be found until they are needed."""
        # The end of a sequence is of use to fewer than its beginning: it is taken first.
        self._pool.give_back(reversed(sequence.block_ids))
        # A new list: the rows of the step before may still refer to the old one.
        sequence.block_ids = []
        sequence.num_computed_tokens = 0

    def preempt(self, sequence: Sequence) -> None:
        """Take all blocks from a sequence that will find them again as far as they last."""
        if self._prefix_cache:
            num_full = sequence.num_computed_tokens // self._pool.block_size
            names = sequence.block_names.of_first(num_full, sequence.token_ids)
            for block_id, name in zip(sequence.block_ids[:num_full], names, strict=False):
                if not self._pool.has_name(block_id):
                    self._pool.name(block_id, _private(sequence, name))
        self.release(sequence)

    def check_integrity(self, sequences: Iterable[Sequence]) -> None:
        """Check the books of the pool; see there.

        Args:
            sequences: all that hold blocks.
        """
        self._pool.check_integrity([sequence.block_ids for sequence in sequences])

    def _num_lacking_blocks(self, sequence: Sequence) -> int:
        num_blocks = self._pool.num_blocks_for(sequence.num_tokens)
        return max(num_blocks - len(sequence.block_ids), 0)

    def _sharable_ids(self, sequence: Sequence) -> list[int]:
        found_ids = list(self._find(sequence, 0)) if self._prefix_cache else []
        leader = sequence.leader
        if leader is None or not leader.is_decoding:
            return found_ids
        num_tokens = min(sequence.max_shared_tokens, len(sequence.request.prompt_token_ids))
        leader_ids = leader.block_ids[: num_tokens // self._pool.block_size]
        return max(found_ids, leader_ids, key=len)

    def _find(self, sequence: Sequence, first: int) -> Iterator[int]:
        """The cached blocks of a sequence from block `first` on."""
        num_blocks = sequence.max_shared_tokens // self._pool.block_size
        names = sequence.block_names.of_first(num_blocks, sequence.token_ids)
        for name in names[first:num_blocks]:
            block_id = self._pool.find(name)
            if block_id is None:
                block_id = self._pool.find(_private(sequence, name))
            if block_id is None:
                return
            yield block_id


def _private(sequence: Sequence, name: bytes) -> Hashable:
    """The name under which only the sequence itself finds a block."""
    return (sequence.sequence_id, name)
