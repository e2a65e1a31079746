"""Reads the JSON files of a model directory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


class ModelFileError(Exception):
    """A model's file cannot be used; the message is one sentence that says what to do.

    Args:
        path: the file.
        problem: what is wrong with it and what to do.
    """

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


def read_text(path: Path) -> str:
    """Read a UTF-8 file as it is.

    Raises:
        ModelFileError: it is missing or unreadable.
    """
    try:
        return path.read_bytes().decode()
    except FileNotFoundError as error:
        raise ModelFileError(path, "the model needs this file; add it to its directory") from error
    except (OSError, UnicodeDecodeError) as error:
        problem = "the file cannot be read as UTF-8 text; fetch the model again"
        raise ModelFileError(path, problem) from error


def read_optional_json(path: Path) -> dict[str, Any]:
    """Read the JSON object of a file that a model may lack; empty where it does.

    Raises:
        ModelFileError: the file is unreadable or holds something else.
    """
    if not path.exists():
        return {}
    try:
        value = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise ModelFileError(path, "the file is not valid JSON; fetch the model again") from error
    if not isinstance(value, dict):
        raise ModelFileError(path, "the file must hold a JSON object; fetch the model again")
    return value
