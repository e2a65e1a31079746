"""The blocks of a conversation as messages of the contract, which know where they came from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from headrace.v1 import prompt_pb2, tool_pb2
from headrace_gateway.anthropic.blocks import ToolResultBlock, ToolUseBlock, join_texts
from headrace_gateway.openai.api_error import invalid_field

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from headrace_gateway.anthropic.blocks import Block

_PLACE = re.compile(r"chat\.messages\[(\d+)\](?:\.tool_calls\[(\d+)\])?(.*)")
_ENDINGS = {".content": "", ".arguments_json": ".input", ".tool_call_id": ".tool_use_id"}


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of the contract.

    Args:
        message: as in the contract.
        path: the JSON path of its first block.
        call_paths: those of its calls.
    """

    message: prompt_pb2.ChatMessage
    path: str
    call_paths: tuple[str, ...] = ()


def to_turns(blocks: Sequence[Block]) -> tuple[Turn, ...]:
    """Turn blocks into messages: one for each result, and one for what else one says at a time.

    Raises:
        ApiError: 400, a result is that of no call, or calls at the end have no results.
    """
    _check_results(blocks)
    groups = groupby(enumerate(blocks), key=lambda pair: _speaker(*pair))
    turns = tuple(_turn(tuple(block for _, block in group)) for _, group in groups)
    if turns and turns[-1].call_paths:
        path = turns[-1].call_paths[-1]
        raise invalid_field("messages", f"{path} needs a tool_result in a message after it.")
    return turns


def turn_json_path(turns: Sequence[Turn], path: str) -> str | None:
    """Return the JSON path of a field within the messages of the contract."""
    if (match := _PLACE.fullmatch(path)) is None:
        return None
    index, call, ending = match.groups()
    turn = turns[int(index)]
    start = turn.path if call is None else turn.call_paths[int(call)]
    return start + _ENDINGS.get(ending, ending)


def _speaker(index: int, block: Block) -> Hashable:
    if isinstance(block, ToolResultBlock):
        return "result", index
    return prompt_pb2.ROLE_ASSISTANT if isinstance(block, ToolUseBlock) else block.role


def _turn(blocks: tuple[Block, ...]) -> Turn:
    first = blocks[0]
    if isinstance(first, ToolResultBlock):
        message = prompt_pb2.ChatMessage(
            role=prompt_pb2.ROLE_TOOL, content=first.text, tool_call_id=first.tool_use_id
        )
        return Turn(message, first.path)
    uses = [block for block in blocks if isinstance(block, ToolUseBlock)]
    message = prompt_pb2.ChatMessage(
        role=prompt_pb2.ROLE_ASSISTANT if isinstance(first, ToolUseBlock) else first.role,
        content=join_texts(blocks),
        tool_calls=[
            tool_pb2.ToolCall(id=use.id, name=use.name, arguments_json=use.input_json)
            for use in uses
        ],
    )
    return Turn(message, first.path, tuple(use.path for use in uses))


def _check_results(blocks: Iterable[Block]) -> None:
    known = set()
    for block in blocks:
        if isinstance(block, ToolUseBlock):
            known.add(block.id)
        elif isinstance(block, ToolResultBlock) and block.tool_use_id not in known:
            message = f"{block.path}.tool_use_id must be the id of a tool_use before it."
            raise invalid_field("messages", message)
