"""`headrace generate`."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from headrace.cli.answer_json import to_json
from headrace.cli.errors import CommandError, ExitCode
from headrace.cli.likelihoods import likelihood_table
from headrace.cli.option_flags import (
    CANDIDATES,
    FORM_FLAGS,
    LOGPROBS,
    QUEUE_FLAGS,
    SAMPLING_FLAGS,
    STOPPING_FLAGS,
    SUFFIX,
    add_options,
    read_options,
)
from headrace.cli.server_flags import add_model, add_server, open_async_client
from headrace.cli.terminal import AnswerPrinter, how_it_was_cut, note, statistics

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    import headrace
    from headrace.cli.flags import Commands

_DESCRIPTION = """\
Continue a text and print the answer as it is made. The output is exactly the
answer; only on a terminal a newline is added. Several candidates are printed
when they are complete, each below its number."""
_EPILOG = """\
examples:
  headrace generate "Once upon a time" --max-tokens 60
  headrace generate --chat "What is the capital of France?"
  headrace generate --chat --system "You are a pirate." "Who are you?"
  headrace generate --max-tokens 60 < story.txt   less a newline at its end
  headrace generate "2, 4, 6," --stop 20 --json | jq .token_ids
  headrace generate "2, 4, 6," --max-tokens 4 --logprobs 3
  headrace generate "I like" --candidates 3 --temperature 1 --max-tokens 20
  headrace generate --chat "Are you a model?" --choice yes --choice no
  headrace generate --chat "Name a city." --json-schema city.json
  headrace generate "def add(a, b):" --suffix "    return total"

Ctrl-C stops the work on the server, too, and exits with 130.
"""


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "generate",
        help="continue a text",
        usage="headrace generate [flags] [PROMPT]",
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
    sampling_flags = (*SAMPLING_FLAGS, CANDIDATES)
    prompt.add_argument(SUFFIX.flag, metavar=SUFFIX.metavar, help=SUFFIX.help)
    add_options(parser, "sampling (default: the model's own)", sampling_flags)
    add_options(parser, "length and time", STOPPING_FLAGS)
    add_options(parser, "form (default: any)", FORM_FLAGS, is_exclusive=True)
    add_options(parser, "queue and cache", QUEUE_FLAGS)
    add_options(parser, "likelihoods, on the standard error", (LOGPROBS,))
    output = parser.add_argument_group("output")
    output.add_argument(
        "--json", action="store_true", help="print one JSON object when the answer is complete"
    )
    output.add_argument(
        "--stats", action="store_true", help="print counts and times to the standard error"
    )
    add_model(add_server(parser))
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Read the prompt and print the answer."""
    import asyncio

    options = {**read_options(given), **_prompt(given)}
    is_single = options.get(CANDIDATES.option, 1) == 1
    generation = asyncio.run(
        _answer(open_async_client(given), options, is_streamed=is_single and not given.json)
    )
    if given.json:
        print(json.dumps(to_json(generation), ensure_ascii=False))
    elif not is_single:
        _print_candidates(generation)
    _comment(generation, given)
    return ExitCode.DONE


def _comment(generation: headrace.Generation, given: argparse.Namespace) -> None:
    """Write beside the answer what a person wants to know of it."""
    is_single = len(generation.candidates) == 1
    for number, candidate in enumerate(generation.candidates, 1):
        usage = generation.usage
        num_tokens = usage.output_token_count if is_single else len(candidate.token_ids)
        prefix = "" if is_single else f"{number}: "
        if sys.stderr.isatty() and (cut := how_it_was_cut(candidate.finish_reason, num_tokens)):
            note(prefix + cut)
        if candidate.logprobs and not given.json:
            heading = "" if is_single else f"\n[{number}]\n"
            print(heading + likelihood_table(candidate.logprobs), file=sys.stderr)
    if given.stats:
        note(statistics(generation))


async def _answer(
    client: headrace.AsyncClient, options: Mapping[str, Any], *, is_streamed: bool
) -> headrace.Generation:
    async with client:
        if is_streamed:
            return await _print_stream(client, options)
        return await client.generate(**options)


def _print_candidates(generation: headrace.Generation) -> None:
    printer = AnswerPrinter()
    for number, candidate in enumerate(generation.candidates, 1):
        printer.write(f"{'' if number == 1 else chr(10)}[{number}]\n{candidate.text}")
        printer.begin_line()


async def _print_stream(
    client: headrace.AsyncClient, options: Mapping[str, Any]
) -> headrace.Generation:
    printer = AnswerPrinter()
    try:
        async with client.stream(**options) as stream:
            async for delta in stream:
                printer.write_reasoning(delta.reasoning)
                printer.write(delta.text)
    finally:
        if printer.is_terminal:
            printer.begin_line()
    return stream.generation


def _prompt(given: argparse.Namespace) -> dict[str, Any]:
    if given.system is not None and not given.chat:
        raise CommandError("--system goes with --chat.", ExitCode.USAGE)
    if given.suffix is not None and given.chat:
        raise CommandError("--suffix does not go with --chat.", ExitCode.USAGE)
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
