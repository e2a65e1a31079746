"""OpenAI's Agents SDK before a running service, by its default: the Responses API."""

import os

import pytest
from agents import (
    Agent,
    ModelSettings,
    OpenAIProvider,
    RunConfig,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.exceptions import MaxTurnsExceeded
from openai import NotFoundError

SERVICE_URL, MODEL = os.environ["SERVICE_URL"], os.environ["MODEL"]

set_tracing_disabled(disabled=True)


def config(**options):
    return RunConfig(
        model_provider=OpenAIProvider(base_url=f"{SERVICE_URL}/v1", api_key="unused"), **options
    )


def agent(**options):
    return Agent(**{"name": "Poet", "model": MODEL, "instructions": "Be short."} | options)


async def test_an_answer():
    """It is text, and its tokens are counted."""
    result = await Runner.run(agent(), "Hey", run_config=config())
    assert isinstance(result.final_output, str)
    assert result.context_wrapper.usage.output_tokens > 0
    assert result.context_wrapper.usage.requests == 1


async def test_a_streamed_answer():
    """The pieces join to the whole."""
    run = Runner.run_streamed(agent(), "Hey", run_config=config())
    pieces = [
        event.data.delta
        async for event in run.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    assert "".join(pieces) == run.final_output != ""


async def test_a_conversation_goes_on():
    """What was said is sent again, since the service keeps nothing."""
    poet = agent()
    first = await Runner.run(poet, "Hey", run_config=config())
    asked = [*first.to_input_list(), {"role": "user", "content": "And then?"}]
    second = await Runner.run(poet, asked, run_config=config())
    assert second.context_wrapper.usage.input_tokens > first.context_wrapper.usage.input_tokens


async def test_a_forced_tool_is_run():
    """With arguments of its schema, and its result goes back to the model."""
    called = []

    @function_tool
    def mix(is_matt: bool, litres: int) -> str:
        """Mix paint."""
        called.append((is_matt, litres))
        return "done"

    settings = ModelSettings(tool_choice="required", parallel_tool_calls=False)
    painter = agent(tools=[mix], model_settings=settings, tool_use_behavior="stop_on_first_tool")
    result = await Runner.run(painter, "Mix", run_config=config())
    assert result.final_output == "done"
    [(is_matt, litres)] = called
    assert (type(is_matt), type(litres)) == (bool, int)


async def test_turns_end_at_their_limit():
    """A model that calls a tool each time is stopped by the library."""

    @function_tool
    def again() -> str:
        """Do it again."""
        return "done"

    settings = ModelSettings(tool_choice="required", parallel_tool_calls=False)
    painter = agent(tools=[again], model_settings=settings, reset_tool_choice=False)
    with pytest.raises(MaxTurnsExceeded):
        await Runner.run(painter, "Go", run_config=config(), max_turns=2)


async def test_an_error_has_its_class():
    """And the words of the service."""
    with pytest.raises(NotFoundError, match="gpt-none"):
        await Runner.run(agent(model="gpt-none"), "Hey", run_config=config())
