"""`headrace serve`: the command."""

from __future__ import annotations

import os
import re
from importlib.metadata import PackageNotFoundError, distribution, requires
from typing import TYPE_CHECKING

from headrace.cli.errors import CommandError
from headrace.cli.serve.flags import Program, add_flags, launch_of

if TYPE_CHECKING:
    import argparse

    from headrace.cli.flags import Commands

_DESCRIPTION = """\
Serve a model over gRPC and over HTTP, as OpenAI's API. This starts
headrace-server and headrace-gateway on this machine, tells when the model is
ready, and stops both with Ctrl-C: both refuse new requests at once and complete
the running answers, for --shutdown-timeout at most; a second Ctrl-C does not
wait for them."""
_EPILOG = """\
examples:
  headrace serve                                     the built-in model
  headrace serve ~/models/Qwen3-0.6B                 a directory of safetensors
  headrace serve ~/models/smollm2.Q8_0.gguf          a GGUF file
  headrace serve HuggingFaceTB/SmolLM2-360M-Instruct \\
    --served-model-name small tiny                   of the Hub, with two names
  headrace serve --config headrace.yaml              what the file says
  headrace serve --host 0.0.0.0 --api-key-file keys.txt \\
    --ssl-certfile cert.pem --ssl-keyfile key.pem    for a network

Each flag has an environment variable: --max-num-seqs is HEADRACE_MAX_NUM_SEQS,
--grpc-port is HEADRACE_GRPC_PORT. HEADRACE_HOST holds for HTTP alone and
HEADRACE_GRPC_HOST for gRPC. A flag wins over a variable, and a variable over
the file, which has the flags without their dashes. docs/flags.md has it all.

exit status:
  0  stopped by Ctrl-C or SIGTERM
  1  it could not start, or one of the two programs ended; stderr says why
  2  a flag, a variable or the file is wrong
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "serve",
        help="serve a model over gRPC and HTTP",
        usage="headrace serve [MODEL] [flags]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    add_flags(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Serve until a signal."""
    import asyncio

    from headrace.cli.serve.settings import read_settings
    from headrace.cli.serve.supervisor import supervise

    _take_model_argument(given)
    missing = _missing_packages("server", "gateway")
    if missing:
        raise CommandError(
            f"Serving needs packages that are not installed ({', '.join(missing)}). "
            "Install them, in a checkout of Headrace, with: pip install '.[server,gateway]'"
        )
    settings = read_settings(given, os.environ)
    server, gateway = (launch_of(program, given, os.environ) for program in Program)
    return asyncio.run(supervise(server, gateway, settings))


def _take_model_argument(given: argparse.Namespace) -> None:
    if given.model_argument is None:
        return
    if "model" in given:
        given.parser.error(f"{given.model_argument} and --model are two models; give one of them")
    given.model = given.model_argument


def _missing_packages(*extras: str) -> list[str]:
    """Return the packages of extras of this distribution that are not installed."""
    return sorted(
        {
            name
            for requirement in requires("headrace") or []
            if (name := _name_in_extra(requirement, extras)) and not _is_installed(name)
        }
    )


def _name_in_extra(requirement: str, extras: tuple[str, ...]) -> str | None:
    """Return the name of a requirement such as ``torch>=2.9; extra == "server"``."""
    extra = re.search(r"extra == ['\"](\w+)['\"]", requirement)
    name = re.match(r"[\w.-]+", requirement)
    return name[0] if name and extra and extra[1] in extras else None


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
