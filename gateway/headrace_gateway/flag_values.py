"""Reads the values of flags; each reader says which rule a value breaks.

Those that the server has as well are the same there, word for word.
"""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headrace_gateway.api_keys import ApiKeyError, to_api_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace_gateway.api_keys import ApiKey

# What a flag's reader raises: the rule that the value breaks, as in "must be …".
FlagValueError = argparse.ArgumentTypeError


def whole_number(low: int, high: int | None = None) -> Callable[[str], int]:
    """Read a whole number within inclusive bounds."""
    bounds = f"a whole number of at least {low}" if high is None else f"from {low} to {high}"

    def read(text: str) -> int:
        if re.fullmatch(r"[+-]?\d{1,19}", text) is None:
            raise FlagValueError(f"{text!r} must be {bounds}")
        value = int(text)
        if value < low or (high is not None and value > high):
            raise FlagValueError(f"{text!r} must be {bounds}")
        return value

    return read


def seconds(low: float, high: float = 86_400.0) -> Callable[[str], float]:
    """Read a time in seconds within inclusive bounds."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise FlagValueError(f"{text!r} must be a number of seconds from {low:g} to {high:g}")
        return value

    return read


def one_of(*choices: str) -> Callable[[str], str]:
    """Read one of a few words."""

    def read(text: str) -> str:
        if text not in choices:
            raise FlagValueError(f"{text!r} must be {', '.join(choices[:-1])} or {choices[-1]}")
        return text

    return read


def switch(text: str) -> bool:
    """Read yes or no, as for the variable of a flag without a value."""
    match text.lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off":
            return False
        case _:
            raise FlagValueError(f"{text!r} must be true or false")


def host(text: str) -> str:
    """Read a name or an address of this machine."""
    if re.fullmatch(r"[\w.:%-]{1,255}", text) is None:
        raise FlagValueError(f"{text!r} must be an address such as 127.0.0.1, or 0.0.0.0 for all")
    return text


def api_key(text: str) -> ApiKey:
    """Read a key, which no error shows."""
    try:
        return to_api_key(text)
    except ApiKeyError as error:
        raise FlagValueError(str(error)) from None


def file(text: str) -> Path:
    """Read the path of a file that is there."""
    path = Path(text).expanduser()
    if not path.is_file():
        raise FlagValueError(f"there is no file {text!r}; give the path of one")
    return path.absolute()


def config_file(text: str) -> Path:
    """Read the path of a configuration file."""
    path = Path(text).expanduser()
    if path.suffix not in (".toml", ".yaml", ".yml"):
        raise FlagValueError(f"{text!r} must end in .toml, .yaml or .yml")
    if not path.is_file():
        raise FlagValueError(f"there is no file {text!r}; give the path of a TOML or YAML file")
    return path


def upstream(text: str) -> str:
    """Read the address of the server: host and port, or the path of a socket."""
    match = re.fullmatch(r"(\[[0-9a-fA-F:.%]+\]|[^\s:/\[\]]+):(\d{1,5})", text)
    is_address = match is not None and 0 < int(match[2]) < 65536
    if not is_address and re.fullmatch(r"unix:/[^\0\s]+", text) is None:
        raise FlagValueError(
            f"{text!r} must be an address such as 127.0.0.1:1920, or a socket by its whole "
            "path such as unix:/run/headrace.sock"
        )
    return text


def host_name(text: str) -> str:
    """Read a name as it stands in a certificate."""
    if re.fullmatch(r"[\w.:-]{1,255}", text) is None:
        raise FlagValueError(f"{text!r} must be a name such as headrace.example.com")
    return text


def origins(text: str) -> tuple[str, ...]:
    """Read which web pages may use the API, with commas between them."""
    parts = tuple(part.strip().rstrip("/") for part in text.split(","))
    for part in parts:
        if not re.fullmatch(r"\*|none|localhost|[a-z][a-z0-9+.-]*://[^\s/,]*", part):
            raise FlagValueError(
                f"{text!r} must be localhost, none, * or origins such as "
                "https://chat.example.com, with commas"
            )
    return parts


def trusted_roots(text: str) -> Path | Literal["system"]:
    """Read whose certificates are trusted: the path of a file, or those of the system."""
    if text == "system":
        return "system"
    path = Path(text).expanduser()
    if not path.is_file():
        raise FlagValueError(f"there is no file {text!r}; give the path of one, or system")
    return path.absolute()
