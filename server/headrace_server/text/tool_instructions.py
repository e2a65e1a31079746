"""Shows tools to models whose chat template has no place for them.

The words are those that models of the Hermes kind are trained on, which others follow best; why
there are any is in docs/adr/0008-tools.md.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from headrace_server.text.parsing.formats import HERMES_CLOSING, HERMES_OPENING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.text.template_variables import Message

_INSTRUCTIONS: Final = """\
You may call one or more of these functions to help with what the user asks. Their signatures \
are within <tools></tools>:
<tools>
{tools}
</tools>
For each call, write a JSON object with the function's name and arguments within \
{opening}{closing}:
{opening}
{{"name": <function-name>, "arguments": <arguments-object>}}
{closing}"""


def with_tools_as_text(messages: Sequence[Message], tools: Sequence[Any]) -> list[Message]:
    """Return a conversation that any template can show.

    Tools are told in the system message, calls in those of the assistant, and results, which
    follow each other in one message, by the user.

    Args:
        messages: with calls and results.
        tools: in OpenAI's shape.
    """
    plain: list[Message] = []
    is_result = False
    for message in messages:
        if message["role"] != "tool":
            plain.append(_with_calls_as_text(message))
        elif is_result:
            plain[-1] = plain[-1] | {"content": f"{plain[-1]['content']}\n{_result(message)}"}
        else:
            plain.append({"role": "user", "content": _result(message)})
        is_result = message["role"] == "tool"
    return _with_instructions(plain, tools) if tools else plain


def _with_instructions(messages: list[Message], tools: Sequence[Any]) -> list[Message]:
    signatures = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    words = _INSTRUCTIONS.format(tools=signatures, opening=HERMES_OPENING, closing=HERMES_CLOSING)
    first = messages[0]
    if first["role"] != "system":
        return [{"role": "system", "content": words}, *messages]
    return [first | {"content": f"{first['content']}\n\n{words}"}, *messages[1:]]


def _with_calls_as_text(message: Message) -> Message:
    calls = [call["function"] for call in message.get("tool_calls", ())]
    parts = [message["content"]] if message["content"] else []
    for call in calls:
        text = json.dumps(call, ensure_ascii=False)
        parts.append(f"{HERMES_OPENING}\n{text}\n{HERMES_CLOSING}")
    fields = {key: value for key, value in message.items() if key != "tool_calls"}
    return fields | {"content": "\n".join(parts)} if calls else fields


def _result(message: Message) -> str:
    return f"<tool_response>\n{message['content']}\n</tool_response>"
