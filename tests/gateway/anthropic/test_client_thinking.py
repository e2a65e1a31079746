"""Thinking, words and calls with Anthropic's library, in front of a scripted server."""

import anthropic
import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1.stopping_pb2 import FINISH_REASON_TOOL_CALLS
from headrace.v1.tool_pb2 import ToolCallDelta
from tests.client.scripted_server import Admit, end

ASKED = {
    "model": "small",
    "max_tokens": 2048,
    "messages": [{"role": "user", "content": "How is the weather in Paris?"}],
    "thinking": {"type": "adaptive"},
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
}


def script(request):
    """An answer that thinks, speaks and calls, in pieces of all kinds."""
    yield Admit()
    first = pb.CandidateDelta(reasoning_text="They ask ")
    yield pb.GenerateResponse(
        prompt=pb.PromptInfo(token_count=5, cached_token_count=4), deltas=[first]
    )
    call = ToolCallDelta(id="c1", name="f", arguments_json='{"city": "Par')
    mixed = pb.CandidateDelta(reasoning_text="of Paris.", text="I look.", tool_calls=[call])
    yield pb.GenerateResponse(deltas=[mixed])
    rest = ToolCallDelta(arguments_json='is"}')
    yield pb.GenerateResponse(deltas=[pb.CandidateDelta(tool_calls=[rest])])
    last = end(reason=FINISH_REASON_TOOL_CALLS)
    last.usage.reasoning_token_count = 2
    yield last


@pytest.fixture
async def client(gateway, server):
    server.script = script
    async with anthropic.AsyncAnthropic(
        base_url=gateway.url(""), api_key="unused", max_retries=0
    ) as client:
        yield client


async def test_all_kinds_of_blocks_are_told_whole_and_in_a_stream(client):
    """The library has the same blocks both ways, and the counts of the thinking."""
    whole = await client.messages.create(**ASKED)
    async with client.messages.stream(**ASKED) as stream:
        joined = await stream.get_final_message()
    assert joined.model_dump(exclude={"id"}) == whole.model_dump(exclude={"id"})
    assert [block.model_dump(exclude_none=True) for block in whole.content] == [
        {"type": "thinking", "thinking": "They ask of Paris.", "signature": ""},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"city": "Paris"}},
    ]
    assert whole.stop_reason == "tool_use"
    assert (whole.usage.input_tokens, whole.usage.cache_read_input_tokens) == (1, 4)
    assert whole.usage.output_tokens_details.thinking_tokens == 2


async def test_an_answer_that_thought_is_sent_back(client, server):
    """The model is shown its words and calls again, and not what it thought."""
    answer = await client.messages.create(**ASKED)
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "4 degrees"}
    turns = [
        *ASKED["messages"],
        {"role": "assistant", "content": answer.content},
        {"role": "user", "content": [result]},
    ]
    await client.messages.create(**ASKED | {"messages": turns})
    chat = server.calls[-1].request.chat
    said = [(message.content, len(message.tool_calls)) for message in chat.messages[1:]]
    assert said == [("I look.", 1), ("4 degrees", 0)]
    assert chat.messages[1].tool_calls[0].arguments_json == '{"city": "Paris"}'
    assert chat.template_arguments_json == '{"enable_thinking": true}'
