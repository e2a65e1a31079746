"""The compiled operations against the ones in plain torch."""

import dataclasses

import pytest
import torch

from headrace_server.engine.model_runner import BatchRow
from headrace_server.models.decoder import Layer, Norm
from headrace_server.models.kernels.build import build, usable_targets
from headrace_server.models.kernels.library import CpuKernels, load_kernels
from headrace_server.models.kv_cache import KvCache, LayerCache
from headrace_server.models.linear import DenseLinear
from headrace_server.models.operations.fused_cpu import FusedCpuOperations
from headrace_server.models.operations.reference import ReferenceOperations
from headrace_server.models.packing import pack_fp16, pack_grouped
from headrace_server.models.precision import Precision, WeightFormat
from headrace_server.models.quantization import quantize_int4, quantize_int8
from headrace_server.models.step_inputs import build_step_inputs

pytestmark = pytest.mark.skipif(load_kernels() is None, reason="no compiled kernels here")

HIDDEN, INTERMEDIATE, NUM_BLOCKS, CONTEXT = 64, 96, 80, 512
PRECISION = Precision(torch.device("cpu"), torch.float32, torch.float32, WeightFormat.DENSE)

# query heads, KV heads, head size, window, whether queries and keys are normalised, block size
SHAPES = {
    "grouped": (6, 2, 16, None, False, 16),
    "single": (4, 4, 8, None, False, 8),
    "normalised": (8, 2, 32, None, True, 16),
    "window": (3, 1, 64, 21, False, 16),
    "many shared": (12, 1, 24, 7, True, 24),
    "more shared than registers": (16, 1, 40, 33, False, 32),
}

# how a matrix is packed, and the numbers that it then stands for
FORMATS = {
    "fp16": (pack_fp16, lambda weight: weight),
    "int8": (
        lambda weight, bias: pack_grouped(quantize_int8(weight), bias),
        lambda weight: quantize_int8(weight).dequantize(),
    ),
    "int4": (
        lambda weight, bias: pack_grouped(quantize_int4(weight), bias),
        lambda weight: quantize_int4(weight).dequantize(),
    ),
}


@pytest.fixture(params=usable_targets())
def kernels(request):
    """The kernels of every instruction set that this CPU has, one after the other."""
    return CpuKernels(build(request.param), request.param)


@dataclasses.dataclass
class Both:
    """A layer in both forms, and a cache for each."""

    layers: tuple[Layer, Layer]
    caches: tuple[KvCache, KvCache]
    operations: tuple[FusedCpuOperations, ReferenceOperations]


