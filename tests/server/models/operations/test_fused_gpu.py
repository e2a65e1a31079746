"""The operations in Triton against the ones in plain torch.

Without a GPU the kernels run in Triton's interpreter, which computes what they say but shows
neither their speed nor what a compiler makes of them.
"""

import dataclasses
import itertools
import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported
pytest.importorskip("triton", reason="Triton is not installed")

from headrace_server.engine.model_runner import BatchRow
from headrace_server.models.decoder import Layer, Norm
from headrace_server.models.kernels.triton import decode_attention
from headrace_server.models.kv_cache import KvCache, LayerCache
from headrace_server.models.linear import DenseLinear
from headrace_server.models.operations.fused_gpu import FusedGpuOperations, PagedStep
from headrace_server.models.operations.reference import ReferenceOperations
from headrace_server.models.precision import Precision, WeightFormat
from headrace_server.models.step_inputs import build_step_inputs

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
HIDDEN, INTERMEDIATE, NUM_BLOCKS, CONTEXT = 48, 72, 64, 1024
TOLERANCES = {torch.float32: 3e-5, torch.float16: 1e-2, torch.bfloat16: 8e-2}

# query heads, KV heads, head size, window, whether queries and keys are normalised, block size
SHAPES = {
    "one to one": (2, 2, 64, None, False, 16),
    "two to one": (4, 2, 80, None, True, 16),
    "three to one": (3, 1, 128, 21, False, 32),
    "four to one": (4, 1, 128, None, False, 16),
    "seven to one, normalised": (7, 1, 64, 70, True, 32),
    "eight to one": (8, 1, 64, None, False, 16),
    "small heads, odd blocks": (6, 2, 24, 5, False, 24),
}

SPANS = [(0, 1), (40, 1), (131, 1), (0, 5), (33, 9), (62, 3)]


@dataclasses.dataclass
class Model:
    """One layer, and a cache and the operations in both forms: kernels, and plain torch."""

    layer: Layer
    caches: tuple[KvCache, KvCache]
    operations: tuple[FusedGpuOperations, ReferenceOperations]


