"""The command: find the peers, measure, and report."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from comparison import generate
from comparison.floors import measure_floors
from comparison.machine import describe_machine
from comparison.measurement import Measurement, summarize
from comparison.model_files import find_model_files
from comparison.options import read_options
from comparison.peers.find import find_peers
from comparison.plot import PlotError, draw
from comparison.prompts import Prompts
from comparison.report import Report
from comparison.run import Comparison

if TYPE_CHECKING:
    from comparison.options import Options

_IDLE_LOAD = 0.5


def main() -> int:
    """Run the comparison and return the exit status."""
    options = read_options()
    # Some peers would take a GPU and others not: all are compared on the CPU.
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    machine = describe_machine()
    if machine.load_average > _IDLE_LOAD:
        _say(
            f"warning: the load of this machine is {machine.load_average:.1f}; on a busy machine "
            "the figures mean little"
        )
    _say("finding the model and the peers")
    model = find_model_files(options.model, options.cache)
    rivals = [name for name in options.rivals if name != generate.NAME]
    peers = find_peers(options.variants, rivals, options.places, options.cache, model)
    for absence in peers.absent:
        _say(f"without {absence.name}: {absence.reason}")
    for peer in peers.present:
        _say(f"with {peer.name} ({peer.version})")
    _say("measuring memory and arithmetic, about 10 s")
    floors = measure_floors()
    directory = _results_directory(options)
    measurements: list[Measurement] = []
    names = [generate.NAME, *(peer.name for peer in peers.present if not peer.is_headrace)]
    report = Report(directory, options, machine, floors, peers, names, measurements)
    comparison = Comparison(
        options,
        peers.present,
        model,
        Prompts.load(model.tokenizer),
        directory,
        measurements,
        save=lambda: report.save(is_complete=False),
    )
    status = 0
    try:
        asyncio.run(_until_told_to_stop(comparison))
        report.save(is_complete=True)
    except (KeyboardInterrupt, asyncio.CancelledError):
        _say("\nstopped; this is what was measured")
        report.save(is_complete=False)
        status = 130
    print(f"\n{machine.cpu_model}, {machine.num_cores} cores\n{floors}\n")
    print(report.tables())
    for absence in peers.absent:
        print(f"\nnot compared: {absence.name}: {absence.reason}")
    try:
        draw(summarize(measurements), names, directory / "comparison.png")
    except PlotError as error:
        _say(f"no picture: {error}")
    print(f"\nresults: {directory}")
    return status


async def _until_told_to_stop(comparison: Comparison) -> None:
    """Run; SIGTERM ends it like Ctrl-C, so that no server stays behind."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await comparison.run()


def _results_directory(options: Options) -> Path:
    """A new directory: what an earlier run measured never gets into this one."""
    if options.results is not None:
        options.results.mkdir(parents=True, exist_ok=False)
        return options.results
    root = options.cache / "results"
    root.mkdir(parents=True, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-")
    return Path(tempfile.mkdtemp(prefix=stamp, dir=root))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