def make_both(
    kernels, name, dtype=torch.float32, packing="fp16", num_blocks=NUM_BLOCKS, context=CONTEXT
):
    pack, kept = FORMATS[packing]
    heads, kv_heads, head_dim, window, is_normalised, block_size = SHAPES[name]
    torch.manual_seed(1)

    def matrix(outputs, inputs):
        weight = (torch.randn(outputs, inputs) / inputs**0.5).half().float()
        bias = torch.randn(outputs) * 0.1
        return pack(weight, bias), DenseLinear(kept(weight), bias)

    qkv = matrix((heads + 2 * kv_heads) * head_dim, HIDDEN)
    output = matrix(HIDDEN, heads * head_dim)
    gate_up = matrix(2 * INTERMEDIATE, HIDDEN)
    down = matrix(HIDDEN, INTERMEDIATE)
    norms = [Norm(torch.rand(width) + 0.5, 1e-5) for width in (HIDDEN, head_dim, head_dim, HIDDEN)]
    layers = tuple(
        Layer(
            index=0,
            input_norm=norms[0],
            qkv=qkv[form],
            query_norm=norms[1] if is_normalised else None,
            key_norm=norms[2] if is_normalised else None,
            output=output[form],
            mlp_norm=norms[3],
            gate_up=gate_up[form],
            down=down[form],
            window=window,
        )
        for form in (0, 1)
    )
    keys = torch.randn(num_blocks, kv_heads, head_dim, block_size).to(dtype)
    values = torch.randn(num_blocks, kv_heads, block_size, head_dim).to(dtype)
    caches = tuple(
        KvCache((LayerCache(keys.clone(), values.clone()),), num_blocks, block_size)
        for _ in range(2)
    )
    angles = torch.rand(context, head_dim // 2) * 6
    rotations = torch.polar(torch.ones_like(angles), angles)
    operations = (
        FusedCpuOperations(kernels, layers[:1], rotations),
        ReferenceOperations(rotations, {window}, PRECISION),
    )
    return Both(layers, caches, operations)


def step_of(spans, block_size, num_blocks=NUM_BLOCKS):
    """A step of rows (start, tokens), whose blocks are in random order."""
    free = torch.randperm(num_blocks, generator=torch.Generator().manual_seed(0)).tolist()
    rows = []
    for index, (start, num_tokens) in enumerate(spans):
        blocks = [free.pop() for _ in range(-(-(start + num_tokens) // block_size))]
        rows.append(BatchRow(index, [0] * num_tokens, start, blocks, None))
    return build_step_inputs(rows, block_size, torch.device("cpu"))


def run(both, form, step, hidden):
    """Compute one layer; return the hidden state, after attention and in the end."""
    hidden = hidden.clone()
    layer, cache = both.layers[form], both.caches[form]
    operations = both.operations[form].bind(step, cache)
    queries = operations.project_and_store(hidden, layer, cache.layers[0])
    attended = operations.attend(queries, layer, cache.layers[0]).clone()
    operations.add_projection_(hidden, attended, layer)
    operations.add_gated_mlp_(hidden, layer)
    return attended, hidden


SPANS = [(0, 1), (40, 1), (41, 1), (100, 1), (15, 1), (16, 1), (0, 70), (33, 9), (48, 17), (7, 2)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_a_layer_equals_plain_torch(kernels, name, dtype):
    """Decode rows and parts of prompts give the same hidden state, keys and values."""
    both = make_both(kernels, name, dtype)
    block_size = SHAPES[name][5]
    step = step_of(SPANS, block_size)
    hidden = torch.randn(len(step.slots), HIDDEN)
    # The reference zeroes blocks that are begun, so only what the step has stored is compared.
    blocks, offsets = step.slots // block_size, step.slots % block_size
    results = [run(both, form, step, hidden) for form in (0, 1)]
    tolerance = 2e-5 if dtype == torch.float32 else 2e-2
    for fused, reference in zip(*results, strict=True):
        torch.testing.assert_close(fused, reference, atol=tolerance, rtol=tolerance)
    for fused, reference in zip(both.caches[0].layers, both.caches[1].layers, strict=True):
        stored = [cache.keys[blocks, :, :, offsets] for cache in (fused, reference)]
        torch.testing.assert_close(*stored, atol=tolerance, rtol=tolerance)
        stored = [cache.values[blocks, :, offsets] for cache in (fused, reference)]
        torch.testing.assert_close(*stored, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("name", ["single", "window"])
def test_long_contexts_equal_plain_torch(kernels, name):
    """A context of many blocks, of which a window may see the last ones alone."""
    block_size, num_tokens = SHAPES[name][5], 8192
    num_blocks = 3 * num_tokens // block_size
    sizes = {"num_blocks": num_blocks, "context": num_tokens}
    both = make_both(kernels, name, torch.float16, **sizes)
    spans = [(num_tokens - 1, 1), (num_tokens - 21, 21), (1023, 2)]
    step = step_of(spans, block_size, num_blocks)
    hidden = torch.randn(len(step.slots), HIDDEN)
    results = [run(both, form, step, hidden) for form in (0, 1)]
    for fused, reference in zip(*results, strict=True):
        torch.testing.assert_close(fused, reference, atol=2e-3, rtol=2e-3)


@pytest.mark.parametrize("packing", ["int8", "int4"])
def test_a_layer_of_bytes_is_near_plain_torch(kernels, packing):
    """Inputs that are rounded to 8 bits move the hidden state by about a hundredth of its size."""
    both = make_both(kernels, "grouped", packing=packing)
    step = step_of(SPANS, SHAPES["grouped"][5])
    hidden = torch.randn(len(step.slots), HIDDEN)
    results = [run(both, form, step, hidden) for form in (0, 1)]
    for fused, reference in zip(*results, strict=True):
        assert 0 < (fused - reference).norm() < 0.02 * reference.norm()


@pytest.mark.parametrize(
    ("name", "packing"),
    [*((name, "fp16") for name in SHAPES), ("grouped", "int8"), ("grouped", "int4")],
)
def test_a_token_is_the_same_to_the_bit_alone_and_in_any_batch(kernels, name, packing):
    """A row alone, token by token, gives what it gives as a part of a large step."""
    block_size = SHAPES[name][5]
    together = make_both(kernels, name, torch.float16, packing)
    step = step_of(SPANS, block_size)
    hidden = torch.randn(len(step.slots), HIDDEN)
    _, expected = run(together, 0, step, hidden)
    first = 0
    for row in step.rows:
        alone = make_both(kernels, name, torch.float16, packing)
        for offset in range(len(row.token_ids)):
            token = dataclasses.replace(row, token_ids=[0], start=row.start + offset)
            single = build_step_inputs([token], block_size, torch.device("cpu"))
            place = first + offset
            _, actual = run(alone, 0, single, hidden[place : place + 1])
            assert torch.equal(actual[0], expected[place])
        first += len(row.token_ids)


def test_what_an_earlier_owner_left_in_a_block_is_not_read(kernels):
    """NaN behind a sequence's own tokens does not reach it."""
    both = make_both(kernels, "grouped")
    step = step_of([(0, 5), (0, 1), (0, 19)], 16)
    hidden = torch.randn(len(step.slots), HIDDEN)
    _, expected = run(both, 0, step, hidden)
    for layer in both.caches[0].layers:
        layer.keys.fill_(torch.nan)
        layer.values.fill_(torch.nan)
    _, actual = run(both, 0, step, hidden)
    assert torch.equal(actual, expected)


def test_the_head_takes_the_tokens_that_are_named(kernels):
    """Logits are those of the named tokens, in their order."""
    both = make_both(kernels, "grouped")
    torch.manual_seed(2)
    norm = Norm(torch.rand(HIDDEN) + 0.5, 1e-5)
    weight = torch.randn(100, HIDDEN).half().float()
    step = step_of([(0, 9)], 16)
    hidden, indices = torch.randn(9, HIDDEN), torch.tensor([8, 0, 3])
    logits = [
        both.operations[form].bind(step, both.caches[form]).head_logits(hidden, indices, norm, head)
        for form, head in enumerate((pack_fp16(weight, None), DenseLinear(weight, None)))
    ]
    torch.testing.assert_close(*logits, atol=2e-5, rtol=1e-5)
