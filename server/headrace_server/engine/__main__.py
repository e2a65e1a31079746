"""The engine process: ``python -m headrace_server.engine --fd N --epoch E``.

Started by `headrace_server.backends.native`, never by hand.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace_server.child_process import follow_parent
from headrace_server.engine.block_pool import BlockPool
from headrace_server.engine.channel import FrontChannel, FrontGoneError
from headrace_server.engine.constraints import GrammarCompiler
from headrace_server.engine.grammar_vocabulary import GrammarVocabulary
from headrace_server.engine.limits import choose_limits
from headrace_server.engine.loop import EngineLoop
from headrace_server.engine.messages import LoadFailed, Loading, Ready
from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.engine.scheduler import Scheduler
from headrace_server.telemetry import log_event, set_up_logging
from headrace_server.unused_memory import release_unused_memory

if TYPE_CHECKING:
    from headrace_server.engine.model_runner import ModelRunner, ReportProgress
    from headrace_server.engine.settings import EngineSettings

_LOADING_FAULT = "The model could not be loaded because of a fault of the server; see its log."

_log = logging.getLogger("headrace_server.engine")


def main() -> int:
    """Load the model, serve until the front stops or dies, and return the exit status."""
    parser = argparse.ArgumentParser(prog="headrace_server.engine")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--epoch", type=int, required=True)
    arguments = parser.parse_args()
    follow_parent()
    os.set_inheritable(arguments.fd, False)
    with socket.socket(fileno=arguments.fd) as connection:
        try:
            return _serve(FrontChannel(connection), arguments.epoch)
        except FrontGoneError:
            log_event(_log, logging.INFO, "front is gone")
            return 0


def _serve(channel: FrontChannel, epoch: int) -> int:
    settings = channel.receive_settings()
    set_up_logging(settings.log_level, settings.log_format)

    def report_progress(phase: str, fraction: float | None = None) -> None:
        channel.send(Loading(epoch, phase, fraction))

    report_progress("starting")
    try:
        runner = _load_runner(settings, report_progress)
    except FrontGoneError:
        raise
    except ModelLoadError as error:
        channel.send(LoadFailed(epoch, str(error)))
        return 1
    except Exception:  # noqa: BLE001  # it is logged, and the front is told
        _log.exception("loading failed")
        channel.send(LoadFailed(epoch, _LOADING_FAULT))
        return 1
    _run_loop(channel, settings, runner, epoch)
    return 0


def _load_runner(settings: EngineSettings, report_progress: ReportProgress) -> ModelRunner:
    if settings.runner == "simulated":
        from headrace_server.engine.simulated_runner import SimulatedRunner

        return SimulatedRunner.load(settings, report_progress)
    from headrace_server.models.runner import load

    return load(settings, report_progress)


def _run_loop(
    channel: FrontChannel, settings: EngineSettings, runner: ModelRunner, epoch: int
) -> None:
    model = runner.description
    limits = choose_limits(settings, model)
    compiler = GrammarCompiler(
        partial(GrammarVocabulary.load, Path(model.directory), model.vocabulary_size)
    )
    scheduler = Scheduler(
        limits,
        BlockPool(model.num_blocks, model.block_size),
        compiler,
        prefix_cache=settings.prefix_cache,
    )
    # A sequence must fit the KV cache when it is alone.
    context_length = min(model.context_length, model.num_blocks * model.block_size)
    if context_length < model.context_length:
        log_event(
            _log,
            logging.WARNING,
            "context shortened to the KV cache",
            context_length=context_length,
            model_context_length=model.context_length,
        )
    # What loading has left behind lives as long as the process: do not search it for garbage.
    gc.collect()
    gc.freeze()
    release_unused_memory()
    ready = Ready(epoch, model.directory, context_length, model.vocabulary_size, scheduler.stats)
    channel.send(ready)
    with compiler:
        EngineLoop(channel, scheduler, runner, epoch).run()


if __name__ == "__main__":
    sys.exit(main())
