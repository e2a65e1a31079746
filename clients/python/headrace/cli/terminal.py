"""What is written for people: answers as they arrive, notes beside them, and numbers."""

from __future__ import annotations

import sys

import headrace
from headrace.cli.option_flags import MAX_TOKENS

# A model must not be able to move the cursor, set the title or reprogram the terminal.
_VISIBLE_CONTROLS = {
    number: "\ufffd" for number in (*range(0x20), *range(0x7F, 0xA0)) if chr(number) not in "\n\r\t"
} | {ord("\r"): None}


_DIM, _NORMAL = "\x1b[2m", "\x1b[0m"


class AnswerPrinter:
    """Writes an answer to the standard output piece by piece: exactly, but without
    control characters where that is a terminal.
    """

    def __init__(self) -> None:
        self.is_terminal = sys.stdout.isatty()
        self._last = "\n"
        self._is_reasoning = False

    def write_reasoning(self, text: str) -> None:
        """Show a piece of reasoning, dimly, to a person; it is no part of the answer."""
        if text and self.is_terminal:
            self._last = text[-1]
            self._is_reasoning = True
            sys.stdout.write(f"{_DIM}{text.translate(_VISIBLE_CONTROLS)}{_NORMAL}")
            sys.stdout.flush()

    def write(self, text: str) -> None:
        """Show a piece at once."""
        if text and self._is_reasoning:
            self._is_reasoning = False
            sys.stdout.write("\n\n")
        if text:
            self._last = text[-1]
            sys.stdout.write(text.translate(_VISIBLE_CONTROLS) if self.is_terminal else text)
            sys.stdout.flush()

    def begin_line(self) -> None:
        """Begin a new line, unless the answer has done so or is empty."""
        if self._last != "\n":
            self.write("\n")


def note(text: str) -> None:
    """Write a note beside the answer, to the standard error."""
    print(f"[{text}]", file=sys.stderr, flush=True)


def how_it_was_cut(reason: headrace.FinishReason, num_tokens: int) -> str | None:
    """Tell in words why an answer of so many tokens did not end by itself; None where it did."""
    match reason:
        case headrace.FinishReason.MAX_OUTPUT_TOKENS:
            return f"cut after {_tokens(num_tokens)}; {MAX_TOKENS.flag} allows more"
        case headrace.FinishReason.CONTEXT_LENGTH:
            return "cut because the context is full"
        case (
            headrace.FinishReason.END_OF_TEXT
            | headrace.FinishReason.STOP_SEQUENCE
            | headrace.FinishReason.TOOL_CALLS
        ):
            return None
        case _:
            return f"cut: {reason}"


def statistics(generation: headrace.Generation) -> str:
    """Return the counts and times of an answer in words."""
    usage, timing = generation.usage, generation.timing
    cached = f" ({usage.cached_token_count} cached)" if usage.cached_token_count else ""
    words = [
        f"{_tokens(usage.prompt_token_count)} in{cached}",
        f"{_tokens(usage.output_token_count)} out in {timing.total_seconds:.2f} s",
    ]
    if timing.first_token_seconds is not None:
        words.append(f"first after {timing.first_token_seconds:.2f} s")
        decode_seconds = timing.total_seconds - timing.first_token_seconds
        if usage.output_token_count > 1 and decode_seconds > 0:
            words.append(f"then {(usage.output_token_count - 1) / decode_seconds:.1f} tokens/s")
    return ", ".join(words)


def _tokens(count: int) -> str:
    return "1 token" if count == 1 else f"{count} tokens"
