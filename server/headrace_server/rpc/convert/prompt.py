"""The prompt of a request: text, token ids or a chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headrace.v1 import prompt_pb2
from headrace_server.errors import InvalidFieldError
from headrace_server.rpc.convert.checks import check_token_ids, require
from headrace_server.rpc.convert.tools import check_call_id, to_tool_calls, to_tool_use
from headrace_server.text.generation import ChatMessage, ChatPrompt, TextPrompt, TokenPrompt

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.v1 import inference_service_pb2 as pb
    from headrace_server.text.generation import Prompt, Role

# A name is a few words of a template, not a place for content.
MAX_SPEAKER_NAME_CHARACTERS: Final = 128
# Rendering a template costs time per message; this bounds it to milliseconds.
MAX_CHAT_MESSAGES: Final = 4096
# Switches and a few words, not a place for content.
MAX_TEMPLATE_ARGUMENTS_BYTES: Final = 64 * 1024

_ROLES: Final[Mapping[int, Role]] = {
    prompt_pb2.ROLE_SYSTEM: "system",
    prompt_pb2.ROLE_USER: "user",
    prompt_pb2.ROLE_ASSISTANT: "assistant",
    prompt_pb2.ROLE_TOOL: "tool",
}


def to_prompt(message: pb.GenerateRequest | pb.TokenizeRequest) -> Prompt:
    """Turn the prompt of a request into the front's own type.

    Raises:
        InvalidFieldError: there is no prompt or it is malformed.
    """
    kind = message.WhichOneof("prompt")
    require(
        kind in ("text", None) or not message.HasField("add_special_tokens"),
        "add_special_tokens",
        "must not be set unless the prompt is text",
    )
    require(
        kind in ("text", None) or not message.suffix,
        "suffix",
        "must not be set unless the prompt is text",
    )
    match kind:
        case "text":
            adds = message.add_special_tokens if message.HasField("add_special_tokens") else True
            return TextPrompt(message.text, adds, message.suffix)
        case "token_ids":
            ids = message.token_ids.ids
            require(len(ids) > 0, "token_ids.ids", "must hold at least one token id")
            check_token_ids(ids, "token_ids.ids")
            return TokenPrompt(tuple(ids))
        case "chat":
            return _to_chat(message.chat)
        case _:
            raise InvalidFieldError("prompt", "Set one of text, token_ids and chat as the prompt.")


def _to_chat(chat: prompt_pb2.Chat) -> ChatPrompt:
    count = len(chat.messages)
    require(count > 0, "chat.messages", "must hold at least one message")
    require(
        count <= MAX_CHAT_MESSAGES,
        "chat.messages",
        f"must hold at most {MAX_CHAT_MESSAGES} messages",
    )
    require(
        not (chat.continue_final_message and chat.add_generation_prompt),
        "chat.add_generation_prompt",
        "must not be true when continue_final_message is true",
    )
    opens_answer = (
        chat.add_generation_prompt
        if chat.HasField("add_generation_prompt")
        else not chat.continue_final_message
    )
    require(
        len(chat.template_arguments_json.encode()) <= MAX_TEMPLATE_ARGUMENTS_BYTES,
        "chat.template_arguments_json",
        f"must have at most {MAX_TEMPLATE_ARGUMENTS_BYTES} bytes",
    )
    tool_use = to_tool_use(chat)
    require(
        not (chat.continue_final_message and tool_use.is_forced),
        "chat.tool_choice",
        "must not require calls when continue_final_message is true",
    )
    return ChatPrompt(
        messages=tuple(_to_chat_message(m, i) for i, m in enumerate(chat.messages)),
        add_generation_prompt=opens_answer,
        continue_final_message=chat.continue_final_message,
        tool_use=tool_use,
        template_arguments_json=chat.template_arguments_json,
    )


def _to_chat_message(message: prompt_pb2.ChatMessage, index: int) -> ChatMessage:
    field = f"chat.messages[{index}]"
    role = _ROLES.get(message.role)
    if role is None:
        raise InvalidFieldError(
            f"{field}.role",
            f"{field}.role must be ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT or ROLE_TOOL.",
        )
    require(
        len(message.name) <= MAX_SPEAKER_NAME_CHARACTERS,
        f"{field}.name",
        f"must have at most {MAX_SPEAKER_NAME_CHARACTERS} characters",
    )
    require(
        not message.tool_calls or role == "assistant",
        f"{field}.tool_calls",
        "must be empty but with ROLE_ASSISTANT",
    )
    require(
        not message.tool_call_id or role == "tool",
        f"{field}.tool_call_id",
        "must be empty but with ROLE_TOOL",
    )
    check_call_id(message.tool_call_id, f"{field}.tool_call_id")
    return ChatMessage(
        role=role,
        content=message.content,
        name=message.name or None,
        tool_calls=to_tool_calls(message.tool_calls, f"{field}.tool_calls"),
        tool_call_id=message.tool_call_id or None,
    )
