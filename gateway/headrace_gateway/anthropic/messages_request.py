"""The request of /v1/messages, which is that of /v1/messages/count_tokens with its length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.v1 import inference_service_pb2, prompt_pb2, sampling_pb2, stopping_pb2
from headrace_gateway.anthropic.fields import MESSAGES_FIELDS, NEUTRAL_VALUES
from headrace_gateway.anthropic.tools import tool_json_path
from headrace_gateway.anthropic.turns import Turn, to_turns, turn_json_path
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.fields import read_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace_gateway.anthropic.tools import ToolWish
    from headrace_gateway.openai.forms import Form

MAX_TOKENS = "max_tokens"
"""The field with the upper bound of the answer's length."""

_SAMPLING = ("temperature", "top_p", "top_k")
_JSON_PATHS = {
    "stopping.max_output_tokens": MAX_TOKENS,
    "stopping.stop_sequences": "stop_sequences",
    "chat.template_arguments_json": "thinking",
    "chat": "messages",
    "model": "model",
    **{f"sampling.{name}": name for name in _SAMPLING},
}


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """A conversation whose fields have the right types; the server checks their ranges.

    Args:
        model: the name asked for; empty for the served model.
        stream: whether the answer is sent as it is made.
        chat: as in the contract.
        turns: its messages, with where they came from.
        sampling: as in the contract.
        stopping: as in the contract.
        form: that of the answer; None for any.
    """

    model: str
    stream: bool
    chat: prompt_pb2.Chat
    turns: tuple[Turn, ...]
    sampling: sampling_pb2.Sampling
    stopping: stopping_pb2.Stopping
    form: Form | None

    def to_generate_request(self) -> inference_service_pb2.GenerateRequest:
        """Return the request for an answer.

        It comes in pieces also where it is not streamed: joined by the server it would not tell
        what was said before a call from what was said after.
        """
        return inference_service_pb2.GenerateRequest(
            model=self.model,
            chat=self.chat,
            sampling=self.sampling,
            stopping=self.stopping,
            constraint=None if self.form is None else self.form.constraint,
        )

    def to_tokenize_request(self) -> inference_service_pb2.TokenizeRequest:
        """Return the request for the tokens of the prompt."""
        return inference_service_pb2.TokenizeRequest(model=self.model, chat=self.chat)

    def json_path(self, path: str) -> str | None:
        """Return the JSON path of a field of the contract; None where there is none."""
        if self.form is not None and path.partition(".")[0] == "constraint":
            return self.form.path
        special = turn_json_path(self.turns, path) or tool_json_path(path)
        if special is not None:
            return special
        for entry, json_path in _JSON_PATHS.items():
            if path == entry or path.startswith(f"{entry}["):
                return json_path + path.removeprefix(entry)
        return "messages" if path.startswith("chat.") else None


def parse_messages_request(body: Mapping[str, object]) -> MessagesRequest:
    """Read a request for an answer.

    Raises:
        ApiError: 400, a field is missing, has the wrong type or is not supported.
    """
    request = parse_count_request(body)
    if not request.stopping.HasField("max_output_tokens"):
        raise invalid_field(MAX_TOKENS, f"{MAX_TOKENS} is missing.")
    return request


def parse_count_request(body: Mapping[str, object]) -> MessagesRequest:
    """Read a request for the number of its tokens, which needs no maximum of output tokens.

    Raises:
        ApiError: 400, a field is missing, has the wrong type or is not supported.
    """
    values = read_fields(body, MESSAGES_FIELDS, NEUTRAL_VALUES)
    if "messages" not in values:
        raise invalid_field("messages", "messages is missing.")
    turns = to_turns((*values.get("system", ()), *values["messages"]))
    return MessagesRequest(
        model=values.get("model", ""),
        stream=values.get("stream", False),
        chat=_chat(values, turns),
        turns=turns,
        sampling=sampling_pb2.Sampling(**{n: values[n] for n in _SAMPLING if n in values}),
        stopping=stopping_pb2.Stopping(
            max_output_tokens=values.get(MAX_TOKENS),
            stop_sequences=values.get("stop_sequences", ()),
        ),
        form=values.get("output_config"),
    )


def _chat(values: Mapping[str, Any], turns: Sequence[Turn]) -> prompt_pb2.Chat:
    wish: ToolWish | None = values.get("tool_choice")
    chat = prompt_pb2.Chat(
        messages=[turn.message for turn in turns],
        tools=values.get("tools", ()),
        template_arguments_json=values.get("thinking", ""),
    )
    if wish is not None:
        chat.tool_choice.CopyFrom(wish.choice)
        chat.parallel_tool_calls = wish.allows_parallel
    if turns and turns[-1].message.role == prompt_pb2.ROLE_ASSISTANT:
        if wish is not None and wish.is_forced:
            message = "tool_choice must not force a call where the last message is the assistant's."
            raise invalid_field("tool_choice", message)
        # What the assistant has said last is the beginning of the answer.
        chat.continue_final_message = True
    return chat
