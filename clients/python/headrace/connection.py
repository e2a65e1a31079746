"""What both clients need to connect and to call, read and checked once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import grpc
from grpc import aio

from headrace.channel import Address, channel_options, key_metadata, parse_target
from headrace.tls import Tls, channel_credentials


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection that can be made.

    Args:
        address: of the server.
        options: of the channel.
        credentials: of the channel; None for plain text.
        metadata: of each call.
    """

    address: Address
    options: list[tuple[str, Any]]
    credentials: grpc.ChannelCredentials | None
    metadata: tuple[tuple[str, str], ...] = field(repr=False)  # it holds the key

    @classmethod
    def to(
        cls, target: str, *, api_key: str | None, tls: Tls | bool | None, max_attempts: int
    ) -> Self:
        """Read what a client is given.

        Raises:
            ValueError: it cannot be used; the sentence begins with its name.
        """
        name = parse_target(target)
        # True trusts what the system trusts; False is as good as None.
        tls = tls if isinstance(tls, Tls) else Tls() if tls else None
        server_name = None if tls is None else tls.server_name
        return cls(
            Address(name, tls is not None, tls is not None and tls.certfile is not None),
            channel_options(name, max_attempts, server_name),
            None if tls is None else channel_credentials(tls),
            key_metadata(api_key),
        )

    def channel(self) -> grpc.Channel:
        """Return a new blocking channel."""
        if self.credentials is None:
            return grpc.insecure_channel(self.address.name, options=self.options)
        return grpc.secure_channel(self.address.name, self.credentials, options=self.options)

    def async_channel(self) -> aio.Channel:
        """Return a new channel for the running event loop."""
        if self.credentials is None:
            return aio.insecure_channel(self.address.name, options=self.options)
        return aio.secure_channel(self.address.name, self.credentials, options=self.options)
