"""Answers with calls and reasoning, from the tokens of a model that calls by itself."""

import json

import pytest

from headrace_server.backends.interface import BackendFinish
from headrace_server.errors import InvalidFieldError
from headrace_server.text.delta import FinishReason
from headrace_server.text.generation import (
    ChatMessage,
    ChatPrompt,
    Chunking,
    GenerationRequest,
    Stopping,
)
from headrace_server.text.pipeline import TextPipeline
from headrace_server.text.tools import Tool, ToolMode, ToolUse
from tests.server.text.scripted_backend import ScriptedBackend, one_by_one
from tests.server.text.tokenizer_files import byte_level_tokenizer, write_model

HERMES = "{{ tools }}<tool_call></tool_call><think></think>{{ messages[0].content }}"
MISTRAL = "{{ tools }}[TOOL_CALLS][ARGS]{{ messages[0].content }}"
THINKING = HERMES + "<think>\n"
TOOLS = (Tool("get_weather", "", '{"type": "object"}'), Tool("now", "", ""))
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "é"}}\n</tool_call>'


def tokenizer_with_markers():
    """Some models have control tokens round their calls."""
    tokenizer = byte_level_tokenizer()
    tokenizer.add_special_tokens(["[TOOL_CALLS]", "[ARGS]"])
    return tokenizer


TOKENIZER = tokenizer_with_markers()
END = TOKENIZER.token_to_id("<|im_end|>")


def num_tokens(text):
    return len(TOKENIZER.encode(text, add_special_tokens=False).ids)


@pytest.fixture
def answer(tmp_path):
    """What becomes of an output: text, reasoning, calls, finish, ids."""

    async def answer(output, template=HERMES, *, tool_use=None, ends=True, **options):
        ids = TOKENIZER.encode(output, add_special_tokens=False).ids + ([END] if ends else [])
        finish = BackendFinish.STOP_TOKEN if ends else BackendFinish.MAX_OUTPUT_TOKENS
        facts = write_model(
            tmp_path,
            TOKENIZER,
            chat_template=template,
            generation_config={"eos_token_id": END},
            context_length=1024,
        )
        prompt = ChatPrompt(
            (ChatMessage("user", "Hi", None),),
            add_generation_prompt=True,
            continue_final_message=False,
            tool_use=ToolUse(TOOLS) if tool_use is None else tool_use,
        )
        backend = ScriptedBackend(one_by_one(ids, finish))
        async with TextPipeline(backend) as pipeline:
            await pipeline.load_model(facts)
            request = GenerationRequest("id", prompt, want_token_ids=True, **options)
            async with pipeline.generate(request) as deltas:
                got = [delta async for delta in deltas]
        candidates = [candidate for delta in got for candidate in delta.candidates]
        return Got(candidates, ids, got[-1].usage)

    return answer


class Got:
    def __init__(self, deltas, ids, usage):
        self.usage = usage
        self.deltas = deltas
        self.text = "".join(delta.text for delta in deltas)
        self.reasoning = "".join(delta.reasoning for delta in deltas)
        self.pieces = [piece for delta in deltas for piece in delta.tool_calls]
        self.names = [piece.name for piece in self.pieces if piece.name]
        self.ids = [piece.id for piece in self.pieces if piece.id]
        self.arguments = "".join(piece.arguments for piece in self.pieces)
        [self.finish] = [delta.finish for delta in deltas if delta.finish is not None]
        assert deltas[-1].finish is self.finish
        token_ids = [i for delta in deltas for i in delta.token_ids]
        assert token_ids == ids[: len(token_ids)]
        self.num_unread = len(ids) - len(token_ids)


@pytest.mark.parametrize("chunking", [Chunking(), Chunking(whole=True)])
async def test_a_call_is_told_beside_the_text(answer, chunking):
    """The text is what the model says round it; the answer waits for the result."""
    got = await answer(f"I look.\n{CALL}", chunking=chunking)
    assert (got.text, got.names, got.arguments) == ("I look.", ["get_weather"], '{"city": "é"}')
    assert got.finish.reason is FinishReason.TOOL_CALLS
    assert len(got.ids) == 1
    assert got.num_unread == 0


@pytest.mark.parametrize("chunking", [Chunking(), Chunking(min_tokens=1000), Chunking(whole=True)])
async def test_text_behind_a_call_is_told_behind_it(answer, chunking):
    """However much is told at once, what comes behind a call is in a later delta than it."""
    got = await answer(f"I look.{CALL}And now:{CALL}Bye.", chunking=chunking)
    told = []
    for delta in got.deltas:
        told += [delta.text] if delta.text else []
        told += [piece.name for piece in delta.tool_calls if piece.name]
    order = "".join(told).replace("get_weather", "|")
    assert order == "I look.|And now:|Bye."
    assert got.ids == list(dict.fromkeys(got.ids))
    assert got.num_unread == 0


