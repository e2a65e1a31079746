"""`headrace models`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from headrace.cli.errors import ExitCode
from headrace.cli.server_flags import add_server, open_client

if TYPE_CHECKING:
    import argparse

    import headrace
    from headrace.cli.flags import Commands

_EPILOG = """\
examples:
  headrace models
  headrace models --json | jq '.[0].default_sampling'
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "models",
        help="list the served models",
        description="List the served models.",
        epilog=_EPILOG,
    )
    add_server(parser)
    parser.add_argument_group("output").add_argument(
        "--json", action="store_true", help="print all that is known of them, as a list in JSON"
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Print the models as a table or as JSON."""
    with open_client(given) as client:
        models = client.list_models()
    print(_as_json(models) if given.json else _as_table(models))
    return ExitCode.DONE


def _as_json(models: list[headrace.Model]) -> str:
    fields = [{**asdict(model), "ready_time": model.ready_time.isoformat()} for model in models]
    return json.dumps(fields, indent=2, ensure_ascii=False)


def _as_table(models: list[headrace.Model]) -> str:
    rows = [("NAME", "CONTEXT", "TAKES", "ALIASES")]
    rows += [
        (
            model.name,
            str(model.context_length),
            ", ".join(model.capabilities),
            ", ".join(model.aliases),
        )
        for model in models
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    return "\n".join(lines)
