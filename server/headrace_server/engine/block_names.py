"""The names of full KV blocks: equal exactly where the blocks hold the same."""

from __future__ import annotations

from array import array
from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# 128 bits: a collision, which would give somebody a foreign context, takes 2^64 attempts.
_NAME_BYTES = 16


class BlockNames:
    """Names the full blocks of a sequence of tokens as it grows.

    What a block holds depends on its tokens and on all tokens before it, so each name is a hash
    of the tokens and of the name before. The chain begins with the cache identity: what callers of
    another identity have computed has other names.

    Args:
        cache_identity: any text.
        block_size: tokens in a block.
    """

    __slots__ = ("_block_size", "_names", "_root")

    def __init__(self, cache_identity: str, block_size: int) -> None:
        self._block_size = block_size
        self._root = blake2b(cache_identity.encode(), digest_size=_NAME_BYTES).digest()
        self._names: list[bytes] = []

    def of_first(self, num_blocks: int, token_ids: Sequence[int]) -> Sequence[bytes]:
        """The names of at least the first `num_blocks` blocks.

        Args:
            num_blocks: blocks that `token_ids` fills.
            token_ids: those of the calls before, and perhaps more.
        """
        names, size = self._names, self._block_size
        tokens = array("I", token_ids[len(names) * size : num_blocks * size])
        for start in range(0, len(tokens), size):
            before = names[-1] if names else self._root
            data = before + tokens[start : start + size].tobytes()
            names.append(blake2b(data, digest_size=_NAME_BYTES).digest())
        return names
