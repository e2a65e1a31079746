"""`headrace chat`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import headrace
from headrace.cli.conversation import Conversation
from headrace.cli.errors import CommandError, ExitCode
from headrace.cli.option_flags import (
    MAX_TOKENS,
    SAMPLING_FLAGS,
    add_options,
    read_options,
    to_command_error,
)
from headrace.cli.prompt_line import line_source
from headrace.cli.server_flags import add_model, add_server, open_async_client
from headrace.cli.terminal import AnswerPrinter, how_it_was_cut, note, statistics

if TYPE_CHECKING:
    import argparse
    import asyncio
    from collections.abc import Mapping

    from headrace.cli.flags import Commands

_DESCRIPTION = """\
Talk to a model. It remembers the conversation until you leave.

  Ctrl-C   stops the answer; at the prompt it drops the line; a second one
           leaves, if nothing was typed in between
  Ctrl-D   leaves
  /help    lists the commands

Each line from a pipe is a turn, and the output is the answers alone."""
_EPILOG = """\
examples:
  headrace chat
  headrace chat --system "You are a pirate." --max-tokens 60
  printf 'What is the capital of France?\\nAnd of Italy?\\n' | headrace chat
"""
_HELP = '''\
  /system TEXT   tell the model how to behave; without TEXT, show it
  /reset         forget the conversation
  /exit          leave, as Ctrl-D does
  /help          show this
  """            begin a text of several lines; """ again ends it'''


def add_to(commands: Commands) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "chat",
        help="talk to a model",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    conversation = parser.add_argument_group("conversation")
    conversation.add_argument(
        "--system", metavar="TEXT", default="", help="how to behave (default: the model's own)"
    )
    conversation.add_argument(
        "--stats", action="store_true", help="print counts and times after each answer"
    )
    add_options(parser, "answers (default: the model's own)", (*SAMPLING_FLAGS, MAX_TOKENS))
    add_model(add_server(parser))
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Read lines and answer them until the end."""
    import asyncio

    is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
    with asyncio.Runner() as runner, line_source(is_interactive=is_interactive) as lines:
        chat = Chat(
            runner=runner,
            client=open_async_client(given),
            options=read_options(given),
            conversation=Conversation(given.system),
            is_interactive=is_interactive,
            shows_statistics=given.stats,
        )
        chat.greet()
        try:
            while (line := lines.read()) is not None and line.strip() != "/exit":
                chat.take(line)
        finally:
            runner.run(chat.client.close())
    return ExitCode.DONE


@dataclass(frozen=True, slots=True)
class Chat:
    """A conversation with a model at a terminal or in a pipe.

    Args:
        runner: runs one answer at a time, so that Ctrl-C cancels just that.
        client: of the server that answers.
        options: of `headrace.AsyncClient.stream`.
        conversation: the turns so far.
        is_interactive: whether a person is there, who can go on after an error.
        shows_statistics: whether each answer is followed by its counts and times.
    """

    runner: asyncio.Runner
    client: headrace.AsyncClient
    options: Mapping[str, Any]
    conversation: Conversation
    is_interactive: bool
    shows_statistics: bool

    def greet(self) -> None:
        """Find the model, and tell a person which one it is.

        Raises:
            CommandError: the model does not converse.
            HeadraceError: there is no model.
        """
        model = self.runner.run(self.client.get_model(self.options.get("model")))
        if headrace.Capability.CHAT not in model.capabilities:
            raise CommandError(
                f"{model.name} has no chat template, so it cannot converse; "
                "headrace generate continues a text with it."
            )
        if self.is_interactive:
            print(f"{model.name}, {model.context_length} tokens of context. /help for help.")

    def take(self, line: str) -> None:
        """Do what a line asks for: a command, or an answer."""
        command, _, argument = line.strip().partition(" ")
        match command:
            case "":
                pass
            case "/help":
                print(_HELP)
            case "/reset":
                self.conversation.forget()
                note("the conversation is forgotten")
            case "/system" if argument:
                self.conversation.system = argument.strip()
            case "/system":
                note(self.conversation.system or "the model's own")
            case _ if command.startswith("/"):
                self._report(f"There is no command {command}; /help lists them.")
            case _:
                self._answer(line)

    def _answer(self, question: str) -> None:
        printer, pieces = AnswerPrinter(), list[str]()
        try:
            generation = self.runner.run(self._stream(question, printer, pieces))
        except KeyboardInterrupt:
            printer.begin_line()
            if not self.is_interactive:
                raise
            note("stopped")
        except headrace.HeadraceError as error:
            printer.begin_line()
            mistake = to_command_error(error)
            if mistake.exit_code is ExitCode.USAGE:  # each turn would end like this
                raise mistake from error
            hint = " /reset makes room." if error.reason == "CONTEXT_LENGTH_EXCEEDED" else ""
            self._report(error.message + hint)
            return
        else:
            printer.begin_line()
            self._comment(generation)
        # What was said is said, also where it was stopped.
        if pieces:
            self.conversation.add(question, "".join(pieces))

    async def _stream(
        self, question: str, printer: AnswerPrinter, pieces: list[str]
    ) -> headrace.Generation:
        messages = self.conversation.messages(question)
        async with self.client.stream(messages=messages, **self.options) as stream:
            async for delta in stream:
                pieces.append(delta.text)
                printer.write_reasoning(delta.reasoning)
                printer.write(delta.text)
        return stream.generation

    def _comment(self, generation: headrace.Generation) -> None:
        if cut := how_it_was_cut(generation.finish_reason, generation.usage.output_token_count):
            is_full = generation.finish_reason is headrace.FinishReason.CONTEXT_LENGTH
            note(f"{cut}; /reset makes room" if is_full else cut)
        if self.shows_statistics:
            note(statistics(generation))

    def _report(self, sentence: str) -> None:
        """Tell a person, who goes on; a pipe ends, for later lines build on this one."""
        if not self.is_interactive:
            raise CommandError(sentence)
        print(f"headrace: {sentence}", file=sys.stderr, flush=True)
