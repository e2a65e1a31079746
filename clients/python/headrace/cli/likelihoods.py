"""How likely the tokens of an answer were, as a table for people."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import headrace

_HEAD = ("TOKEN", "CHANCE", "INSTEAD")


def likelihood_table(logprobs: Sequence[headrace.TokenLogprobs]) -> str:
    """Return a line for each token: what it is, its chance, and its rivals with theirs."""
    rows = [_HEAD, *(_row(each) for each in logprobs)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = [
        f"{token:<{widths[0]}}  {chance:>{widths[1]}}  {rivals}".rstrip()
        for token, chance, rivals in rows
    ]
    return "\n".join(lines)


def _row(token: headrace.TokenLogprobs) -> tuple[str, str, str]:
    rivals = [top for top in token.top if top.token_id != token.token_id]
    words = [f"{_quoted(top.text)} {_percent(top.logprob)}" for top in rivals]
    return _name(token), _percent(token.logprob), ", ".join(words)


def _name(token: headrace.TokenLogprobs) -> str:
    """Return the text of a token, or what a control token, which has none, is called."""
    names = [top.text for top in token.top if top.token_id == token.token_id]
    text = token.text or (names[0] if names else "")
    return _quoted(text) if text else f"#{token.token_id}"


def _quoted(text: str) -> str:
    # Escaped, so that a token can neither hide nor control the terminal.
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in quoted)


def _percent(logprob: float | None) -> str:
    if logprob is None:
        return ""
    percent = 100 * math.exp(logprob)
    return f"{percent:.1f} %" if percent >= 0.1 else "<0.1 %"
