"""Check and measure the GPU path: correctness, decode, prefill, and an offline workload.

    python benchmarks/gpu.py [--quick] [--shape 1b|8b] [--json FILE]

Needs PyTorch and, on a GPU, Triton; transformers for the comparison. Weights are random, so nothing
is downloaded. `--device cpu --quick` runs a tiny version in plain torch, to try the script.
"""

import argparse
import dataclasses
import gc
import itertools
import json
import random
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

import torch

from headrace_server.models.gpu import has_gpu_kernels
from random_model import BLOCK_SIZE, Model, Shape, blocks_of, make_row, sample

try:
    from gpu_overlap import measure_overlap
except ImportError:  # the engine needs msgspec
    measure_overlap = None

DECODE_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DECODE_CONTEXT = 512
OVERLAP_ROWS, OVERLAP_TOKENS = (1, 16, 64), 256
PREFILL_TOKENS = (128, 512, 2048, 8192)
STEP_TOKENS = 8192
# The workload of nano-vllm's bench.py: prompts and outputs of 100 to 1,024 tokens.
WORKLOAD_SEED, WORKLOAD_REQUESTS, WORKLOAD_OUTPUT_TOKENS = 0, 256, 133_966
# How much further than plain torch in the same format the kernels may be from float32.
ERROR_RATIO = 1.5


SHAPES = {
    "tiny": Shape(64, 96, 2, 4, 2, 16, 97),
    "1b": Shape(2048, 8192, 16, 32, 8, 64, 128_256),
    "8b": Shape(4096, 14_336, 32, 32, 8, 128, 128_256),
}
CHECKED = {
    "tiny": SHAPES["tiny"],
    "head 80, window": Shape(160, 256, 2, 6, 2, 80, 101, window=33),
    "head 128, 7 to 1": Shape(256, 512, 2, 7, 1, 128, 101),
    "head 256": Shape(256, 512, 1, 4, 1, 256, 101),
    "8b, 2 layers": Shape(4096, 14_336, 2, 32, 8, 128, 1024),
}


