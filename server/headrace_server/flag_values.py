"""Reads the values of flags; each reader says which rule a value breaks."""

from __future__ import annotations

import argparse
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headrace_server.api_keys import ApiKey, ApiKeyError, to_api_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# What a flag's reader raises: the rule that the value breaks, as in "must be …".
FlagValueError = argparse.ArgumentTypeError

_SIZE_UNITS: Final[Mapping[str, int]] = {
    "": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}


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


def size_bytes(text: str) -> int:
    """Read a size such as 2GiB, 512MiB or 1000000."""
    match = re.fullmatch(r"(\d{1,15})\s*([KMG]i?B|)", text)
    if match is None or int(match[1]) == 0:
        raise FlagValueError(f"{text!r} must be a size above 0 such as 512MiB or 2GiB")
    return int(match[1]) * _SIZE_UNITS[match[2]]


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


def device(text: str) -> str:
    """Read the name of a torch device."""
    if re.fullmatch(r"[a-z]+(:\d{1,3})?", text) is None:
        raise FlagValueError(f"{text!r} must be auto or a device such as cpu, cuda or cuda:1")
    return text


def host(text: str) -> str:
    """Read a name or an address of this machine."""
    if re.fullmatch(r"[\w.:%-]{1,255}", text) is None:
        raise FlagValueError(f"{text!r} must be an address such as 127.0.0.1, or 0.0.0.0 for all")
    return text


def served_name(text: str) -> str:
    """Read a name for the model."""
    if not (0 < len(text) <= 256 and text.isprintable() and "," not in text):
        raise FlagValueError(f"{text!r} must have 1 to 256 printable characters and no comma")
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


def new_path(text: str) -> Path:
    """Read the path of what is to be made."""
    if not text:
        raise FlagValueError("a path must not be empty")
    return Path(text).expanduser().absolute()


def config_file(text: str) -> Path:
    """Read the path of a configuration file."""
    path = Path(text).expanduser()
    if path.suffix not in (".toml", ".yaml", ".yml"):
        raise FlagValueError(f"{text!r} must end in .toml, .yaml or .yml")
    if not path.is_file():
        raise FlagValueError(f"there is no file {text!r}; give the path of a TOML or YAML file")
    return path


def template_file(text: str) -> Path:
    """Read the path of a Jinja template."""
    path = Path(text).expanduser()
    if not path.is_file():
        raise FlagValueError(f"there is no file {text!r}; give the path of a Jinja template")
    return path.resolve()


def model(text: str) -> str:
    """Read the path of a model, which must exist, or a Hub id; what is in it is seen on loading."""
    path = Path(text).expanduser()
    if text == "default":
        return text
    if text and path.exists():  # no text would be the working directory
        return str(path.resolve())
    looks_like_path = text.startswith((".", "/", "~")) or text.endswith(".gguf")
    if looks_like_path or re.fullmatch(r"[\w.-]{1,96}/[\w.-]{1,96}", text) is None:
        raise FlagValueError(
            f"there is no directory or file {text!r}; give a model directory, a GGUF file or a "
            "Hub id such as HuggingFaceTB/SmolLM2-135M-Instruct"
        )
    return text