async def test_arguments_come_in_pieces(answer):
    """Of each call a delta has one piece at most, and pieces come as the tokens do."""
    got = await answer(CALL)
    assert len(got.pieces) > 5
    assert json.loads(got.arguments) == {"city": "é"}
    assert len((await answer(CALL, chunking=Chunking(whole=True))).pieces) == 1


async def test_reasoning_is_told_apart(answer):
    """Where the model opens it, and where the template does."""
    for template, output in ((HERMES, "<think>\nhm\n</think>\n\n"), (THINKING, "hm</think>")):
        got = await answer(output + "Yes.", template)
        assert (got.reasoning, got.text) == ("hm", "Yes.")
        assert got.finish.reason is FinishReason.END_OF_TEXT
        got = await answer(output + "Yes.", template, tool_use=ToolUse())
        assert (got.reasoning, got.text) == ("hm", "Yes.")


async def test_the_tokens_of_the_reasoning_are_counted(answer):
    """Those up to its last character, with what opens it; where there is none, there are none."""
    got = await answer("<think>\nhm</think>Yes.")
    assert got.usage.reasoning_token_count == num_tokens("<think>\nhm")
    got = await answer("hm</think>Yes.", THINKING, chunking=Chunking(whole=True))
    assert got.usage.reasoning_token_count == num_tokens("hm")
    got = await answer("hm", THINKING, ends=False)
    assert got.usage.reasoning_token_count == got.usage.output_token_count == num_tokens("hm")
    assert (await answer("Yes.")).usage.reasoning_token_count == 0


async def test_control_tokens_of_calls_are_read(answer):
    """They have no text otherwise, and none of it gets out; ids fit the templates of the model."""
    got = await answer('Well [TOOL_CALLS]now[ARGS]{"a": 1}', MISTRAL)
    assert (got.text, got.names, got.arguments) == ("Well", ["now"], '{"a": 1}')
    [call_id] = got.ids
    assert len(call_id) == 9
    assert call_id.isalnum()


async def test_an_answer_without_tools_is_not_read(answer):
    """What looks like a call is text, also where tools are hidden."""
    for tool_use in (ToolUse(), ToolUse(TOOLS, ToolMode.NONE)):
        got = await answer(CALL, tool_use=tool_use)
        assert (got.text, got.names) == (CALL, [])
        assert got.finish.reason is FinishReason.END_OF_TEXT


async def test_one_call_is_all_where_parallel_ones_are_not_allowed(answer):
    """The answer ends with it, and the engine makes no more."""
    got = await answer(f"{CALL}\n{CALL}", tool_use=ToolUse(TOOLS, allows_parallel_calls=False))
    assert got.names == ["get_weather"]
    assert got.finish.reason is FinishReason.TOOL_CALLS
    assert got.num_unread > 0


async def test_a_cut_is_told_also_amid_a_call(answer):
    """The reason is that of the cut, with a call that is whole, too."""
    for output in (CALL, CALL[:-20]):
        got = await answer(output, ends=False, stopping=Stopping(max_output_tokens=700))
        assert got.names == ["get_weather"]
        assert got.finish.reason is FinishReason.MAX_OUTPUT_TOKENS


async def test_a_stop_sequence_holds_in_what_the_model_says(answer):
    """It is looked for before calls are."""
    got = await answer(CALL, stopping=Stopping(stop_sequences=("}}",)))
    assert (got.names, got.arguments) == (["get_weather"], '{"city": "é"')
    assert got.finish.stop_sequence == "}}"


async def test_arguments_that_are_no_json_do_not_wait_for_a_result(answer):
    """What follows the break is text."""
    got = await answer('<tool_call>{"name": "now", "arguments": {oops}}')
    assert (got.text, got.names, got.arguments) == ("oops}}", ["now"], "{")
    assert got.finish.reason is FinishReason.END_OF_TEXT


async def test_without_text_the_end_is_told_all_the_same(answer):
    """Neither calls nor reasoning are sent to whom wants no text."""
    got = await answer(f"<think>a</think>b{CALL}", want_text=False)
    assert (got.text, got.reasoning, got.pieces) == ("", "", [])
    assert got.finish.reason is FinishReason.TOOL_CALLS


async def test_calls_in_an_unknown_form_are_refused(answer):
    """Before anything is generated."""
    with pytest.raises(InvalidFieldError) as refusal:
        await answer("Hi", "{{ tools }}{{ messages[0].content }}")
    assert refusal.value.field == "chat.tool_choice"
