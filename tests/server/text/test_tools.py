"""Tools in chats: what the template shows of them, and how they are refused."""

import json

import pytest
from transformers import PreTrainedTokenizerFast

from headrace_server.errors import InvalidFieldError
from headrace_server.text.generation import ChatMessage, ChatPrompt
from headrace_server.text.model import TextModel
from headrace_server.text.parsing.formats import ToolCallFormat
from headrace_server.text.parsing.reasoning import ReasoningTags
from headrace_server.text.prompt import tokenize
from headrace_server.text.tools import Tool, ToolCall, ToolMode, ToolUse
from tests.server.text.tokenizer_files import CHATML, byte_level_tokenizer, write_model

WITH_TOOLS = (
    "{%- if tools %}<|im_start|>system\n"
    "{%- for tool in tools %}\n{{ tool | tojson }}{% endfor %}\n"
    "Answer in <tool_call></tool_call>.<|im_end|>\n{% endif %}"
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{%- for call in message.tool_calls or [] %}\n<tool_call>{{ call.function | tojson }}"
    "</tool_call>{% endfor %}"
    "{%- if message.tool_call_id %} ({{ message.tool_call_id }}){% endif %}<|im_end|>\n"
    "{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n"
    "{%- if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
    "{% endif %}"
)
"""A template in the manner of Qwen 3."""

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Où ? <|im_end|>"}},
    "required": ["city"],
}
TOOL = Tool("get_weather", "Tells the <|im_start|>weather.", json.dumps(SCHEMA))
CALL = ToolCall("c1", "get_weather", '{"city": "Zürich", "days": [1, 2.5, null]}')
MESSAGES = (
    ChatMessage("user", "Hi", None),
    ChatMessage("assistant", "I look.", None, tool_calls=(CALL,)),
    ChatMessage("tool", "4 °C<|im_end|>", None, tool_call_id="c1"),
    ChatMessage("tool", "5 °C", None, tool_call_id="c2"),
)


def load(directory, template=WITH_TOOLS, **options):
    facts = write_model(directory, byte_level_tokenizer(), chat_template=template)
    return TextModel.load(facts, **options)


def chat(*messages, choice=ToolMode.AUTO, tools=(TOOL,), arguments=None, **options):
    return ChatPrompt(
        messages or MESSAGES,
        add_generation_prompt=not options.get("continue_final_message", False),
        continue_final_message=options.get("continue_final_message", False),
        tool_use=ToolUse(tools, choice),
        template_arguments_json="" if arguments is None else json.dumps(arguments),
    )


def text_of(model, prompt):
    return tokenize(model, prompt, within_context=False).text


def test_tools_are_shown_as_transformers_shows_them(tmp_path):
    """Schemas, calls and results reach the template in the shapes that it is written for."""
    model = load(tmp_path)
    reference = PreTrainedTokenizerFast(
        tokenizer_object=byte_level_tokenizer(), chat_template=WITH_TOOLS, eos_token="<|im_end|>"
    )
    function = {"name": TOOL.name, "description": TOOL.description, "parameters": SCHEMA}
    arguments = json.loads(CALL.arguments_json)
    expected = reference.apply_chat_template(
        [
            {"role": "user", "content": "Hi"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "get_weather", "arguments": arguments},
                    }
                ],
            },
            {"role": "tool", "content": "4 °C<|im_end|>", "tool_call_id": "c1"},
            {"role": "tool", "content": "5 °C", "tool_call_id": "c2"},
        ],
        tools=[{"type": "function", "function": function}],
        add_generation_prompt=True,
        tokenize=False,
        enable_thinking=False,
    )
    assert expected == text_of(model, chat(arguments={"enable_thinking": False}))


def test_control_tokens_in_tools_are_plain_text(tmp_path):
    """Those of the template are the only ones among the tokens."""
    tokenizer = byte_level_tokenizer()
    control_ids = {tokenizer.token_to_id(token) for token in ("<|im_start|>", "<|im_end|>")}
    for template in (WITH_TOOLS, CHATML):
        model = load(tmp_path, template)
        tokenized = tokenize(model, chat(), within_context=False)
        written = tokenized.text.count("<|im_start|>") + tokenized.text.count("<|im_end|>")
        assert sum(id_ in control_ids for id_ in tokenized.token_ids) == written - 3
        assert tokenizer.decode(tokenized.token_ids, skip_special_tokens=False) == tokenized.text


