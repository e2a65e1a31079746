"""Finds the peers that the options name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from comparison.environment import RECIPES, Environment, environment
from comparison.gguf_f16 import weight_type
from comparison.peer import Absence
from comparison.peers.headrace import headrace
from comparison.peers.llama_cpp import PROGRAM_CODE, llama_cpp
from comparison.peers.transformers_serve import transformers_serve
from comparison.peers.vllm import vllm

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from pathlib import Path

    from comparison.model_files import ModelFiles
    from comparison.peer import Peer

RIVALS: Final = tuple(recipe.name for recipe in RECIPES)


@dataclass(frozen=True, slots=True)
class Peers:
    """Who is compared, and who is not here."""

    present: tuple[Peer, ...]
    absent: tuple[Absence, ...]


def find_peers(
    variants: Sequence[str],
    rivals: Collection[str],
    places: Mapping[str, Path],
    cache: Path,
    model: ModelFiles,
) -> Peers:
    """Find the servers.

    Args:
        variants: of Headrace, see `headrace`.
        rivals: which of `RIVALS` to compare with.
        places: environments of rivals that are not in the cache.
        cache: where `rivals.py` installs them.
        model: what they serve.
    """
    present: list[Peer] = []
    absent: list[Absence] = []
    for recipe in RECIPES:
        if recipe.name not in rivals:
            continue
        found = environment(recipe, cache)
        if recipe.name in places:
            found = Environment(places[recipe.name], recipe.package)
        version = found.version()
        if version is None:
            reason = f"not installed; run `python benchmarks/rivals.py install {recipe.name}`"
            absent.append(Absence(recipe.name, reason))
            continue
        made = _MAKERS[recipe.name](found, version, model)
        if not made:
            absent.append(
                Absence(recipe.name, f"{recipe.package} holds no server; install it anew")
            )
        present.extend(made)
    present.extend(headrace(variant, model) for variant in variants)
    return Peers(tuple(present), tuple(absent))


def _llama_cpp(found: Environment, version: str, model: ModelFiles) -> list[Peer]:
    program = found.output_of(PROGRAM_CODE)
    if program is None:
        return []
    return [
        llama_cpp(program, version, model.f16_gguf, "F16"),
        llama_cpp(program, version, model.gguf, weight_type(model.gguf)),
    ]


_MAKERS: Final[Mapping[str, Callable[[Environment, str, ModelFiles], list[Peer]]]] = {
    "llama-cpp": _llama_cpp,
    "transformers": lambda found, version, model: [
        transformers_serve(found, version, model.directory)
    ],
    "vllm": lambda found, version, model: [vllm(found, version, model.directory)],
}
