"""Print how long the steps of a model take, without scheduler, server or network.

    python benchmarks/steps.py [--model MODEL] [--context 128] [--threads N]

The least of several runs is printed, because a shared machine only ever adds time.
"""

import argparse
import time

from headrace_server.engine.model_runner import BatchRow, RowSampling
from headrace_server.engine.settings import EngineSettings
from headrace_server.models.runner import load

DECODE_ROWS = (1, 4, 16, 64)
PREFILL_TOKENS = 512
GREEDY = {"temperature": 0.0, "top_k": None, "top_p": 1.0, "min_p": 0.0}
NUCLEUS = {"temperature": 0.2, "top_k": None, "top_p": 0.9, "min_p": 0.0}


def make_row(index, start, num_tokens, block_size, sampling):
    blocks_per_row = -(-(start + num_tokens) // block_size)
    first = index * blocks_per_row
    return BatchRow(
        sequence_id=index,
        token_ids=[100 + (index * 31 + offset * 7) % 1000 for offset in range(num_tokens)],
        start=start,
        block_ids=range(first, first + blocks_per_row),
        sampling=RowSampling(
            position=start + num_tokens, seed=index, banned_token_ids=(), **sampling
        ),
    )


def least_milliseconds(runner, batch, num_runs):
    runner.forward(batch)
    least = float("inf")
    for _ in range(num_runs):
        begin = time.perf_counter()
        runner.forward(batch)
        least = min(least, time.perf_counter() - begin)
    return least * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--quantization", default="auto")
    parser.add_argument("--context", type=int, default=128, help="tokens before the step")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--runs", type=int, default=20)
    arguments = parser.parse_args()
    settings = EngineSettings(
        model=arguments.model,
        device=arguments.device,
        dtype=arguments.dtype,
        quantization=arguments.quantization,
        num_threads=arguments.threads,
    )
    begin = time.perf_counter()
    runner = load(settings, lambda phase, fraction=None: None)
    print(f"load: {time.perf_counter() - begin:.2f} s")
    block_size = runner.description.block_size
    for num_rows in DECODE_ROWS:
        if num_rows * (arguments.context // block_size + 1) > runner.description.num_blocks:
            print(f"decode {num_rows:3} rows at {arguments.context}: more than the KV memory holds")
            continue
        times = []
        for sampling in (GREEDY, NUCLEUS):
            batch = [
                make_row(index, arguments.context, 1, block_size, sampling)
                for index in range(num_rows)
            ]
            times.append(least_milliseconds(runner, batch, arguments.runs))
        greedy, nucleus = times
        print(
            f"decode {num_rows:3} rows at {arguments.context}: {greedy:7.1f} ms greedy, "
            f"{nucleus:7.1f} ms top-p, {num_rows / greedy * 1e3:6.0f} tokens/s"
        )
    chunk = make_row(0, 0, PREFILL_TOKENS, block_size, GREEDY)
    prefill = least_milliseconds(runner, [chunk], max(arguments.runs // 4, 2))
    print(
        f"prefill {PREFILL_TOKENS} tokens: {prefill:7.1f} ms, "
        f"{PREFILL_TOKENS / prefill * 1e3:6.0f} tokens/s"
    )


if __name__ == "__main__":
    main()
