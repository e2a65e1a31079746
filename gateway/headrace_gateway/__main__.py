"""The command headrace-gateway."""

from __future__ import annotations

import asyncio
import os
import sys


def main() -> int:
    """Serve until a signal. Returns 2 for a bad setting and 1 for a failed start."""
    # Read by gRPC when it is imported. By default it writes a line of its own, which is no JSON,
    # for each handshake with the server that fails.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        import uvloop

        from headrace_gateway.app import StartError, serve
        from headrace_gateway.config import ConfigError, read_config
        from headrace_gateway.telemetry import set_up_logging
    except ModuleNotFoundError as error:  # the client was installed alone
        return _fail(
            1,
            f"The package {str(error.name).partition('.')[0]} is not installed. Install what "
            "the gateway needs, in a checkout of Headrace, with: pip install '.[server,gateway]'",
        )
    try:
        config = read_config(sys.argv[1:], os.environ)
    except ConfigError as error:
        return _fail(2, str(error))
    set_up_logging(config.log_level, config.log_format)
    if not _has_fast_parser():
        return _fail(1, "aiohttp has no C parser here; install it from a wheel.")
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(config))
    except StartError as error:
        return _fail(1, str(error))
    return 0


def _has_fast_parser() -> bool:
    # The parser in Python is slower and misses checks of the one in C.
    from aiohttp.http import HttpRequestParser

    return HttpRequestParser.__module__.endswith("._http_parser")


def _fail(code: int, sentence: str) -> int:
    sys.stderr.write(f"headrace-gateway: {sentence}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
