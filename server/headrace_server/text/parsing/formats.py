"""The forms in which models call tools: where their calls begin, and what is round them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from headrace_server.text.parsing.call_reader import CallReader, Outcome
from headrace_server.text.parsing.source import END
from headrace_server.text.parsing.text_passer import pass_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headrace_server.text.parsing.sink import Sink
    from headrace_server.text.parsing.source import Parse, Source

HERMES_OPENING: Final = "<tool_call>"
HERMES_CLOSING: Final = "</tool_call>"
LLAMA3_OPENING: Final = "<|python_tag|>"
MISTRAL_OPENING: Final = "[TOOL_CALLS]"
MISTRAL_ID: Final = "[CALL_ID]"
MISTRAL_ARGUMENTS: Final = "[ARGS]"

# Names are shorter; what goes on is held back until here only.
_MAX_WORD_CHARACTERS: Final = 128
_JOINTS: Final = "_-."


class ToolCallFormat(Enum):
    """A form of calls; the values are the names that people know."""

    HERMES = "hermes"
    LLAMA3_JSON = "llama3_json"
    MISTRAL = "mistral"

    @property
    def markers(self) -> tuple[str, ...]:
        """The texts that may be control tokens of a model, which are read all the same."""
        match self:
            case ToolCallFormat.HERMES:
                return (HERMES_OPENING, HERMES_CLOSING)
            case ToolCallFormat.LLAMA3_JSON:
                return (LLAMA3_OPENING,)
            case ToolCallFormat.MISTRAL:
                return (MISTRAL_OPENING, MISTRAL_ID, MISTRAL_ARGUMENTS)


class CallsParser:
    """Reads the calls of one output, and passes on what is none.

    Args:
        source: where the characters come from.
        sink: is told of text and calls.
        names: of the tools that there are.
    """

    def __init__(self, source: Source, sink: Sink, names: Collection[str]) -> None:
        self._source = source
        self._sink = sink
        self._names = names
        self._reader = CallReader(source, sink, names)
        self._skip_space = False

    def parse(self, form: ToolCallFormat, *, skip_space: bool) -> Parse[None]:
        """Read an output in which the model calls what it likes.

        Args:
            form: that of its calls.
            skip_space: whether white space at the beginning is no text.
        """
        self._skip_space = skip_space
        match form:
            case ToolCallFormat.HERMES:
                yield from self._marked(HERMES_OPENING, self._hermes)
            case ToolCallFormat.LLAMA3_JSON:
                yield from self._llama3_calls("")
                yield from self._marked(LLAMA3_OPENING, self._llama3_calls)
            case ToolCallFormat.MISTRAL:
                yield from self._marked(MISTRAL_OPENING, self._mistral)

    def parse_list(self) -> Parse[None]:
        """Read an output that is a JSON array of calls, as the server's grammar has it.

        What is cut before the name of its tool is no call, and no text either.
        """
        yield from self._list("", told=False)
        yield from pass_text(self._source, self._sink.add_text, (), skip_space=True)

    def _marked(self, marker: str, read: Callable[[str], Parse[None]]) -> Parse[None]:
        while True:
            opening = yield from pass_text(
                self._source, self._sink.add_text, (marker,), skip_space=self._skip_space
            )
            if not opening:
                return
            yield from read(opening)

    def _hermes(self, opening: str) -> Parse[None]:
        opening += yield from self._source.skip_space()
        if (yield from self._call(opening)):
            space = yield from self._source.skip_space()
            if not (yield from self._source.take_cut(HERMES_CLOSING)):
                self._source.put_back(space)

    def _llama3_calls(self, opening: str) -> Parse[None]:
        """Read calls that are separated by semicolons or white space."""
        opening += yield from self._source.skip_space()
        while True:
            is_object = yield from self._next_is("{")
            if not is_object and not opening.strip():
                self._source.put_back(opening)
                return
            if not (yield from self._call(opening)):
                return
            opening = yield from self._source.skip_space()
            if (yield from self._next_is(";")):
                opening += yield from self._source.next()
                opening += yield from self._source.skip_space()
            if not (yield from self._next_is("{")):
                self._source.put_back(opening)
                return

    def _mistral(self, opening: str) -> Parse[None]:
        opening += yield from self._source.skip_space()
        if (yield from self._next_is("[")):
            yield from self._list(opening, told=True)
        elif (yield from self._next_is("{")):
            yield from self._call(opening)
        else:
            yield from self._mistral_name(opening)

    def _mistral_name(self, opening: str) -> Parse[None]:
        """Read ``name[ARGS]{…}``, or ``name[CALL_ID]id[ARGS]{…}``, or ``name{…}``."""
        name = yield from self._word()
        raw = opening + name
        call_id = yield from self._marker(MISTRAL_ID)
        if call_id:
            call_id += yield from self._word()
        raw += call_id
        raw += yield from self._marker(MISTRAL_ARGUMENTS)
        raw += yield from self._source.skip_space()
        if name not in self._names:
            self._fall_back(raw)
            return
        outcome = yield from self._reader.read_arguments(name)
        self._settle(outcome, raw)

    def _list(self, opening: str, *, told: bool) -> Parse[None]:
        """Read a JSON array of calls.

        Args:
            opening: what was read before it.
            told: whether what is no call is text.
        """
        raw = opening + (yield from self._source.next())
        while True:
            raw += yield from self._source.skip_space()
            outcome = yield from self._reader.read()
            if outcome is Outcome.NONE and not told and (yield from self._next_is(END)):
                return
            if not self._settle(outcome, raw):
                return
            raw = yield from self._source.skip_space()
            if not (yield from self._next_is(",")):
                break
            raw += yield from self._source.next()
        yield from self._source.take("]")

    def _call(self, opening: str) -> Parse[bool]:
        """Read a call, and tell whether it is one; else it becomes text, with what opened it."""
        outcome = yield from self._reader.read()
        return self._settle(outcome, opening)

    def _settle(self, outcome: Outcome, opening: str) -> bool:
        if outcome is Outcome.NONE:
            self._fall_back(opening + self._reader.take_raw())
        else:
            self._skip_space = outcome is Outcome.WHOLE
        return outcome is Outcome.WHOLE

    def _fall_back(self, text: str) -> None:
        """Pass on as text what looked like a call."""
        if text:
            self._sink.add_text(text)
            self._skip_space = False

    def _next_is(self, expected: str) -> Parse[bool]:
        character = yield from self._source.next()
        self._source.put_back(character)
        return character == expected

    def _word(self) -> Parse[str]:
        """Read letters, digits and what joins them, as names and ids have them."""
        word: list[str] = []
        while len(word) <= _MAX_WORD_CHARACTERS:
            character = yield from self._source.next()
            if not (character.isalnum() or character in _JOINTS) or character == END:
                break
            word.append(character)
        else:
            character = END
        self._source.put_back(character)
        return "".join(word)

    def _marker(self, marker: str) -> Parse[str]:
        """Read a marker where it comes next; return it, or nothing."""
        return marker if (yield from self._source.take(marker)) else ""
