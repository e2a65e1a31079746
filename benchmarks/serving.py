"""Compare Headrace with `transformers` generate, and its fronts with its own engine, in one run.

    python benchmarks/serving.py [--streams 16] [--prompt 64] [--output 64] [--rounds 3]

Rows, each measured in turn in every round:

    generate   transformers `generate` in fp32, one request at a time, as a script would do it
    engine     scheduler and model in one process, no front: what the engine can do
    gRPC       that many concurrent Generate calls
    HTTP       that many concurrent streaming /v1/completions

Every request has a prompt of its own of the given number of tokens, takes the most likely
token, and runs on past the end of the text, so that all make the same number of tokens.
Throughput is output tokens divided by the time from the first request to the end of the
last. Run it on an idle machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from grpc import aio

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import inference_service_pb2_grpc

# Ids of ordinary words in most vocabularies of 32,000 tokens and more.
FIRST_TOKEN_ID, NUM_TOKEN_IDS = 1000, 20_000


@dataclass(frozen=True)
class Load:
    """What every row runs."""

    num_streams: int
    num_prompt_tokens: int
    num_output_tokens: int

    def prompt(self, index: int) -> list[int]:
        return [
            FIRST_TOKEN_ID + (index * 7919 + offset * 104_729) % NUM_TOKEN_IDS
            for offset in range(self.num_prompt_tokens)
        ]

    @property
    def total_tokens(self) -> int:
        return self.num_streams * self.num_output_tokens


def measure_generate(directory: str, load: Load, num_requests: int) -> float:
    """Tokens per second of `generate`, one request at a time."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()

    def answer(index: int) -> None:
        ids = torch.tensor([load.prompt(index)])
        count = load.num_output_tokens
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            min_new_tokens=count,
            max_new_tokens=count,
            temperature=None,
            top_p=None,
        )
        assert output.shape[1] == ids.shape[1] + count

    answer(0)
    begin = time.perf_counter()
    for index in range(num_requests):
        answer(index)
    return num_requests * load.num_output_tokens / (time.perf_counter() - begin)