def make_model(name, dtype=torch.float32):
    heads, kv_heads, head_dim, window, is_normalised, block_size = SHAPES[name]
    torch.manual_seed(1)

    def random(*shape):
        return torch.randn(shape).to(DEVICE, dtype)

    def matrix(outputs, inputs, *, bias=False):
        return DenseLinear(random(outputs, inputs) / inputs**0.5, random(outputs) if bias else None)

    def norm(width):
        return Norm(random(width).abs() + 0.5, 1e-5)

    layer = Layer(
        index=0,
        input_norm=norm(HIDDEN),
        qkv=matrix((heads + 2 * kv_heads) * head_dim, HIDDEN, bias=True),
        query_norm=norm(head_dim) if is_normalised else None,
        key_norm=norm(head_dim) if is_normalised else None,
        output=matrix(HIDDEN, heads * head_dim, bias=True),
        mlp_norm=norm(HIDDEN),
        gate_up=matrix(2 * INTERMEDIATE, HIDDEN),
        down=matrix(HIDDEN, INTERMEDIATE),
        window=window,
    )
    keys = random(NUM_BLOCKS, kv_heads, head_dim, block_size)
    values = random(NUM_BLOCKS, kv_heads, block_size, head_dim)
    caches = tuple(
        KvCache((LayerCache(keys.clone(), values.clone()),), NUM_BLOCKS, block_size)
        for _ in range(2)
    )
    angles = torch.rand(CONTEXT, head_dim // 2, device=DEVICE) * 6
    rotations = torch.polar(torch.ones_like(angles), angles)
    precision = Precision(DEVICE, dtype, dtype, WeightFormat.DENSE)
    reference = ReferenceOperations(rotations, {window}, precision)
    return Model(layer, caches, (FusedGpuOperations(rotations), reference))


def step_of(spans, block_size):
    """A step of rows (start, tokens), whose blocks are in random order."""
    free = torch.randperm(NUM_BLOCKS, generator=torch.Generator().manual_seed(0)).tolist()
    rows = []
    for index, (start, num_tokens) in enumerate(spans):
        blocks = [free.pop() for _ in range(-(-(start + num_tokens) // block_size))]
        rows.append(BatchRow(index, [0] * num_tokens, start, blocks, None))
    return build_step_inputs(rows, block_size, DEVICE)


def hidden_of(step, dtype):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(len(step.slots), HIDDEN, generator=generator).to(DEVICE, dtype)


def run(model, form, step, hidden):
    """Compute the layer; return what attention gives and the hidden state in the end."""
    hidden, cache = hidden.clone(), model.caches[form]
    operations = model.operations[form].bind(step, cache)
    queries = operations.project_and_store(hidden, model.layer, cache.layers[0])
    attended = operations.attend(queries, model.layer, cache.layers[0]).clone()
    operations.add_projection_(hidden, attended, model.layer)
    operations.add_gated_mlp_(hidden, model.layer)
    return attended, hidden


def stored(model, form, step):
    """The keys and values that the step has stored."""
    cache = model.caches[form]
    blocks, offsets = step.slots // cache.block_size, step.slots % cache.block_size
    layer = cache.layers[0]
    return layer.keys[blocks, :, :, offsets], layer.values[blocks, :, offsets]


CASES = [(name, torch.float32) for name in SHAPES]
CASES += [("two to one", torch.float16)]
if (
    DEVICE.type == "cuda"
):  # the interpreter multiplies the bits of bfloat16 as if they were integers
    CASES += [(name, torch.bfloat16) for name in SHAPES]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_a_layer_equals_plain_torch(name, dtype):
    """Decode rows and parts of prompts give the same hidden state, keys and values."""
    model = make_model(name, dtype)
    step = step_of(SPANS, SHAPES[name][5])
    hidden = hidden_of(step, dtype)
    results = [(*run(model, form, step, hidden), *stored(model, form, step)) for form in (0, 1)]
    tolerance = TOLERANCES[dtype]
    for fused, reference in zip(*results, strict=True):
        torch.testing.assert_close(fused, reference, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("window", [None, 130, 700])
def test_long_contexts_are_put_together_from_splits(monkeypatch, window):
    """Contexts of one token, of one split, of some, and of more than there are splits for."""
    monkeypatch.setattr(decode_attention, "_MIN_SPLIT_TOKENS", 64)
    monkeypatch.setattr(decode_attention, "NUM_SPLITS", 4)
    model = make_model("two to one")
    model.layer = dataclasses.replace(model.layer, window=window)
    operations = (model.operations[0], make_reference(model, window))
    model.operations = operations
    step = step_of([(0, 1), (63, 1), (64, 1), (200, 1), (300, 1)], 16)
    hidden = hidden_of(step, torch.float32)
    results = [run(model, form, step, hidden) for form in (0, 1)]
    for fused, reference in zip(*results, strict=True):
        torch.testing.assert_close(fused, reference, atol=3e-5, rtol=3e-5)


def make_reference(model, window):
    turns = model.operations[0]._turns
    rotations = torch.view_as_complex(turns.view(CONTEXT, -1, 2).contiguous())
    precision = Precision(DEVICE, torch.float32, torch.float32, WeightFormat.DENSE)
    return ReferenceOperations(rotations, {window}, precision)


@pytest.mark.parametrize("name", ["two to one", "three to one"])
def test_what_an_earlier_owner_left_in_a_block_is_not_read(name):
    """NaN behind a sequence's own tokens does not reach it."""
    model = make_model(name)
    step = step_of([(0, 1), (0, 3), (0, 18)], SHAPES[name][5])
    hidden = hidden_of(step, torch.float32)
    expected = run(model, 0, step, hidden)
    for layer in model.caches[0].layers:
        layer.keys.fill_(torch.nan)
        layer.values.fill_(torch.nan)
    actual = run(model, 0, step, hidden)
    assert torch.equal(actual[0], expected[0])
    assert torch.equal(actual[1], expected[1])


@pytest.mark.parametrize("name", ["one to one", "three to one"])
def test_attention_is_the_same_however_a_prompt_is_cut(name):
    """A prompt in one step and in odd chunks: each token attends to its context in the same way."""
    block_size = SHAPES[name][5]
    model = make_model(name)
    heads, _, head_dim = SHAPES[name][:3]
    queries = torch.randn(150, heads * head_dim).to(DEVICE)
    blocks = list(range(-(-150 // block_size)))

    def attend(start, end):
        row = BatchRow(0, [0] * (end - start), start, blocks, None)
        step = build_step_inputs([row], block_size, DEVICE)
        bound = model.operations[0].bind(step, model.caches[0])
        return bound.attend(queries[start:end], model.layer, model.caches[0].layers[0])

    whole = attend(0, 150)
    cuts = [0, 7, 71, 73, 150]
    parts = torch.cat([attend(*cut) for cut in itertools.pairwise(cuts)])
    # The products of the interpreter round by the place of a row in its tile; a GPU's do not.
    tolerance = 0.0 if DEVICE.type == "cuda" else 1e-5
    torch.testing.assert_close(parts, whole, atol=tolerance, rtol=0.0)


def test_rows_that_pad_a_step_store_nothing_and_change_nothing():
    """A step with tokens of slot -1 and length 0 gives the others what they get without."""
    model = make_model("two to one")
    step = step_of([(20, 1), (37, 1)], 16)
    hidden = hidden_of(step, torch.float32)
    expected = run(model, 0, step, hidden)[1]
    before = [model.caches[0].layers[0].keys.clone(), model.caches[0].layers[0].values.clone()]
    bound = model.operations[0].bind(step, model.caches[0])._step
    padded = PagedStep(
        positions=torch.cat((bound.positions, bound.positions.new_zeros(2))),
        slots=torch.cat((bound.slots, bound.slots.new_full((2,), -1))),
        block_tables=torch.nn.functional.pad(bound.block_tables, (0, 5, 0, 2)),
        lengths=torch.nn.functional.pad(bound.lengths, (0, 2)),
        tiles=bound.tiles,
    )
    operations = model.operations[0].bind_paged(padded)
    layer, cache = model.layer, model.caches[0].layers[0]
    hidden = torch.cat((hidden, hidden))
    attended = operations.attend(operations.project_and_store(hidden, layer, cache), layer, cache)
    operations.add_projection_(hidden, attended, layer)
    operations.add_gated_mlp_(hidden, layer)
    torch.testing.assert_close(hidden[:2], expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(attended[2:], torch.zeros_like(attended[2:]))
    torch.testing.assert_close(cache.keys, before[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(cache.values, before[1], atol=1e-5, rtol=1e-5)


def test_the_head_takes_the_tokens_that_are_named():
    """Logits are those of the named tokens, in their order."""
    model = make_model("one to one")
    norm = Norm(torch.rand(HIDDEN, device=DEVICE) + 0.5, 1e-5)
    head = DenseLinear(torch.randn(100, HIDDEN).to(DEVICE), None)
    step = step_of([(0, 9)], 16)
    indices = torch.tensor([8, 0, 3], device=DEVICE)
    logits = [
        model.operations[form]
        .bind(step, model.caches[form])
        .head_logits(hidden_of(step, torch.float32), indices, norm, head)
        for form in (0, 1)
    ]
    torch.testing.assert_close(*logits, atol=2e-5, rtol=1e-5)
