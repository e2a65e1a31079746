"""`headrace generate`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import headrace
from headrace.cli.errors import CommandError, ExitCode
from headrace.cli.flags import (
    SAMPLING_FLAGS,
    STOPPING_FLAGS,
    add_model,
    add_options,
    add_target,
    read_options,
)
from headrace.cli.terminal import AnswerPrinter, how_it_was_cut, note, statistics

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from headrace.cli.flags import Commands

_DESCRIPTION = """\
Continue a text and print the answer as it is made. The output is exactly the answer; only
on a terminal a newline is added."""
_EPILOG = """\
examples:
  headrace generate "Once upon a time" --max-tokens 60
  headrace generate --chat "What is the capital of France?"
  headrace generate --chat --system "You are a pirate." "Who are you?" --max-tokens 60
  headrace generate --max-tokens 60 < story.txt          a newline at its end is left out
  headrace generate "2, 4, 6," --stop 20 --json | jq .token_ids

Ctrl-C stops the work on the server, too, and exits with 130.
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "generate",
        help="continue a text",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.extra_word_hint = 'put the prompt in quotes, as in: headrace generate "Hello world"'
    prompt = parser.add_argument_group("prompt")
    prompt.add_argument(
        "prompt", nargs="?", metavar="PROMPT", help="the text; - or nothing reads standard input"
    )
    prompt.add_argument(
        "--chat", action="store_true", help="let the model answer the text, as in a conversation"
    )
    prompt.add_argument(
        "--system",
        metavar="TEXT",
        help="how to behave; goes with --chat (default: the model's own)",
    )
    add_options(parser, "sampling (default: the model's own)", SAMPLING_FLAGS)
    add_options(parser, "length and time", STOPPING_FLAGS)
    output = parser.add_argument_group("output")
    output.add_argument(
        "--json", action="store_true", help="print one JSON object when the answer is complete"
    )
    output.add_argument(
        "--stats", action="store_true", help="print counts and times to the standard error"
    )
    add_model(add_target(parser))
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Read the prompt and print the answer."""
    import asyncio

    options = {**read_options(given), **_prompt(given)}
    # Not the blocking client: an interrupt in the midst of its making a call leaves the channel
    # of gRPC in a state in which closing it never ends. asyncio interrupts between steps only.
    generation = asyncio.run(_answer(given.target, options, is_streamed=not given.json))
    if given.json:
        print(json.dumps(asdict(generation), ensure_ascii=False))
    if sys.stderr.isatty() and (cut := how_it_was_cut(generation)):
        note(cut)
    if given.stats:
        note(statistics(generation))
    return ExitCode.DONE


async def _answer(
    target: str, options: Mapping[str, Any], *, is_streamed: bool
) -> headrace.Generation:
    async with headrace.AsyncClient(target) as client:
        if is_streamed:
            return await _print_stream(client, options)
        return await client.generate(**options)


async def _print_stream(
    client: headrace.AsyncClient, options: Mapping[str, Any]
) -> headrace.Generation:
    printer = AnswerPrinter()
    try:
        async with client.stream(**options) as stream:
            async for delta in stream:
                printer.write(delta.text)
    finally:
        if printer.is_terminal:
            printer.begin_line()
    return stream.generation


def _prompt(given: argparse.Namespace) -> dict[str, Any]:
    if given.system is not None and not given.chat:
        raise CommandError("--system goes with --chat.", ExitCode.USAGE)
    if given.prompt is None and sys.stdin.isatty():
        raise CommandError(
            'There is no prompt. Give one, as in: headrace generate "Hello world"',
            ExitCode.USAGE,
        )
    text = _read_standard_input() if given.prompt in (None, "-") else given.prompt
    if not given.chat:
        return {"prompt": text}
    system = [] if given.system is None else [{"role": "system", "content": given.system}]
    return {"messages": [*system, {"role": "user", "content": text}]}


def _read_standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise CommandError("The standard input is not text in UTF-8.") from None
