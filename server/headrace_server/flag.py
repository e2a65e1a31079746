"""A flag, with its environment variable and its names in a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of the command line.

    Args:
        name: with its dashes.
        read: turns the text of a value into the value, or raises `FlagValueError`.
        default: the value when neither the flag nor its variable is given.
        help: what it is for.
        shown_default: the default in words, where its value does not say it.
        metavar: what stands for the value in the help; None for a flag without a value.
        is_list: it takes several values.
        is_repeated: on the command line it is given once for each of them, so that nothing that
            follows is taken for one.
        backend: the only backend on which it has an effect.
        own_variable: the environment variable, where the one after the name belongs to
            the gateway's flag.
        file_names: its names in a configuration file, the first wins, where they are others
            because `headrace serve` has others.
    """

    name: str
    read: Callable[[str], Any]
    default: Any
    help: str
    shown_default: str | None = None
    metavar: str | None = "N"
    is_list: bool = False
    is_repeated: bool = False
    backend: Literal["native", "simulated"] | None = None
    own_variable: str | None = None
    file_names: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name as an identifier."""
        return self.name.removeprefix("--").replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable; the flag wins over it."""
        return self.own_variable or f"HEADRACE_{self.key.upper()}"

    @property
    def names_in_file(self) -> tuple[str, ...]:
        """What it may be called in a configuration file."""
        return self.file_names or (self.name.removeprefix("--"),)
