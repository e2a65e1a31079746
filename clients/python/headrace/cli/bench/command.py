"""`headrace bench`: the command."""

from __future__ import annotations

from argparse import ArgumentTypeError
from typing import TYPE_CHECKING

from headrace.cli.bench.plan import Plan
from headrace.cli.errors import CommandError
from headrace.cli.server_flags import (
    add_model,
    add_server,
    given_tls_flags,
    open_async_client,
    read_tls,
    to_flag_error,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from headrace.cli.bench.endpoint import Endpoint
    from headrace.cli.flags import Commands, Parser

_DESCRIPTION = """\
Send requests to a server that runs and print how fast it answers. Each stream
sends its next request when the last is answered. Prompts are random words of an
exact number of tokens, so that no prefix cache knows them; answers run to their
length."""
_EPILOG = """\
what is printed:
  TTFT         from sending a request to its first token
  TPOT         from the first token to the last, for each token between; one
               value for each answer
  inter-token  between two messages of an answer that bring tokens
  request      from sending a request to the end of its answer

examples:
  headrace bench                                     over gRPC
  headrace bench --url http://localhost:1919/v1      over HTTP
  headrace bench --streams 16 --requests 160 --prompt-tokens 512
  headrace bench --json | jq .output_tokens_per_second

Ctrl-C prints what there is by then.

exit status: 0 if every request was answered, 1 if not, 130 after Ctrl-C
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "bench",
        help="measure how fast a server answers",
        usage="headrace bench [flags]",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    _add_load_flags(parser)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--json", action="store_true", help="print one JSON object, with times in seconds"
    )
    server = add_server(parser)
    server.add_argument(
        "--url", type=_url, metavar="URL", help="of OpenAI's API over HTTP, in place of gRPC"
    )
    add_model(server)
    parser.set_defaults(run=run)


def _add_load_flags(parser: Parser) -> None:
    load = parser.add_argument_group("load")
    for flag, low, default, text in (
        ("--streams", 1, 4, "requests at the same time"),
        ("--requests", 1, 32, "requests that are measured"),
        ("--prompt-tokens", 1, 64, "tokens of each prompt"),
        ("--output-tokens", 1, 64, "tokens of each answer"),
    ):
        load.add_argument(
            flag,
            type=_at_least(low),
            metavar="N",
            default=default,
            help=f"{text} (default: {default})",
        )
    load.add_argument(
        "--warmup",
        type=_at_least(0),
        metavar="N",
        help="requests before those, not measured (default: one for each stream)",
    )
    load.add_argument(
        "--seed", type=int, metavar="N", help="of the prompts (default: others each time)"
    )


def run(given: argparse.Namespace) -> int:
    """Measure, and print the figures."""
    from headrace.cli.bench.measurement import measure

    return measure(_endpoint(given), _plan(given), as_json=given.json)


def _plan(given: argparse.Namespace) -> Plan:
    return Plan(
        num_streams=given.streams,
        num_requests=given.requests,
        num_warmup_requests=given.streams if given.warmup is None else given.warmup,
        num_prompt_tokens=given.prompt_tokens,
        num_output_tokens=given.output_tokens,
        seed=given.seed,
    )


def _endpoint(given: argparse.Namespace) -> Endpoint:
    if given.url is None:
        from headrace.cli.bench.grpc_endpoint import GrpcEndpoint

        # A refusal is a result here, and not to be tried again.
        return GrpcEndpoint(open_async_client(given, max_attempts=1), given.target, given.model)
    tls = read_tls(given)
    if tls is not None and given.url.startswith("http:"):
        given.parser.error(f"{given_tls_flags(given)[0]} goes with an https URL, not {given.url}")
    try:
        from headrace.cli.bench.http_endpoint import HttpEndpoint
    except ModuleNotFoundError:
        raise CommandError(
            "--url needs the package aiohttp, which is not installed. Install it, in a checkout "
            "of Headrace, with: pip install '.[gateway]'"
        ) from None
    try:
        return HttpEndpoint(given.url, given.model, given.api_key, tls)
    except ValueError as error:
        raise to_flag_error(error) from None


def _at_least(low: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isdecimal() and len(text) <= 9 and int(text) >= low):
            raise ArgumentTypeError(f"{text!r} must be a whole number of at least {low}")
        return int(text)

    return read


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ArgumentTypeError(f"{text!r} must be a URL such as http://localhost:1919/v1")
    return text
