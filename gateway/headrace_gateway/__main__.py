"""The command headrace-gateway."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import NoReturn

import uvloop
from aiohttp.http import HttpRequestParser

from headrace_gateway.app import StartError, serve
from headrace_gateway.config import ConfigError, read_config
from headrace_gateway.telemetry import set_up_logging


def main() -> None:
    """Serve until a signal. Exits with 2 for a bad setting and 1 for a failed start."""
    try:
        config = read_config(sys.argv[1:], os.environ)
    except ConfigError as error:
        _exit(2, error)
    set_up_logging(config.log_level, config.log_format)
    try:
        _require_fast_parser()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(config))
    except StartError as error:
        _exit(1, error)


def _require_fast_parser() -> None:
    # The parser in Python is slower and misses checks of the one in C.
    if not HttpRequestParser.__module__.endswith("._http_parser"):
        raise StartError("aiohttp has no C parser here; install it from a wheel.")


def _exit(code: int, error: Exception) -> NoReturn:
    print(f"headrace-gateway: {error}", file=sys.stderr)  # noqa: T201 - a sentence for people
    raise SystemExit(code)


if __name__ == "__main__":
    main()
