"""A summary as a table for people, or as JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.cli.bench.plan import Plan
    from headrace.cli.bench.summary import Distribution, Summary

_COLUMNS = ("mean", "p50", "p90", "p99", "max")
_TITLE_WIDTH, _WIDTH = 16, 11


def to_table(name: str, plan: Plan, summary: Summary) -> str:
    """Return the table.

    Args:
        name: of the endpoint.
        plan: what was asked for.
        summary: what was seen.
    """
    lines = [
        f"{name}: {plan.num_streams} at a time, {plan.num_prompt_tokens} tokens in, "
        f"{plan.num_output_tokens} out",
        "",
        _row("milliseconds", *_COLUMNS),
        _times("TTFT", summary.first_token),
        _times("TPOT", summary.per_output_token),
        _times("inter-token", summary.inter_token),
        _times("request", summary.request),
        "",
        _row("output tokens/s", f"{summary.output_tokens_per_second:.1f}"),
        _row("requests/s", f"{summary.requests_per_second:.2f}"),
        _row("seconds", f"{summary.seconds:.2f}"),
        _row("completed", str(summary.num_completed)),
        _row("failed", str(sum(summary.failures.values()))),
    ]
    if summary.num_unfinished:
        lines.append(_row("unfinished", str(summary.num_unfinished)))
    lines += [f"  {count} times: {reason}" for reason, count in summary.failures.items()]
    return "\n".join(lines)


def to_json(name: str, plan: Plan, summary: Summary) -> str:
    """Return all that is known, as one object; times are in seconds."""
    figures = {
        "endpoint": name,
        "plan": asdict(plan),
        "seconds": summary.seconds,
        "output_tokens_per_second": summary.output_tokens_per_second,
        "requests_per_second": summary.requests_per_second,
        "ttft_seconds": _or_none(summary.first_token),
        "tpot_seconds": _or_none(summary.per_output_token),
        "inter_token_seconds": _or_none(summary.inter_token),
        "request_seconds": _or_none(summary.request),
        "num_completed": summary.num_completed,
        "num_unfinished": summary.num_unfinished,
        "num_prompt_tokens": summary.num_prompt_tokens,
        "num_output_tokens": summary.num_output_tokens,
        "failures": dict(summary.failures),
    }
    return json.dumps(figures, ensure_ascii=False)


def _or_none(times: Distribution | None) -> dict[str, float] | None:
    return None if times is None else asdict(times)


def _times(title: str, times: Distribution | None) -> str:
    if times is None:
        return _row(title, *("-" for _ in _COLUMNS))
    return _row(title, *(f"{getattr(times, column) * 1000:.1f}" for column in _COLUMNS))


def _row(title: str, *cells: str) -> str:
    return title.ljust(_TITLE_WIDTH) + "".join(cell.rjust(_WIDTH) for cell in cells)
