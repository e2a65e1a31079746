"""The command line of the comparison."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from comparison import generate
from comparison.environment import default_cache_directory
from comparison.part import INTERFERENCE, PARTS
from comparison.peers.find import RIVALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ALL_RIVALS: Final = (generate.NAME, *RIVALS)
# As the rivals with weights of 16 and of 4 bits.
_VARIANTS: Final = ("fp16", "q4")
_QUICK_PARTS: Final = tuple(one for one in PARTS if one != INTERFERENCE)

_EPILOG: Final = """\
parts:
  grid          throughput, latencies and memory for every prompt length and number of streams
  repeat        time to first token of a 512-token prompt, the first and the second time
  interference  gaps of 8 running answers while prompts of 2,000 tokens arrive
  start         from exec to ready, and to the first text
  serving       Headrace: engine alone, gRPC and HTTP under the same load
  transport     Headrace: tokens per second through gRPC and SSE with a simulated engine

examples:
  python benchmarks/compare.py --headrace fp16 --headrace q4
  python benchmarks/compare.py --quick
  python benchmarks/compare.py --only grid --streams 16 --prompts 64 --rivals llama-cpp
"""


@dataclass(frozen=True, slots=True)
class Options:
    """What is compared, and for how long.

    Args:
        model: ``default`` or a GGUF file.
        variants: of Headrace, see `peers.headrace`.
        rivals: to compare with, `generate` included.
        places: environments of rivals outside of the cache.
        parts: what is measured.
        streams: numbers of concurrent streams of the grid.
        prompts: prompt lengths of the grid, in tokens.
        num_output_tokens: of every answer of the grid.
        num_rounds: most rounds.
        total_seconds: no round begins that would not end within this.
        cell_seconds: what takes longer counts as not finished.
        start_seconds: a server that is not ready by then counts as failed.
        cache: of rivals and model files.
        results: the directory of this run's results; it must not hold any.
    """

    model: str
    variants: tuple[str, ...]
    rivals: tuple[str, ...]
    places: Mapping[str, Path]
    parts: tuple[str, ...]
    streams: tuple[int, ...]
    prompts: tuple[int, ...]
    num_output_tokens: int
    num_rounds: int
    total_seconds: float
    cell_seconds: float
    start_seconds: float
    cache: Path
    results: Path | None


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; ends the program with one sentence where it is wrong."""
    parser = _parser()
    given = parser.parse_args(arguments)
    places = dict(_place(parser, text) for text in given.rival_at)
    parts = given.only or (_QUICK_PARTS if given.quick else PARTS)
    return Options(
        model=given.model,
        variants=tuple(given.headrace or _VARIANTS),
        rivals=tuple(given.rivals),
        places=places,
        parts=tuple(part for part in PARTS if part in parts),
        streams=tuple(sorted(given.streams or ((1, 16) if given.quick else (1, 4, 16, 64)))),
        prompts=tuple(sorted(given.prompts or ((64,) if given.quick else (64, 512)))),
        num_output_tokens=given.output_tokens,
        num_rounds=given.rounds or (1 if given.quick else 3),
        total_seconds=given.minutes * 60.0,
        cell_seconds=given.limit,
        start_seconds=given.start_limit,
        cache=given.cache,
        results=given.results,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Compare Headrace with other servers: the same model, prompts and load "
        "client, in turn, in one run. Run it on an idle machine.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add(
        "--quick",
        action="store_true",
        help="one round, 1 and 16 streams, prompts of 64 tokens, no interference: less than 10 "
        "minutes",
    )
    add("--only", nargs="+", choices=PARTS, metavar="PART", help="only these parts, see below")
    add(
        "--headrace",
        action="append",
        metavar="VARIANT",
        help="a value of --quantization, or `default` for no flag, or NAME=FLAGS of the server; "
        f"may be given several times (default: {' and '.join(_VARIANTS)})",
    )
    add(
        "--rivals",
        nargs="*",
        choices=_ALL_RIVALS,
        default=_ALL_RIVALS,
        metavar="NAME",
        help=f"whom to compare with (default: {' '.join(_ALL_RIVALS)})",
    )
    add(
        "--rival-at",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="the environment of a rival that rivals.py has not installed",
    )
    add("--model", default="default", help="default or a GGUF file of a Llama model")
    add("--streams", nargs="+", type=_positive, metavar="N", help="default: 1 4 16 64")
    add("--prompts", nargs="+", type=_positive, metavar="TOKENS", help="default: 64 512")
    add("--output-tokens", type=_positive, default=64, metavar="N", help="of every answer")
    add("--rounds", type=_positive, help="at most; default: 3")
    add(
        "--minutes",
        type=float,
        default=38.0,
        help="begin no further round that would end later (default: %(default)s)",
    )
    add(
        "--limit",
        type=float,
        default=150.0,
        metavar="SECONDS",
        help="of one load (default: %(default)s)",
    )
    add(
        "--start-limit",
        type=float,
        default=600.0,
        metavar="SECONDS",
        help="of the start of a server (default: %(default)s)",
    )
    add("--cache", type=Path, default=default_cache_directory(), help="default: %(default)s")
    add("--results", type=Path, help="a new directory; default: one in the cache")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is no whole number from 1 on")
    return int(text)


def _place(parser: argparse.ArgumentParser, text: str) -> tuple[str, Path]:
    name, equals, directory = text.partition("=")
    if name not in RIVALS or not equals:
        parser.error(f"--rival-at takes NAME=DIR with a name out of {', '.join(RIVALS)}")
    return name, Path(directory)
