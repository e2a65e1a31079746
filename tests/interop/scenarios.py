"""The scenarios of scenarios.yaml, which says what their fields mean."""

from __future__ import annotations

import dataclasses
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import yaml

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Sees:
    """What a call must see."""

    code: str
    code_behind: dict[str, str] = dataclasses.field(default_factory=dict)
    reason: str | None = None
    field: str | None = None
    retry: bool = False
    responses: int | None = None
    holds: dict[str, Any] | None = None
    answer: Literal["whole", "begun"] | None = None
    finish: str | None = None
    candidates: int = 1
    characters: str = ""
    logprobs: bool = False
    ids: bool = False
    headers: dict[str, str] = dataclasses.field(default_factory=dict)
    trailers: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class Logs:
    """What the access log must tell of a call.

    Args:
        codes: one of which it has.
        tokens_below: it has stopped before so many.
    """

    codes: tuple[str, ...]
    tokens_below: int | None = None


@dataclass(frozen=True)
class Step:
    """A line for the runner, and what comes of it.

    Without `logs` there is no line in the log, or with `has_any_log` there may be any.
    """

    send: dict[str, Any]
    sees: Sees
    logs: Logs | None
    has_any_log: bool
    opened: int
    sent_below: int | None
    is_full: bool

    @property
    def num_calls(self) -> int:
        return len(self.send["requests"]) if "requests" in self.send else self.send.get("count", 1)


@dataclass(frozen=True)
class Scenario:
    """A row of the matrix."""

    name: str
    says: str
    steps: list[Step]
    server: Literal["standard", "narrow"] = "standard"
    signal: Literal["SIGKILL", "SIGTERM"] | None = None


def read_scenarios(path: Path = HERE / "scenarios.yaml") -> list[Scenario]:
    """Read the table.

    Raises:
        TypeError: a scenario has a field that is not known, or lacks one.
    """
    return [
        Scenario(**{**entry, "steps": [_step(**step) for step in entry["steps"]]})
        for entry in yaml.safe_load(path.read_text())
    ]


def _step(
    *,
    send: dict[str, Any],
    sees: dict[str, Any],
    logs: dict[str, Any] | Literal["none", "any"] = {},  # noqa: B006  # it is not changed
    opened: int = 0,
    sent_below: int | None = None,
    meanwhile: Literal["full"] | None = None,
) -> Step:
    return Step(
        send=_written_out(send),
        sees=Sees(**sees),
        logs=_logs(sees["code"], **logs) if isinstance(logs, dict) else None,
        has_any_log=logs == "any",
        opened=opened,
        sent_below=sent_below,
        is_full=meanwhile == "full",
    )


def _logs(seen_code: str, tokens_below: int | None = None) -> Logs:
    codes = (seen_code,)
    if seen_code == "DEADLINE_EXCEEDED":
        # The client gives up at its own deadline. The server learns of that as a cancellation, and
        # only by its own clock, which began when the call arrived, that it is the deadline.
        codes = (seen_code, "CANCELLED")
    return Logs(codes, tokens_below)


def _written_out(value: Any) -> Any:
    """Write out what stands for something long."""
    match value:
        case {"repeat": str(text), "times": int(times)}:
            return text * times
        case {"repeat": item, "times": int(times)}:
            return [item] * times
        case {"each": dict(request), "seeds": int(count)}:
            return [_with_seed(request, seed) for seed in range(count)]
        case dict():
            return {key: _written_out(item) for key, item in value.items()}
        case list():
            return [_written_out(item) for item in value]
        case _:
            return value


def _with_seed(request: dict[str, Any], seed: int) -> dict[str, Any]:
    request = deepcopy(request)
    request["sampling"]["seed"] = str(seed)
    return request


SCENARIOS = read_scenarios()
