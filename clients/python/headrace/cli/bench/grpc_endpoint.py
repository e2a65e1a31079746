"""A server over gRPC, by the project's own client."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import headrace
from headrace.cli.bench.endpoint import RequestFailedError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence
    from types import TracebackType


class GrpcEndpoint:
    """Implements `Endpoint`.

    Args:
        client: of the server; it is closed with this.
        target: ``host:port``.
        model: a name or an alias; None for the served model.
    """

    def __init__(self, client: headrace.AsyncClient, target: str, model: str | None) -> None:
        self._target = target
        self._model = model
        self._client = client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.close()

    @property
    def name(self) -> str:
        """The protocol and the address."""
        return f"gRPC {self._target}"

    async def tokenize(self, text: str) -> Sequence[int]:
        """See `Endpoint`."""
        with _own_errors():
            return (await self._client.tokenize(text, model=self._model)).token_ids

    async def answer(self, token_ids: Sequence[int], num_tokens: int) -> AsyncGenerator[int, None]:
        """See `Endpoint`."""
        with _own_errors():
            async with self._client.stream(
                token_ids=token_ids,
                max_output_tokens=num_tokens,
                ignore_end_of_text=True,
                model=self._model,
            ) as stream:
                async for delta in stream:
                    if delta.token_ids:
                        yield len(delta.token_ids)


@contextmanager
def _own_errors() -> Iterator[None]:
    try:
        yield
    except headrace.HeadraceError as error:
        raise RequestFailedError(error.message) from error
