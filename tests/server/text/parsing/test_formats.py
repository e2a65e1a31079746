"""The calls of each kind of model, as they come out of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_server.text.parsing.formats import ToolCallFormat
from headrace_server.text.parsing.sink import Parsed
from tests.server.text.parsing.parsing import Read, parse, pieces_of

HERMES, LLAMA3, MISTRAL = ToolCallFormat
LIST = None

PARIS = ("get_weather", '{"city": "Paris", "days": [1, 2.5e0], "note": "a } and \\"q\\""}')
BERLIN = ("get_weather", '{"city":"Berlin"}')
NOW = ("now", "{}")


def call(pair, key="arguments"):
    return f'{{"name": "{pair[0]}", "{key}": {pair[1]}}}'


def hermes(pair):
    return f"<tool_call>\n{call(pair)}\n</tool_call>"


OUTPUTS = [
    # Hermes and Qwen
    (HERMES, hermes(PARIS), Read("", (PARIS,))),
    (HERMES, f"I look.\n\n{hermes(PARIS)}\n{hermes(NOW)}", Read("I look.", (PARIS, NOW))),
    (HERMES, f"<tool_call>{call(NOW)}</tool_call>\n\nDone.", Read("Done.", (NOW,))),
    (HERMES, f"<tool_call>\n{call(BERLIN)}", Read("", (BERLIN,))),
    (HERMES, f"<tool_call>\n{call(BERLIN)}\n</tool_c", Read("", (BERLIN,))),
    (HERMES, f"<tool_call>\n{call(BERLIN)[:-1]}\n</tool_call>", Read("", (BERLIN,))),
    (HERMES, f"<tool_call>\n{call(NOW)}\n{hermes(BERLIN)}", Read("", (NOW, BERLIN))),
    (HERMES, '<tool_call>{"name": "now"}</tool_call>', Read("", (NOW,))),
    (HERMES, '<tool_call>{"name": "now", "arguments": null}</tool_call>', Read("", (NOW,))),
    (HERMES, '<tool_call>{"arguments": {"city":"Berlin"}, "name": "get_weather"}</tool_call>',
     Read("", (BERLIN,))),
    (HERMES, '<tool_call>{"id": 5, "type": "function", "name": "now", "arguments": {}}</tool_call>',
     Read("", (NOW,))),
    # Llama 3
    (LLAMA3, call(PARIS, "parameters"), Read("", (PARIS,))),
    (LLAMA3, f"\n {call(PARIS, 'parameters')}; {call(NOW, 'parameters')}", Read("", (PARIS, NOW))),
    (LLAMA3, f"{call(NOW, 'parameters')}\n{call(BERLIN, 'parameters')}", Read("", (NOW, BERLIN))),
    (LLAMA3, f"<|python_tag|>{call(PARIS, 'parameters')}", Read("", (PARIS,))),
    (LLAMA3, f"Well, <|python_tag|>{call(NOW, 'parameters')}", Read("Well,", (NOW,))),
    (LLAMA3, f"{call(BERLIN)} and more", Read("and more", (BERLIN,))),
    # Mistral, of three ages
    (MISTRAL, f"[TOOL_CALLS][{call(PARIS)}, {call(NOW)}]", Read("", (PARIS, NOW))),
    (MISTRAL, f"[TOOL_CALLS] [ {call(PARIS)} ]", Read("", (PARIS,))),
    (MISTRAL, f"One moment. [TOOL_CALLS]get_weather[ARGS]{PARIS[1]}[TOOL_CALLS]now[ARGS]{{}}",
     Read("One moment.", (PARIS, NOW))),
    (MISTRAL, f"[TOOL_CALLS]get_weather[CALL_ID]a1B2c3D4e[ARGS]{BERLIN[1]}", Read("", (BERLIN,))),
    (MISTRAL, f"[TOOL_CALLS]get_weather{BERLIN[1]}", Read("", (BERLIN,))),
    (MISTRAL, f"[TOOL_CALLS]{call(NOW)}", Read("", (NOW,))),
    # the server's own grammar
    (LIST, f"[{call(PARIS)}]", Read("", (PARIS,))),
    (LIST, f"[{call(PARIS)}, {call(NOW)},{call(BERLIN)}]", Read("", (PARIS, NOW, BERLIN))),
]  # fmt: skip

TEXTS = [
    *((form, "Just words, 1 < 2, [a] and {b}. ") for form in ToolCallFormat),
    (HERMES, "<tool_call>\nnot JSON\n</tool_call>"),
    (HERMES, 'a\n<tool_call>\n{"name": "unknown", "arguments": {}}\n</tool_call> b'),
    (HERMES, '<tool_call>{"name": "now", "arguments": "{}"}</tool_call>'),
    (HERMES, '<tool_call>{"name": ["now"], "arguments": {}}</tool_call>'),
    (HERMES, '<tool_call>{"arguments": {}}</tool_call>'),
    (HERMES, '<tool_call>{"name": "now", "answer": 42'),
    (HERMES, '<tool_call>{"name": "now", "argum'),
    (HERMES, "<tool_call>"),
    (HERMES, "an end <tool_ca"),
    (LLAMA3, '{"city": "Paris", "name": "now"}'),
    (LLAMA3, "  {braces}"),
    (LLAMA3, f"say {call(NOW)}"),
    (LLAMA3, 'Hi <|python_tag|>print("x")'),
    (LLAMA3, " "),
    (MISTRAL, "[TOOL_CALLS] nothing"),
    (MISTRAL, "[TOOL_CALLS]unknown[ARGS]{}"),
    (MISTRAL, "[TOOL_CALLS]now[ARGS]five"),
    (MISTRAL, "[TOOL_CALLS]now[AR"),
    (MISTRAL, "[TOOL_CALLS]" + "n" * 300 + "[ARGS]{}"),
    (MISTRAL, "[TOOL_CALLS][5]"),
]

BROKEN = [
    (HERMES, 'x <tool_call>{"name": "now", "arguments": {"a": 1,}}</tool_call>',
     Read("x}}</tool_call>", (("now", '{"a": 1,'),))),
    (HERMES, '<tool_call>{"name": "now", "arguments": {"a": ', Read("", (("now", '{"a": '),))),
    (LLAMA3, '{"name": "now", "parameters": {"a"}} so', Read("}} so", (("now", '{"a"'),))),
    (MISTRAL, f"[TOOL_CALLS][{call(NOW)}, " + '{"name": "now", "arguments": {a}}]',
     Read("a}}]", (NOW, ("now", "{")))),
    (LIST, '[{"name": "now", "arguments": {"a', Read("", (("now", '{"a'),))),
    (LIST, '[{"name": "no', Read()),
    (LIST, "", Read()),
]  # fmt: skip


@pytest.mark.parametrize(("form", "output", "expected"), OUTPUTS)
def test_calls_are_told_from_text(form, output, expected):
    """The arguments are as the model wrote them; what frames calls is neither text nor call."""
    read = parse(output, form)
    assert (expected.text, expected.calls) == (read.text, read.calls)
    assert read.waits_for_results


@pytest.mark.parametrize(("form", "output"), TEXTS)
def test_what_is_no_call_is_text_to_the_letter(form, output):
    """Nothing is lost of what only looks like a call."""
    assert Read(output) == parse(output, form)


@pytest.mark.parametrize(("form", "output", "expected"), BROKEN)
def test_arguments_that_break_off_are_told_up_to_there(form, output, expected):
    """What follows is text, and the answer does not end as one that waits for results."""
    assert expected == parse(output, form)


@pytest.mark.parametrize(("form", "output"), [each[:2] for each in (*OUTPUTS, *TEXTS, *BROKEN)])
def test_every_cut_into_characters_gives_the_same(form, output):
    """An output in single characters, or in halves anywhere, is read as a whole one."""
    whole = parse(output, form)
    assert whole == parse(output, form, cuts=range(len(output)))
    assert all(whole == parse(output, form, cuts=[cut]) for cut in range(len(output)))


FRAGMENTS = st.sampled_from(
    [
        *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>"),
        *('{"name": "now", ', '"arguments": ', '"parameters": ', '{"a": "b"}', "{", "}", "[", "]"),
        *("now", ";", ",", " ", "\n", "word", '"', "\\", "<", "1", "é🌊"),
    ]
)


@given(
    st.sampled_from([*ToolCallFormat, LIST]),
    st.lists(FRAGMENTS, max_size=14).map("".join),
    st.data(),
)
def test_any_output_is_read_alike_however_it_is_cut(form, output, data):
    """Also one that no model makes."""
    cuts = data.draw(st.lists(st.integers(0, len(output)), max_size=8))
    limit = data.draw(st.sampled_from([None, 1]))
    whole = parse(output, form, max_calls=limit)
    assert whole == parse(output, form, cuts=cuts, max_calls=limit)
    assert whole == parse(output, form, cuts=range(len(output)), max_calls=limit)


def test_text_behind_a_call_is_a_part_of_its_own():
    """Within a part text comes before calls, so that the order is kept however much comes."""
    parts = pieces_of(f"One{hermes(NOW)}two{hermes(NOW)}{hermes(NOW)}three", HERMES, ())
    assert [(part.text, len(part.tool_calls)) for part in parts if part != Parsed()] == (
        [("One", 1), ("two", 2), ("three", 0)]
    )


def test_text_comes_at_once_but_what_may_be_a_marker():
    """White space and the beginning of a marker wait for what follows."""
    parsed = pieces_of("Hi you <too<tool", HERMES, range(16))
    assert [piece.text for piece in parsed] == (
        ["", "H", "i", "", " y", "o", "u", "", "", "", "", "", " <too", "", "", "", "", "<tool"]
    )


def test_arguments_come_at_once():
    """Each character of them is passed on as it comes."""
    output = hermes(NOW).replace("{}", '{"a": 1}')
    begin = output.index('{"a"')
    pieces = pieces_of(output, HERMES, range(begin, begin + 8))
    told = ["".join(call.arguments for call in piece.tool_calls) for piece in pieces]
    assert told[:10] == ["", *'{"a": 1}', ""]


def test_an_answer_is_over_with_its_last_call():
    """Where one call may be, nothing behind it is read."""
    read = parse(f"Well, {hermes(NOW)} and {hermes(PARIS)}", HERMES, max_calls=1)
    assert Read("Well,", (NOW,), waits_for_results=True) == read
