"""Headrace: server and gateway, as `headrace serve` starts them."""

from __future__ import annotations

import shlex
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

from comparison.peer import Launch, Peer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from comparison.model_files import ModelFiles
    from comparison.peer import Ports, Sizing

_FIELDS = {
    "temperature": 0,
    "ignore_eos": True,
    "stream_options": {"include_usage": True},
}


def headrace(variant: str, model: ModelFiles) -> Peer:
    """One variant of Headrace.

    Args:
        variant: a value of --quantization; ``default`` for no flag at all; or NAME=FLAGS, such
            as ``"two threads=--num-threads 2"``.
        model: what it serves.
    """
    name, flags = _read(variant)
    return headrace_with(name, ("--model", model.source, *flags), weights=name)


def headrace_with(name: str, flags: Sequence[str], weights: str) -> Peer:
    """Headrace with flags of the server."""

    def launch(_: Sizing, ports: Ports) -> Launch:
        python = (sys.executable, "-m")
        common = ("--log-level", "warning")
        return Launch(
            commands=(
                (*python, "headrace_server", "--port", str(ports.grpc), *common, *flags),
                (
                    *(*python, "headrace_gateway", "--port", str(ports.http), *common),
                    *("--upstream", f"127.0.0.1:{ports.grpc}"),
                ),
            ),
            ready_path="/readyz",
        )

    return Peer(
        name=f"Headrace {name}".removesuffix(" default"),
        version=version("headrace"),
        weights=weights,
        fields=_FIELDS,
        launch=launch,
        flags=tuple(flags),
    )


def _read(variant: str) -> tuple[str, tuple[str, ...]]:
    name, equals, flags = variant.partition("=")
    if equals:
        return name, tuple(shlex.split(flags))
    return variant, () if variant == "default" else ("--quantization", variant)
