"""Parses whole outputs, cut as a test likes."""

import itertools
from dataclasses import dataclass

from headrace_server.text.parsing.output_parser import OutputForm, OutputParser
from headrace_server.text.parsing.reasoning import ReasoningStart
from headrace_server.text.parsing.sink import Parsed


@dataclass(frozen=True)
class Read:
    """What was made of an output: calls are pairs of a name and arguments."""

    text: str = ""
    calls: tuple = ()
    reasoning: str = ""
    waits_for_results: bool = False


def parse(
    output,
    form,
    *,
    tools=("get_weather", "now"),
    cuts=(),
    tags=None,
    start=ReasoningStart.POSSIBLE,
    max_calls=None,
):
    """Parse an output in pieces that end at `cuts`."""
    parser, pieces = _pieces(output, form, tools, cuts, tags, start, max_calls)
    calls = {}
    for piece in (each for parsed in pieces for each in parsed.tool_calls):
        if piece.index in calls:
            assert (piece.id, piece.name) == ("", "")
            calls[piece.index][2] += piece.arguments
        else:
            assert piece.index == len(calls)
            calls[piece.index] = [piece.id, piece.name, piece.arguments]
    assert [call_id for call_id, _, _ in calls.values()] == [f"id{i}" for i in range(len(calls))]
    return Read(
        text="".join(parsed.text for parsed in pieces),
        calls=tuple((name, arguments) for _, name, arguments in calls.values()),
        reasoning="".join(parsed.reasoning for parsed in pieces),
        waits_for_results=parser.has_only_whole_calls,
    )


def pieces_of(output, form, cuts):
    """Return what each piece of an output is, as it comes."""
    return _pieces(output, form, ("get_weather", "now"), cuts, None, ReasoningStart.POSSIBLE, None)[
        1
    ]


def _pieces(output, form, tools, cuts, tags, start, max_calls):
    ids = (f"id{number}" for number in itertools.count())
    parser = OutputParser(
        OutputForm(frozenset(tools), form, max_calls, tags, start, lambda: next(ids))
    )
    places = [0, *sorted(cuts), len(output)]
    pieces = [parser.feed(output[a:b]) for a, b in itertools.pairwise(places)]
    pieces = [*pieces, parser.end()]
    return parser, [part for parts in pieces for part in parts or (Parsed(),)]
