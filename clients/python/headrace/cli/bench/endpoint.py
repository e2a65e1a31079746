"""What the load goes to, whichever of the two protocols it speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence
    from types import TracebackType


class RequestFailedError(Exception):
    """A request got no whole answer; the message says why, in the server's words."""


class Endpoint(Protocol):
    """A connection to a server that takes token ids and streams an answer of a fixed length."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    @property
    def name(self) -> str:
        """The protocol and the address, for people."""

    async def tokenize(self, text: str) -> Sequence[int]:
        """Return the token ids of a text.

        Raises:
            RequestFailedError: the server refuses or cannot be reached.
        """

    def answer(self, token_ids: Sequence[int], num_tokens: int) -> AsyncGenerator[int, None]:
        """Continue a prompt by exactly so many tokens; yield the number in each message.

        Raises:
            RequestFailedError: there is no whole answer.
        """
