"""Reads the configuration file, TOML or YAML: the names of flags with their values as text."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from typing import TYPE_CHECKING, TypeAlias

import yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

Value: TypeAlias = str | tuple[str, ...]

# One file serves both programs: what only the server knows is passed over here.
SERVER_NAMES = frozenset(
    {
        "backend",
        "chat-template",
        "device",
        "dtype",
        "engine-heartbeat-timeout",
        "grpc-host",
        "grpc-port",
        "kv-cache-bytes",
        "lame-duck",
        "max-model-len",
        "max-num-batched-tokens",
        "max-num-seqs",
        "max-queued-requests",
        "max-queued-tokens",
        "metrics-host",
        "metrics-port",
        "model",
        "num-threads",
        "prefix-cache",
        "quantization",
        "seed",
        "served-model-name",
        "simulated-faults",
        "simulated-load-seconds",
        "simulated-step-seconds",
        "stall-timeout",
        "tool-call-parser",
        "unix-socket",
    }
)


class ConfigFileError(Exception):
    """The file cannot be used: one sentence that names it and says what to do."""


def read_config_file(path: Path, names: Collection[str]) -> Mapping[str, Value]:
    """Read the settings of this program.

    Args:
        path: ends in .toml, .yaml or .yml.
        names: the settings that this program takes, with dashes.

    Returns:
        Their values as a command line would give them.

    Raises:
        ConfigFileError: the file cannot be read, or has a setting that no program knows, a
            setting twice, or a value of a wrong kind.
    """
    settings: dict[str, Value] = {}
    known = {*names, *SERVER_NAMES}
    for written, value in _read_pairs(path):
        name = written.replace("_", "-")
        if name not in known:
            raise ConfigFileError(
                f"{path}: there is no setting {written}; {_hint(name, value, known)}"
            )
        if name in settings:
            raise ConfigFileError(f"{path}: {name} is there twice; remove one of them")
        settings[name] = _to_value(f"{path}: {name}", value)
    return {name: value for name, value in settings.items() if name in names}


def _read_pairs(path: Path) -> list[tuple[str, object]]:
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise ConfigFileError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigFileError(f"{path} is not text in UTF-8; save it as such") from error
    return _parse_toml(path, text) if path.suffix == ".toml" else _parse_yaml(path, text)


def _parse_toml(path: Path, text: str) -> list[tuple[str, object]]:
    try:
        return list(tomllib.loads(text).items())
    except tomllib.TOMLDecodeError as error:
        raise ConfigFileError(f"{path} is not TOML: {error}") from error


def _parse_yaml(path: Path, text: str) -> list[tuple[str, object]]:
    # Not safe_load, which takes the last of two equal keys without a word.
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return []
        if not isinstance(node, yaml.MappingNode):
            raise ConfigFileError(f"{path} must have lines such as: max-num-seqs: 32")
        return [
            (str(key.value), loader.construct_object(value, deep=True)) for key, value in node.value
        ]
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark else ""
        what = getattr(error, "problem", None) or error
        raise ConfigFileError(f"{path} is not YAML{line}: {what}") from error


def _to_value(source: str, value: object) -> Value:
    if not isinstance(value, list):
        return _to_text(source, value)
    if not value:
        raise ConfigFileError(f"{source} has an empty list; give a value or remove it")
    return tuple(_to_text(source, part) for part in value)


def _to_text(source: str, value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int() | float():
            return str(value)
        case None:
            raise ConfigFileError(f"{source} has no value; give one or remove it")
        case _:
            raise ConfigFileError(f"{source} must be text, a number, true, false or a list of them")


def _hint(name: str, value: object, known: Collection[str]) -> str:
    if isinstance(value, dict):
        return "a file has no sections, so write its lines without one"
    near = get_close_matches(name, sorted(known), n=1)
    return f"did you mean {near[0]}?" if near else "docs/flags.md lists them"