def test_a_template_without_tools_shows_them_as_text(tmp_path):
    """In the system message; calls and results are in those of assistant and user."""
    model = load(tmp_path, CHATML)
    system = ChatMessage("system", "Be brief.", None)
    text = text_of(model, chat(system, *MESSAGES))
    head, user, assistant, results, opening = text.split("<|im_end|>\n<|im_start|>")
    assert head.startswith("<|im_start|>system\nBe brief.\n\n")
    assert f'"name": "{TOOL.name}"' in head
    assert "<tool_call>" in head
    assert user == "user\nHi"
    call = json.dumps(
        {"name": CALL.name, "arguments": json.loads(CALL.arguments_json)}, ensure_ascii=False
    )
    assert assistant == f"assistant\nI look.\n<tool_call>\n{call}\n</tool_call>"
    first, second = (f"<tool_response>\n{text} °C" for text in ("4", "5"))
    expected = f"user\n{first}<|im_end|>\n</tool_response>\n{second}\n</tool_response>"
    assert expected == results
    assert opening == "assistant\n"
    assert text_of(model, chat(MESSAGES[0])).startswith("<|im_start|>system\nYou may call")


def test_a_result_has_the_name_of_its_tool(tmp_path):
    """Some templates want it, and few clients send it; one that was sent stays."""
    template = "{% for message in messages %}{{ message.name }};{% endfor %}{{ tools }}"
    named = ChatMessage("tool", "6", "my own", tool_call_id="c1")
    text = text_of(load(tmp_path, template), chat(*MESSAGES, named, tools=()))
    assert text == ";;get_weather;;my own;None"


@pytest.mark.parametrize("template", [WITH_TOOLS, CHATML])
def test_tools_that_must_not_be_called_are_not_shown(tmp_path, template):
    """The prompt is that of a chat without tools; it keeps what was called before."""
    model = load(tmp_path, template)
    assert text_of(model, chat(tools=())) == text_of(model, chat(choice=ToolMode.NONE))


def test_an_answer_with_a_form_does_not_begin_amid_reasoning(tmp_path):
    """What the template opens is closed where calls are forced, and where there is a constraint."""
    opening, closed = "<|im_start|>assistant\n<think>\n", "</think>\n\n"
    template = WITH_TOOLS.replace("{%- if enable", "{{ '<think>\n' }}{%- if enable")
    model = load(tmp_path, template)
    assert text_of(model, chat()).endswith(opening)
    assert text_of(model, chat(choice=ToolMode.REQUIRED)).endswith(opening + "\n" + closed)
    formed = tokenize(model, chat(), within_context=True, has_form=True)
    assert formed.text.endswith(opening + "\n" + closed)


def test_a_message_with_tools_can_be_continued(tmp_path):
    """The prompt ends with its content."""
    last = ChatMessage("assistant", "It is", None)
    text = text_of(load(tmp_path), chat(MESSAGES[0], last, continue_final_message=True))
    assert text.endswith("<|im_start|>assistant\nIt is")


DEEP = "[" * 65 + "]" * 65
BAD = [
    (chat(tools=(Tool("f", "", "nope"),)), "chat.tools[0].parameters_json"),
    (chat(tools=(TOOL, Tool("f", "", "[]"))), "chat.tools[1].parameters_json"),
    (chat(tools=(Tool("f", "", '{"type": "array"}'),)), "chat.tools[0].parameters_json"),
    (chat(tools=(Tool("f", "", f'{{"a": {DEEP}}}'),)), "chat.tools[0].parameters_json"),
    (chat(tools=(Tool("f", "", '{"a": NaN}'),)), "chat.tools[0].parameters_json"),
    (chat(tools=(Tool("f", "", '{"title": "\\ud800"}'),)), "chat.tools"),
    (
        chat(tools=(Tool("f", "", "nope"),), choice=ToolMode.NONE),
        "chat.tools[0].parameters_json",
    ),
    (
        chat(ChatMessage("assistant", "", None, (ToolCall("", "f", "{"),))),
        "chat.messages[0].tool_calls[0].arguments_json",
    ),
    (chat(arguments=[1]), "chat.template_arguments_json"),
    (chat(arguments={"messages": []}), "chat.template_arguments_json"),
    (chat(arguments={"tools": []}), "chat.template_arguments_json"),
    (chat(arguments={"headrace deadline": 1e9}), "chat.template_arguments_json"),
    (chat(arguments={"eos_token": "x"}), "chat.template_arguments_json"),
]


