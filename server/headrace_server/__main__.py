"""``headrace-server``: read the configuration, serve, and tell in one sentence what went wrong."""

from __future__ import annotations

import os
import sys

import uvloop

from headrace_server.config import read_config
from headrace_server.telemetry import set_up_logging


def main() -> int:
    """Run the server and return the exit status."""
    config = read_config()
    set_up_logging(config.log.level, config.log.form)
    # Read by gRPC when it is imported. It would stop its threads around each start of an
    # engine, which forks only to execute.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    from headrace_server.app import StartError
    from headrace_server.serve import serve

    try:
        uvloop.run(serve(config))
    except StartError as error:
        sys.stderr.write(f"headrace-server: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
