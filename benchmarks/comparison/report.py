"""The results of one run in a directory of their own: JSON, tables and a picture."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from comparison.measurement import summarize
from comparison.peer import Ports, Sizing
from comparison.table import render

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from comparison.floors import Floors
    from comparison.machine import Machine
    from comparison.measurement import Measurement
    from comparison.options import Options
    from comparison.peers.find import Peers

# Shown in the JSON in place of the port and the room of a real start.
_SHOWN_SIZING, _SHOWN_PORTS = Sizing(64, 576), Ports(http=8000, grpc=8001)


class Report:
    """Writes what has been measured so far.

    Args:
        measurements: grows while the comparison runs.
        rivals: names of the peers that are not Headrace.
    """

    def __init__(
        self,
        directory: Path,
        options: Options,
        machine: Machine,
        floors: Floors,
        peers: Peers,
        rivals: Sequence[str],
        measurements: Sequence[Measurement],
    ) -> None:
        self._directory = directory
        self._facts: dict[str, Any] = {
            "machine": asdict(machine),
            "floors": asdict(floors),
            "options": asdict(options),
            "peers": [_describe(peer) for peer in peers.present],
            "absent": [asdict(absence) for absence in peers.absent],
        }
        self._rivals = rivals
        self._measurements = measurements

    def save(self, *, is_complete: bool) -> None:
        """Write comparison.json anew, whole or not at all."""
        content = {
            "complete": is_complete,
            **self._facts,
            "rows": [asdict(row) for row in summarize(self._measurements)],
            "measurements": [asdict(one) for one in self._measurements],
        }
        target = self._directory / "comparison.json"
        partial = target.with_suffix(f".partial-{os.getpid()}")
        partial.write_text(json.dumps(content, indent=1, default=str), encoding="utf-8")
        partial.replace(target)

    def tables(self) -> str:
        """All tables, also written to comparison.txt."""
        text = render(summarize(self._measurements), self._rivals)
        (self._directory / "comparison.txt").write_text(f"{text}\n", encoding="utf-8")
        return text


def _describe(peer: Any) -> dict[str, Any]:
    launch = peer.launch(_SHOWN_SIZING, _SHOWN_PORTS)
    return {
        "name": peer.name,
        "version": peer.version,
        "weights": peer.weights,
        "commands": [" ".join(command) for command in launch.commands],
        "environment": dict(launch.environment),
        "request_fields": dict(peer.fields),
    }
