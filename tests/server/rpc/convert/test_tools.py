"""The tools of a chat: what is refused by its path, and what is taken."""

import pytest

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import prompt_pb2, tool_pb2
from headrace_server.errors import InvalidFieldError
from headrace_server.grammar.sizes import MAX_CONSTRAINT_BYTES
from headrace_server.grammar.spec import ToolCallsConstraint, ToolSignature
from headrace_server.rpc.convert.generation import to_generation_request
from headrace_server.rpc.convert.tools import MAX_DESCRIPTION_CHARACTERS, MAX_TOOLS
from headrace_server.text.tools import Tool, ToolCall, ToolMode, ToolUse

USER = {"role": prompt_pb2.ROLE_USER, "content": "Hi"}
SCHEMA = '{"type": "object"}'
F, G = {"name": "f", "description": "d", "parameters_json": SCHEMA}, {"name": "g-1_"}
REQUIRED = {"mode": tool_pb2.TOOL_CHOICE_MODE_REQUIRED}
NONE = {"mode": tool_pb2.TOOL_CHOICE_MODE_NONE}


def convert(messages=(USER,), constraint=None, **chat):
    message = pb.GenerateRequest(chat={"messages": list(messages), **chat}, constraint=constraint)
    return to_generation_request(message, "id-1", "peer")


def assistant(**fields):
    return {"role": prompt_pb2.ROLE_ASSISTANT, **fields}


def test_tools_reach_their_place():
    """Names, descriptions and schemas are given on as they are."""
    request = convert(tools=[F, G], parallel_tool_calls=False)
    tools = (Tool("f", "d", SCHEMA), Tool("g-1_", "", ""))
    assert ToolUse(tools, ToolMode.AUTO, allows_parallel_calls=False) == request.prompt.tool_use
    assert request.constraint is None


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, ToolMode.AUTO),
        ({"mode": tool_pb2.TOOL_CHOICE_MODE_UNSPECIFIED}, ToolMode.AUTO),
        ({"mode": tool_pb2.TOOL_CHOICE_MODE_AUTO}, ToolMode.AUTO),
        (NONE, ToolMode.NONE),
        (REQUIRED, ToolMode.REQUIRED),
        ({"tool_name": "f"}, "f"),
    ],
)
def test_every_choice_is_known(choice, expected):
    """Without one it is auto."""
    assert expected == convert(tools=[F, G], tool_choice=choice).prompt.tool_use.choice


def test_a_required_call_is_the_form_of_the_answer():
    """One of any tool, or the one of the named tool; only one where more are not allowed."""
    f, g = ToolSignature("f", SCHEMA), ToolSignature("g-1_", "")
    forms = [
        convert(tools=[F, G], **options).constraint
        for options in (
            {"tool_choice": REQUIRED},
            {"tool_choice": REQUIRED, "parallel_tool_calls": False},
            {"tool_choice": {"tool_name": "f"}},
        )
    ]
    expected = [((f, g), None), ((f, g), 1), ((f,), 1)]
    assert [ToolCallsConstraint(*each) for each in expected] == forms


def test_calls_and_results_reach_their_place():
    """They keep the ids by which they belong together."""
    call = {"id": "c1", "name": "f", "arguments_json": '{"a": 1}'}
    result = {"role": prompt_pb2.ROLE_TOOL, "content": "4", "tool_call_id": "c1"}
    asked, told = convert([assistant(tool_calls=[call]), result]).prompt.messages
    assert (ToolCall("c1", "f", '{"a": 1}'),) == asked.tool_calls
    assert (told.role, told.content, told.tool_call_id) == ("tool", "4", "c1")


BAD = [
    ({"tools": [{"name": ""}]}, "chat.tools[0].name"),
    ({"tools": [F, {"name": "a b"}]}, "chat.tools[1].name"),
    ({"tools": [{"name": "n" * 65}]}, "chat.tools[0].name"),
    ({"tools": [{"name": "f\n"}]}, "chat.tools[0].name"),
    ({"tools": [F, G, F]}, "chat.tools[2].name"),
    ({"tools": [{"name": f"f{i}"} for i in range(MAX_TOOLS + 1)]}, "chat.tools"),
    (
        {"tools": [F | {"description": "d" * (MAX_DESCRIPTION_CHARACTERS + 1)}]},
        "chat.tools[0].description",
    ),
    ({"tools": [F, {"name": "g", "parameters_json": " " * MAX_CONSTRAINT_BYTES}]}, "chat.tools"),
    ({"tool_choice": REQUIRED}, "chat.tool_choice"),
    ({"tools": [F], "tool_choice": {"mode": 9}}, "chat.tool_choice.mode"),
    ({"tools": [F], "tool_choice": {"tool_name": "h"}}, "chat.tool_choice.tool_name"),
    ({"tool_choice": {"tool_name": "f"}}, "chat.tool_choice.tool_name"),
    (
        {"tools": [F], "tool_choice": REQUIRED, "continue_final_message": True},
        "chat.tool_choice",
    ),
    ({"tools": [F], "constraint": {"json_object": True}}, "constraint"),
    (
        {"tools": [F], "constraint": {"json_object": True}, "tool_choice": REQUIRED},
        "constraint",
    ),
    ({"template_arguments_json": " " * (64 * 1024 + 1)}, "chat.template_arguments_json"),
    ({"messages": [USER | {"tool_calls": [{"name": "f"}]}]}, "chat.messages[0].tool_calls"),
    ({"messages": [USER | {"tool_call_id": "1"}]}, "chat.messages[0].tool_call_id"),
    ({"messages": [assistant(tool_calls=[{}])]}, "chat.messages[0].tool_calls[0].name"),
    (
        {"messages": [assistant(tool_calls=[{"name": "f", "id": "i" * 129}])]},
        "chat.messages[0].tool_calls[0].id",
    ),
    (
        {
            "messages": [
                assistant(tool_calls=[{"name": "f", "arguments_json": " " * (512 * 1024 + 1)}])
            ]
        },
        "chat.messages[0].tool_calls[0].arguments_json",
    ),
    (
        {"messages": [assistant(tool_calls=[{"name": "f"}] * 129)]},
        "chat.messages[0].tool_calls",
    ),
    (
        {"messages": [{"role": prompt_pb2.ROLE_TOOL, "tool_call_id": "i" * 129}]},
        "chat.messages[0].tool_call_id",
    ),
]


@pytest.mark.parametrize(("fields", "path"), BAD, ids=[path for _, path in BAD])
def test_a_bad_field_is_refused_by_its_path(fields, path):
    """The error has the path, and its sentence begins with it."""
    with pytest.raises(InvalidFieldError) as refusal:
        convert(**fields)
    assert path == refusal.value.field
    assert refusal.value.message.startswith(path)


def test_hidden_tools_do_not_exclude_a_form():
    """With the choice none the answer is text, which may have any form."""
    request = convert(tools=[F], tool_choice=NONE, constraint={"regex": "a"})
    assert request.prompt.tool_use.offered == ()
