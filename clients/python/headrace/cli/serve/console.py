"""What `headrace serve` tells the person at the terminal."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.results import Capability

if TYPE_CHECKING:
    from headrace.results import Model

_BAR_CELLS = 10
_MAX_DETAIL_CHARACTERS = 40
# Where the commands look by themselves.
_DEFAULT_TARGETS = ("localhost:1920", "127.0.0.1:1920", "[::1]:1920")
_QUESTION = "What is the capital of France?"
_BEGINNING = "Once upon a time"
# A story may otherwise go on until the context is full.
_MAX_TOKENS = 60
_CLEAR_LINE = "\r\x1b[K"
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - not bound here


class Progress:
    """The line that tells how far loading is: redrawn on a terminal, else one per phase."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._phase = ""

    def show(self, detail: str) -> None:
        """Tell what is going on, such as ``converting weights, 40 %``."""
        phase, _, percentage = detail.partition(", ")
        if self._is_terminal:
            # The cursor returns, so that a log line takes the place of this one.
            line = f"{_CLEAR_LINE}{progress_bar(phase, percentage)}\r"
            sys.stderr.write(line)
        elif phase != self._phase:
            sys.stderr.write(f"headrace: {phase}\n")
        self._phase = phase
        sys.stderr.flush()

    def clear(self) -> None:
        """Take the line away."""
        if self._is_terminal:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()


def progress_bar(phase: str, percentage: str) -> str:
    """Draw a phase with its percentage, such as ``40 %``; without one, only its words.

    It is shorter than a line of the log, which takes its place.
    """
    words = phase[:_MAX_DETAIL_CHARACTERS]
    match = re.fullmatch(r"(\d{1,3}) ?%", percentage)
    if match is None:
        return f"{words} …"
    full = min(int(match[1]), 100) * _BAR_CELLS // 100
    return f"{'█' * full}{'░' * (_BAR_CELLS - full)} {percentage} {words}"


def reachable(address: str) -> str:
    """Return an address that this machine can connect to, for one that is listened on."""
    host, _, port = address.rpartition(":")
    return f"{_ANY_ADDRESS.get(host, host)}:{port}"


def program() -> str:
    """Return how a shell in this directory starts the command `headrace`."""
    if shutil.which("headrace"):
        return "headrace"
    script = Path(sys.argv[0]).absolute()
    if script.name == "headrace":
        return _short(script)
    return f"{_short(Path(sys.executable))} -m headrace"


def _short(path: Path) -> str:
    relative = os.path.relpath(path)
    # A bare name would be looked for on the PATH.
    is_better = os.sep in relative and len(relative) < len(str(path))
    return shlex.quote(relative if is_better else str(path))


def welcome(
    model: Model, http_address: str, grpc_address: str, *, num_kv_tokens: int, has_page: bool
) -> str:
    """Return what is served, where, and how to try it.

    Args:
        model: the one that is served.
        http_address: of the gateway, as ``host:port``.
        grpc_address: of the server, as ``host:port``.
        num_kv_tokens: what the KV cache holds.
        has_page: whether the gateway has the chat page.
    """
    http, grpc = reachable(http_address), reachable(grpc_address)
    aliases = f" (also {', '.join(model.aliases)})" if model.aliases else ""
    target = "" if grpc in _DEFAULT_TARGETS else f" --target {grpc}"
    page = f"  Chat  http://{http}/\n" if has_page else ""
    body: dict[str, object]
    prompt: dict[str, object]
    if Capability.CHAT in model.capabilities:
        command = f"{program()} chat{target}"
        path, body = "chat/completions", {"messages": [{"role": "user", "content": _QUESTION}]}
        prompt = {"chat": {"messages": [{"role": "ROLE_USER", "content": _QUESTION}]}}
    else:
        command = f'{program()} generate "{_BEGINNING}" --max-tokens {_MAX_TOKENS}{target}'
        path, body = "completions", {"prompt": _BEGINNING, "max_tokens": _MAX_TOKENS}
        prompt = {"text": _BEGINNING, "stopping": {"max_output_tokens": _MAX_TOKENS}}
    return f"""
Serving {model.name}{aliases} with {model.context_length} tokens of context.
The KV cache holds {num_kv_tokens} tokens of all running requests.

{page}  HTTP  http://{http}/v1
  gRPC  {grpc}

Try it in another terminal:

  {command}

  curl http://{http}/v1/{path} -H 'Content-Type: application/json' \\
    -d '{json.dumps(body)}'

  grpcurl -plaintext -d '{json.dumps(prompt)}' \\
    {grpc} headrace.v1.InferenceService/Generate

Ctrl-C stops it.
"""
