"""Reads from a model's files how it samples and where it ends when a request does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace_server.text.generation import Sampling
from headrace_server.text.model_files import ModelFileError, read_optional_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def read_default_sampling(directory: Path) -> Sampling:
    """Return the sampling of generation_config.json with every value but the seed set.

    What it leaves out takes the value that changes nothing: temperature, top_p and
    repetition_penalty 1, all others 0. Its `do_sample` is not looked at: temperature says it
    all here.

    Raises:
        ModelFileError: a value is not a number in the range of the contract.
    """
    path = directory / "generation_config.json"
    config = read_optional_json(path)
    top_k = _number(path, config, "top_k", default=0, low=-1, high=2**31 - 1)
    top_p = _number(path, config, "top_p", default=1.0, low=0.0, high=1.0)
    return Sampling(
        temperature=_number(path, config, "temperature", default=1.0, low=0.0, high=2.0),
        top_p=top_p or 1.0,  # 0 is some files' word for no limit, as -1 is for top_k
        top_k=max(0, int(top_k)),
        min_p=_number(path, config, "min_p", default=0.0, low=0.0, high=1.0),
        presence_penalty=0.0,  # these two are no part of such files
        frequency_penalty=0.0,
        repetition_penalty=_number(
            path, config, "repetition_penalty", default=1.0, low=0.1, high=10.0
        ),
    )


def read_end_of_text_token_ids(directory: Path) -> tuple[int, ...]:
    """Return all end-of-text ids of generation_config.json, or else of config.json.

    Raises:
        ModelFileError: they are neither an id, a list of ids nor missing.
    """
    for name in ("generation_config.json", "config.json"):
        path = directory / name
        value = read_optional_json(path).get("eos_token_id")
        if value is None:
            continue
        token_ids = value if isinstance(value, list) else [value]
        if any(isinstance(i, bool) or not isinstance(i, int) for i in token_ids):
            raise ModelFileError(path, "eos_token_id must be a token id or a list of them")
        return tuple(token_ids)
    return ()


def _number(
    path: Path, config: Mapping[str, Any], name: str, *, default: float, low: float, high: float
) -> float:
    value = config.get(name)
    if value is None:
        return default
    is_switch = isinstance(value, bool)  # true is an int in Python
    if is_switch or not isinstance(value, int | float) or not low <= value <= high:
        raise ModelFileError(path, f"{name} must be a number from {low} to {high}; correct it")
    return value