def synchronize(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def least_seconds(function, device, runs):
    function()
    least = float("inf")
    for _ in range(runs):
        synchronize(device)
        begin = time.perf_counter()
        function()
        synchronize(device)
        least = min(least, time.perf_counter() - begin)
    return least


def check(device, dtype, names):
    """Compare with float32 in plain torch: prompts in chunks, then decode steps, replayed too."""
    results = []
    for name in names:
        shape, errors = CHECKED[name], {}
        draw = random.Random(1)
        tokens = [[draw.randrange(shape.vocabulary) for _ in range(n)] for n in (150, 70, 3)]
        expected = None
        for form in ("float32", "plain", "kernels"):
            form_dtype = torch.float32 if form == "float32" else dtype
            model = Model(shape, device, form_dtype, 64, plain=form != "kernels")
            blocks = [blocks_of(index, 160) for index in range(3)]
            answers = []
            for start, end in ((0, 77), (77, 149)):
                rows = [
                    make_row(i, ids[start : min(end, len(ids) - 1)], start, blocks[i])
                    for i, ids in enumerate(tokens)
                    if start < len(ids) - 1
                ]
                answers.append(model.logits(rows)[1].clone())
            last = [make_row(i, ids[-1:], len(ids) - 1, blocks[i]) for i, ids in enumerate(tokens)]
            answers.append(model.logits(last)[1].clone())
            if form == "kernels":
                model.record(4, 160)
                replayed = model.logits(last)[1]
                errors["replayed"] = (replayed - answers[-1]).abs().max().item()
            flat = torch.cat([answer.flatten() for answer in answers])
            if expected is None:
                expected = flat
            else:
                errors[form] = (flat - expected).pow(2).mean().sqrt().item()
            del model
        passed = errors["kernels"] <= ERROR_RATIO * errors["plain"] + 1e-4
        passed = passed and errors["replayed"] <= 0.1
        results.append({"shape": name, "passed": passed, **errors})
        print(f"check {name:18} {'passed' if passed else 'FAILED'} {errors}")
    return results


def copy_bandwidth(device, num_bytes):
    source = torch.zeros(num_bytes // 4, device=device)
    target = torch.empty_like(source)
    return 2 * num_bytes / least_seconds(lambda: target.copy_(source), device, 10)


def measure_decode(model, rows, context, bandwidth, runs):
    results = []
    for count in rows:
        batch = [make_row(i, [i + 1], context, blocks_of(i, context + 1)) for i in range(count)]
        step = least_seconds(lambda batch=batch: model.forward(batch), model.device, runs)
        logits = least_seconds(lambda batch=batch: model.logits(batch), model.device, runs)
        num_bytes = model.weight_bytes + count * context * model.token_bytes
        share = num_bytes / logits / bandwidth
        results.append(
            {"rows": count, "step_ms": step * 1e3, "logits_ms": logits * 1e3, "bandwidth": share}
        )
        print(
            f"decode {count:4} rows  {step * 1e3:8.2f} ms, {logits * 1e3:8.2f} without sampling, "
            f"{count / step:9.0f} tokens/s, {share:5.1%} of copy bandwidth"
        )
    return results


def measure_prefill(model, lengths, runs):
    results = []
    for length in lengths:
        row = make_row(0, [i % 97 for i in range(length)], 0, blocks_of(0, length))
        seconds = least_seconds(lambda row=row: model.logits([row]), model.device, runs)
        results.append({"tokens": length, "ms": seconds * 1e3})
        print(
            f"prefill {length:5} tokens {seconds * 1e3:8.2f} ms, {length / seconds:9.0f} tokens/s"
        )
    return results


def workload(num_requests, most_tokens, vocabulary):
    """Prompts and numbers of output tokens, drawn in the order of nano-vllm's bench.py."""
    draw = random.Random(WORKLOAD_SEED)
    least = min(100, most_tokens)
    largest = min(10_000, vocabulary - 1)
    prompts = [
        [draw.randint(0, largest) for _ in range(draw.randint(least, most_tokens))]
        for _ in range(num_requests)
    ]
    return prompts, [draw.randint(least, most_tokens) for _ in range(num_requests)]


def run_workload(model, prompts, num_outputs):
    """All requests at once in a plain loop: without the scheduler, which shares out such memory."""
    tokens = [list(prompt) for prompt in prompts]
    ends = [len(prompt) + count for prompt, count in zip(prompts, num_outputs, strict=True)]
    first_blocks = [0]
    for end in ends:
        first_blocks.append(first_blocks[-1] + -(-end // BLOCK_SIZE))
    blocks = [range(*pair) for pair in itertools.pairwise(first_blocks)]
    computed = [0] * len(prompts)
    synchronize(model.device)
    begin = time.perf_counter()
    while live := [i for i, ids in enumerate(tokens) if len(ids) < ends[i]]:
        rows, budget = [], STEP_TOKENS
        for i in sorted(live, key=lambda i: len(tokens[i]) - computed[i] > 1):
            ids = tokens[i][computed[i] : computed[i] + budget]
            if ids:
                is_last = computed[i] + len(ids) == len(tokens[i])
                rows.append(make_row(i, ids, computed[i], blocks[i], 0.6, is_last))
                budget -= len(ids)
        for row, token_id in zip(rows, model.forward(rows), strict=True):
            computed[row.sequence_id] += len(row.token_ids)
            if token_id is not None:
                tokens[row.sequence_id].append(token_id)
    synchronize(model.device)
    return time.perf_counter() - begin


def run_transformers(shape, device, dtype, prompts, num_outputs):
    """The same workload by transformers' continuous batching, on random weights of the shape."""
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=4096,
        attn_implementation="sdpa",
    )
    with torch.device(device):
        model = LlamaForCausalLM(config).to(dtype).eval()
    settings = GenerationConfig(do_sample=True, temperature=0.6, eos_token_id=-1, pad_token_id=0)
    manager = model.init_continuous_batching(generation_config=settings)
    manager.start()
    try:
        begin = time.perf_counter()
        for prompt, count in zip(prompts, num_outputs, strict=True):
            manager.add_request(prompt, max_new_tokens=count)
        num_finished = num_tokens = 0
        while num_finished < len(prompts):
            result = manager.get_result(timeout=1)
            if result is None:
                if not manager.is_running():
                    raise RuntimeError("continuous batching ended early")
                if time.perf_counter() - begin > 180:
                    raise TimeoutError("continuous batching took more than 180 seconds")
            elif result.is_finished():
                num_finished += 1
                num_tokens += len(result.generated_tokens)
        seconds = time.perf_counter() - begin
    finally:
        manager.stop(block=True)
    if num_tokens != sum(num_outputs):
        raise RuntimeError(f"continuous batching made {num_tokens} of {sum(num_outputs)} tokens")
    return seconds


def measure_workload(model, dtype, num_requests, most_tokens):
    prompts, num_outputs = workload(num_requests, most_tokens, model.shape.vocabulary)
    total = sum(num_outputs)
    if num_requests == WORKLOAD_REQUESTS:
        assert total == WORKLOAD_OUTPUT_TOKENS, total
    results = {
        "output_tokens": total,
        "headrace_seconds": run_workload(model, prompts, num_outputs),
    }
    print(f"workload, {total} tokens: Headrace {total / results['headrace_seconds']:.0f} tokens/s")
    shape, device = model.shape, model.device
    model.cache = model.steps = model.decoder = None  # the rival needs the memory
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    try:
        seconds = run_transformers(shape, device, dtype, prompts, num_outputs)
    except Exception as error:
        results["transformers_error"] = f"{type(error).__name__}: {error}"
        print(f"workload: transformers could not be compared: {results['transformers_error']}")
    else:
        results["transformers_seconds"] = seconds
        ratio = seconds / results["headrace_seconds"]
        print(
            f"workload: transformers {total / seconds:.0f} tokens/s; Headrace {ratio:.2f} times it"
        )
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--quick", action="store_true", help="a smoke run on small sizes")
    parser.add_argument("--shape", choices=SHAPES, default="8b")
    parser.add_argument("--json", type=Path, default=None, help="where results are written")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    is_gpu = device.type == "cuda"
    if is_gpu and not torch.cuda.is_available():
        sys.exit(
            "This machine has no GPU that PyTorch can use; --device cpu --quick tries the script."
        )
    if not is_gpu and not arguments.quick:
        sys.exit("On a CPU only the smoke run makes sense; add --quick.")
    if is_gpu and not has_gpu_kernels(device, 128):
        sys.exit("The kernels need Triton and a GPU of compute capability 8.0 or newer.")
    quick = arguments.quick
    dtype = torch.bfloat16 if is_gpu else torch.float32
    shape = SHAPES["tiny" if quick else arguments.shape]
    results = {
        "device": torch.cuda.get_device_name() if is_gpu else "cpu",
        "torch": torch.__version__,
        "shape": dataclasses.asdict(shape),
        "sampler": "plain torch, for msgspec is missing" if sample is None else "own",
        "check": check(device, dtype, list(CHECKED)[: 2 if quick else None]),
    }
    results["copy_bandwidth"] = copy_bandwidth(device, (1 << 24) if quick else (4 << 30))
    print(f"copy bandwidth {results['copy_bandwidth'] / 1e9:.0f} GB/s")
    num_requests, most_tokens = (4, 8) if quick else (WORKLOAD_REQUESTS, 1024)
    context = 32 if quick else DECODE_CONTEXT
    rows = (1, 3) if quick else DECODE_ROWS
    num_blocks = max(
        num_requests * -(-2 * most_tokens // BLOCK_SIZE), rows[-1] * -(-(context + 1) // BLOCK_SIZE)
    )
    lengths = (16, 64) if quick else PREFILL_TOKENS
    num_blocks = max(num_blocks, lengths[-1] // BLOCK_SIZE)
    model = Model(shape, device, dtype, num_blocks, context=max(2048, lengths[-1]) + 1)
    model.record(max(rows[-1], num_requests), 2048)
    runs = 2 if quick else 10
    results["decode"] = measure_decode(model, rows, context, results["copy_bandwidth"], runs)
    results["prefill"] = measure_prefill(model, lengths, runs)
    if measure_overlap is None:
        print("overlap: not measured, for msgspec is missing")
    else:
        overlap_rows, num_tokens = (rows, 4) if quick else (OVERLAP_ROWS, OVERLAP_TOKENS)
        results["overlap"] = measure_overlap(model, overlap_rows, num_tokens)
    results["workload"] = measure_workload(model, dtype, num_requests, most_tokens)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")
    if not all(entry["passed"] for entry in results.get("overlap", [])):
        sys.exit("Overlapping steps give other answers than steps one after the other.")
    if not all(entry["passed"] for entry in results["check"]):
        sys.exit("The kernels are further from float32 than plain torch is; see the checks above.")


if __name__ == "__main__":
    main()
