"""``headrace-server``: read the configuration, serve, and tell in one sentence what went wrong."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """Run the server and return the exit status."""
    # Read by gRPC when it is imported. It would stop its threads around each start of an
    # engine, which forks only to execute.
    os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
    # By default it writes a line of its own, which is no JSON, for each handshake that fails.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    try:
        import uvloop

        from headrace_server.app import StartError
        from headrace_server.config import read_config
        from headrace_server.serve import serve
        from headrace_server.telemetry import set_up_logging
    except ModuleNotFoundError as error:  # the client was installed alone
        return _fail(
            f"The package {str(error.name).partition('.')[0]} is not installed. Install what the "
            "server needs, in a checkout of Headrace, with: pip install '.[server,gateway]'"
        )
    config = read_config()
    set_up_logging(config.log.level, config.log.form)
    try:
        uvloop.run(serve(config))
    except StartError as error:
        return _fail(str(error))
    return 0


def _fail(sentence: str) -> int:
    sys.stderr.write(f"headrace-server: {sentence}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