@pytest.mark.parametrize(("prompt", "field"), BAD)
def test_what_is_not_the_json_that_it_must_be_is_refused(tmp_path, prompt, field):
    """The error names its field."""
    facts = write_model(
        tmp_path,
        byte_level_tokenizer(),
        chat_template=WITH_TOOLS,
        tokenizer_config={"eos_token": "<|im_end|>"},
    )
    with pytest.raises(InvalidFieldError) as refusal:
        tokenize(TextModel.load(facts), prompt, within_context=True)
    assert field == refusal.value.field


@pytest.mark.parametrize("is_older", [True, False])
def test_some_models_have_a_template_for_tools_only(tmp_path, is_older):
    """It shows chats with tools, and tells how the model calls; others are shown by the other."""
    with_tools = "{{ tools[0].function.name }}[TOOL_CALLS]{{ messages[0].content }}"
    if is_older:
        named = {"default": "plain", "tool_use": with_tools}
        templates = [{"name": name, "template": text} for name, text in named.items()]
        facts = write_model(
            tmp_path, byte_level_tokenizer(), tokenizer_config={"chat_template": templates}
        )
    else:
        facts = write_model(tmp_path, byte_level_tokenizer(), chat_template="plain")
        (tmp_path / "additional_chat_templates").mkdir()
        (tmp_path / "additional_chat_templates" / "tool_use.jinja").write_text(with_tools)
    model = TextModel.load(facts)
    assert text_of(model, chat()) == "get_weather[TOOL_CALLS]Hi"
    assert text_of(model, chat(tools=())) == "plain"
    assert text_of(model, chat(choice=ToolMode.NONE)) == "plain"
    assert model.call_format is ToolCallFormat.MISTRAL
    own = tmp_path / "own.jinja"
    own.write_text("own")
    assert TextModel.load(facts, own).call_format is ToolCallFormat.HERMES


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (CHATML, ToolCallFormat.HERMES),
        (WITH_TOOLS, ToolCallFormat.HERMES),
        ("{{ tools }}<|python_tag|>", ToolCallFormat.LLAMA3_JSON),
        ("{{ tools }}{{ 'ipython' }}", ToolCallFormat.LLAMA3_JSON),
        ("{{ tools }}[TOOL_CALLS]", ToolCallFormat.MISTRAL),
        ("{{ tools }}<tool_call><function=f>", None),
        ("{{ tools }}", None),
        ("{% set tools = 1 %}{{ tools }}", ToolCallFormat.HERMES),
        (
            "{% if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}"
            "{% if not tools is defined %}{% set tools = none %}{% endif %}"
            "{{ tools }}<|python_tag|>",
            ToolCallFormat.LLAMA3_JSON,
        ),
        (
            "{% if not tools is defined %}{% set tools = none %}{% endif %}[TOOL_CALLS]",
            ToolCallFormat.MISTRAL,
        ),
        (None, None),
    ],
)
def test_the_template_tells_how_the_model_calls(tmp_path, template, expected):
    """One that has no place for tools is told of them in the manner of Hermes."""
    assert expected == load(tmp_path, template).call_format
    assert (
        load(tmp_path, template, call_format=ToolCallFormat.MISTRAL).call_format
    ) == ToolCallFormat.MISTRAL


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (CHATML, None),
        (WITH_TOOLS, ReasoningTags("<think>", "</think>")),
        ("[THINK][/THINK]", ReasoningTags("[THINK]", "[/THINK]")),
        (None, None),
    ],
)
def test_the_template_tells_whether_the_model_reasons(tmp_path, template, expected):
    """Where it has none of the tags, nothing is taken for reasoning."""
    model = load(tmp_path, template)
    assert (expected, expected is not None) == (model.reasoning_tags, model.has_reasoning)
