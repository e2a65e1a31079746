"""Runs Headrace's scheduler and model in this process, without any front.

Started by `engine_alone.py` with the flags of a server; reads one JSON object from stdin
(`prompts`: lists of token ids, and `num_output_tokens`) and prints the seconds that all took.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from headrace_server.config import read_config
from headrace_server.engine.block_pool import BlockPool
from headrace_server.engine.limits import choose_limits
from headrace_server.engine.messages import AddSequence
from headrace_server.engine.scheduler import Scheduler
from headrace_server.models.runner import load

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.model_runner import ModelRunner
    from headrace_server.engine.settings import EngineSettings


def run_offline(
    runner: ModelRunner,
    settings: EngineSettings,
    prompts: Sequence[Sequence[int]],
    num_output_tokens: int,
) -> int:
    """Answer all prompts together, each with this many of the most likely tokens.

    Returns:
        how many tokens were made.
    """
    facts = runner.description
    scheduler = Scheduler(
        choose_limits(settings, facts),
        BlockPool(facts.num_blocks, facts.block_size),
        prefix_cache=settings.prefix_cache,
    )
    for index, prompt in enumerate(prompts):
        scheduler.add(
            AddSequence(
                sequence_id=index,
                prompt_token_ids=list(prompt),
                temperature=0.0,
                top_k=None,
                top_p=1.0,
                min_p=0.0,
                seed=0,
                max_output_tokens=num_output_tokens,
                min_output_tokens=0,
                stop_token_ids=[],
            )
        )
    num_tokens = 0
    while scheduler.has_work:
        step = scheduler.schedule()
        scheduler.commit(step, runner.forward(step.rows))
        num_tokens += sum(len(output.token_ids) for output in scheduler.take_outputs())
    return num_tokens


def main() -> None:
    """Load, warm up, run, print."""
    settings = read_config(sys.argv[1:]).engine
    load_of = json.load(sys.stdin)
    prompts, num_output_tokens = load_of["prompts"], load_of["num_output_tokens"]
    runner = load(settings, lambda phase, fraction=None: None)
    # Other tokens than those that are measured, so that no cache of prefixes knows them.
    run_offline(runner, settings, [prompt[::-1][:16] for prompt in prompts], 4)
    begin = time.perf_counter()
    num_tokens = run_offline(runner, settings, prompts, num_output_tokens)
    seconds = time.perf_counter() - begin
    print(json.dumps({"num_tokens": num_tokens, "seconds": seconds}))


if __name__ == "__main__":
    main()