def measure_engine(model: str, load: Load) -> float:
    """Tokens per second of scheduler and model alone."""
    from headrace_server.engine.block_pool import BlockPool
    from headrace_server.engine.limits import choose_limits
    from headrace_server.engine.messages import AddSequence
    from headrace_server.engine.scheduler import Scheduler
    from headrace_server.engine.settings import EngineSettings
    from headrace_server.models.runner import load as load_runner

    settings = EngineSettings(model=model)
    runner = load_runner(settings, lambda phase, fraction=None: None)
    facts = runner.description
    limits = choose_limits(settings, facts)
    scheduler = Scheduler(limits, BlockPool(facts.num_blocks, facts.block_size))

    def run(num_output_tokens: int) -> int:
        for index in range(load.num_streams):
            scheduler.add(
                AddSequence(
                    sequence_id=index,
                    prompt_token_ids=load.prompt(index),
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

    run(4)
    begin = time.perf_counter()
    assert run(load.num_output_tokens) == load.total_tokens
    return load.total_tokens / (time.perf_counter() - begin)


@contextmanager
def program(module: str, *flags: str, until: str):
    """Run a Headrace program and yield the event that says it is up."""
    command = [sys.executable, "-m", module, "--port", "0", "--log-level", "warning", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == until:
                    yield event
                    break
        finally:
            process.terminate()


async def _one_grpc(stub, load: Load, index: int, num_output_tokens: int) -> int:
    request = pb.GenerateRequest(
        token_ids={"ids": load.prompt(index)},
        sampling={"temperature": 0},
        stopping={"max_output_tokens": num_output_tokens, "ignore_end_of_text": True},
    )
    async for response in stub.Generate(request):
        last = response
    return last.usage.output_token_count


async def measure_grpc(address: str, load: Load) -> float:
    """Tokens per second through gRPC."""
    async with aio.insecure_channel(address) as channel:
        stub = inference_service_pb2_grpc.InferenceServiceStub(channel)
        await asyncio.gather(*(_one_grpc(stub, load, i, 4) for i in range(load.num_streams)))
        begin = time.perf_counter()
        counts = await asyncio.gather(
            *(_one_grpc(stub, load, i, load.num_output_tokens) for i in range(load.num_streams))
        )
        seconds = time.perf_counter() - begin
    assert sum(counts) == load.total_tokens
    return load.total_tokens / seconds


async def _one_http(session, load: Load, index: int, num_output_tokens: int) -> int:
    body = {
        "prompt": load.prompt(index),
        "max_tokens": num_output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    usage = None
    async with session.post("/v1/completions", json=body) as response:
        async for line in response.content:
            if b'"usage":{' in line:
                usage = json.loads(line.removeprefix(b"data: "))["usage"]
    return usage["completion_tokens"]


async def measure_http(url: str, load: Load) -> float:
    """Tokens per second through the gateway."""
    async with aiohttp.ClientSession(url, raise_for_status=True) as session:
        await asyncio.gather(*(_one_http(session, load, i, 4) for i in range(load.num_streams)))
        begin = time.perf_counter()
        counts = await asyncio.gather(
            *(_one_http(session, load, i, load.num_output_tokens) for i in range(load.num_streams))
        )
        seconds = time.perf_counter() - begin
    assert sum(counts) == load.total_tokens
    return load.total_tokens / seconds


def measure_fronts(model: str, load: Load) -> dict[str, float]:
    with (
        program("headrace_server", "--model", model, until="ready") as server,
        program("headrace_gateway", "--upstream", server["address"], until="listening") as gateway,
    ):
        return {
            "gRPC": asyncio.run(measure_grpc(server["address"], load)),
            "HTTP": asyncio.run(measure_http(gateway["url"], load)),
        }


def in_own_process(name: str, arguments: argparse.Namespace) -> float:
    """Run one row in a fresh process, so that no row inherits the memory of another."""
    command = [sys.executable, __file__, "--row", name]
    for flag in ("model", "streams", "prompt", "output"):
        command += [f"--{flag}", str(getattr(arguments, flag))]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def run_row(arguments: argparse.Namespace, load: Load) -> float:
    if arguments.row == "engine":
        return measure_engine(arguments.model, load)
    from headrace_server.models.resolve import resolve_model

    directory = resolve_model(arguments.model, lambda phase, fraction=None: None)
    return measure_generate(str(directory), load, num_requests=min(4, load.num_streams))


def print_table(rows: dict[str, list[float]]) -> None:
    medians = {name: statistics.median(values) for name, values in rows.items()}
    print(f"\n{'':10}{'tokens/s':>10}{'min-max':>16}{'x generate':>12}{'of engine':>11}")
    for name, values in rows.items():
        spread = f"{min(values):.1f}-{max(values):.1f}"
        print(
            f"{name:10}{medians[name]:>10.1f}{spread:>16}"
            f"{medians[name] / medians['generate']:>12.2f}"
            f"{medians[name] / medians['engine']:>11.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="default")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=64, help="tokens of each prompt")
    parser.add_argument("--output", type=int, default=64, help="tokens of each answer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="write all figures to this file")
    parser.add_argument("--row", choices=("generate", "engine"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    load = Load(arguments.streams, arguments.prompt, arguments.output)
    if arguments.row:
        print(run_row(arguments, load))
        return
    rows: dict[str, list[float]] = {"generate": [], "engine": [], "gRPC": [], "HTTP": []}
    for index in range(arguments.rounds):
        for name in ("generate", "engine"):
            print(f"round {index + 1}: {name}", file=sys.stderr)
            rows[name].append(in_own_process(name, arguments))
        print(f"round {index + 1}: gRPC, HTTP", file=sys.stderr)
        for name, value in measure_fronts(arguments.model, load).items():
            rows[name].append(value)
    print_table(rows)
    if arguments.json:
        figures = {"load": vars(arguments), "tokens_per_second": rows}
        Path(arguments.json).write_text(json.dumps(figures, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
