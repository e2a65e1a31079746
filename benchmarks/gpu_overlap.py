"""Steps through the scheduler, one after the other and overlapping: equal answers, and how fast."""

import time
from collections import defaultdict

from headrace_server.engine.block_pool import BlockPool
from headrace_server.engine.limits import SchedulerLimits
from headrace_server.engine.messages import AddSequence
from headrace_server.engine.model_runner import ModelDescription
from headrace_server.engine.pipeline import StepPipeline
from headrace_server.engine.scheduler import Scheduler
from headrace_server.models.overlapping_runner import OverlappingTorchRunner
from headrace_server.models.precision import Precision, WeightFormat
from headrace_server.models.runner import TorchRunner
from random_model import BLOCK_SIZE

PROMPT_TOKENS = 32
STEP_TOKENS = 8192


def measure_overlap(model, rows, num_tokens):
    """Answer greedily by both runners; with no row in vain, their steps hold the same rows."""
    results = []
    for count in rows:
        plain = plain_runner(model)
        warmed = [run(runner, count, 4) for runner in (plain, OverlappingTorchRunner(plain))]
        seconds, answers = run(plain, count, num_tokens)
        overlapped_seconds, overlapped_answers = run(
            OverlappingTorchRunner(plain), count, num_tokens
        )
        passed = answers == overlapped_answers and warmed[0][1] == warmed[1][1]
        results.append(
            {
                "rows": count,
                "passed": passed,
                "step_ms": seconds / num_tokens * 1e3,
                "overlapping_step_ms": overlapped_seconds / num_tokens * 1e3,
            }
        )
        print(
            f"overlap {count:4} rows  {'passed' if passed else 'FAILED'}  "
            f"{seconds / num_tokens * 1e3:8.2f} ms a step one after the other, "
            f"{overlapped_seconds / num_tokens * 1e3:8.2f} overlapping"
        )
    return results


def plain_runner(model):
    dtype = model.decoder.activations
    description = ModelDescription(
        directory="",
        context_length=model.num_blocks * BLOCK_SIZE,
        vocabulary_size=model.shape.vocabulary,
        num_blocks=model.num_blocks,
        block_size=BLOCK_SIZE,
        device_type=model.device.type,
    )
    precision = Precision(model.device, dtype, dtype, WeightFormat.DENSE)
    return TorchRunner(model.steps, model.cache, precision, description)


def run(runner, count, num_tokens):
    """Return the seconds of all steps, and the answers."""
    description = runner.description
    limits = SchedulerLimits(count, STEP_TOKENS, STEP_TOKENS, description.vocabulary_size)
    pool = BlockPool(description.num_blocks, description.block_size)
    scheduler = Scheduler(limits, pool, prefix_cache=False)
    pipeline = StepPipeline(scheduler, runner)
    for index in range(count):
        scheduler.add(make_request(index, num_tokens, description.vocabulary_size))
    answers = defaultdict(list)
    begin = time.perf_counter()
    while scheduler.has_work or pipeline.is_busy:
        if pipeline.begin():
            scheduler.commit(*pipeline.wait())
        for output in scheduler.take_outputs():
            answers[output.sequence_id] += output.token_ids
    return time.perf_counter() - begin, answers


def make_request(index, num_tokens, vocabulary):
    return AddSequence(
        sequence_id=index,
        prompt_token_ids=[(7 * i + index) % vocabulary for i in range(PROMPT_TOKENS)],
        temperature=0.0,
        top_k=None,
        top_p=1.0,
        min_p=0.0,
        seed=index,
        max_output_tokens=num_tokens,
        min_output_tokens=0,
        stop_token_ids=[],
    )
