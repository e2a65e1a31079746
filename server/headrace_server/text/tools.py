"""The front's own types of tools: what a chat offers to the model, and what it called before."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


@dataclass(frozen=True, slots=True)
class Tool:
    """A function that the model can ask for.

    Args:
        name: fit for a name in most languages, hyphens apart.
        description: for the model; may be empty.
        parameters_json: the JSON Schema of the arguments; it may not be JSON. Empty where there
            are none.
    """

    name: str
    description: str
    parameters_json: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of an earlier turn; `arguments_json` may not be JSON, and empty is no arguments."""

    id: str
    name: str
    arguments_json: str


class ToolMode(Enum):
    """How the model chooses; the names are those of the contract."""

    AUTO = auto()
    NONE = auto()
    REQUIRED = auto()


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The tools of a chat and what is to be done with them.

    Args:
        tools: with different names.
        choice: a mode, or the name of the one tool that must be called.
        allows_parallel_calls: whether an answer may have several calls.
    """

    tools: tuple[Tool, ...] = ()
    choice: ToolMode | str = ToolMode.AUTO
    allows_parallel_calls: bool = True

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that the model is shown."""
        return () if self.choice is ToolMode.NONE else self.tools

    @property
    def is_forced(self) -> bool:
        """Whether the answer must be calls and nothing else."""
        return self.choice is ToolMode.REQUIRED or isinstance(self.choice, str)

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """The tools that the model may call."""
        if isinstance(self.choice, str):
            return tuple(tool for tool in self.tools if tool.name == self.choice)
        return self.offered

    @property
    def max_calls(self) -> int | None:
        """The most calls of an answer; None has no limit."""
        return 1 if isinstance(self.choice, str) or not self.allows_parallel_calls else None


NO_TOOLS: Final = ToolUse()
