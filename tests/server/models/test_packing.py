"""Packed matrices: their products, and what quantization does to them."""

import pytest
import torch
from torch.nn import functional

from headrace_server.models.kernels import library
from headrace_server.models.kernels.build import build, usable_targets
from headrace_server.models.packing import pack_fp16, pack_grouped
from headrace_server.models.quantization import (
    GROUP_SIZE,
    GroupedWeights,
    quantize_int4,
    quantize_int8,
)

pytestmark = pytest.mark.skipif(library.load_kernels() is None, reason="no compiled kernels here")

SHAPES = [(64, 64), (97, 32), (576, 1536), (33, 288), (16, 512)]


@pytest.fixture(params=usable_targets(), autouse=True)
def kernels(request, monkeypatch):
    """The kernels of every instruction set that this CPU has, one after the other."""
    kernels = library.CpuKernels(build(request.param), request.param)
    monkeypatch.setattr(library, "load_kernels", lambda: kernels)


def rounded_inputs(x):
    """The inputs as matrices of 8 and 4 bits meet them: in 8 bits, by groups."""
    groups = x.view(len(x), -1, GROUP_SIZE)
    most = groups.abs().amax(-1, keepdim=True)
    numbers = (groups * (torch.tensor(127.0) / most)).round()
    return (numbers * (most / 127)).view(x.shape)


def packings(outputs, inputs):
    """A matrix in every format: as packed, the numbers that it stands for, and its inputs."""
    torch.manual_seed(outputs)
    weight = torch.randn(outputs, inputs).half().float()
    bias = torch.randn(outputs)
    int8, int4 = quantize_int8(weight), quantize_int4(weight)
    return bias, [
        (pack_fp16(weight, bias), weight, lambda x: x),
        (pack_grouped(int8, bias), int8.dequantize(), rounded_inputs),
        (pack_grouped(int4, bias), int4.dequantize(), rounded_inputs),
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_product_is_that_of_the_dequantized_weights(shape):
    """Every format and number of rows gives x W + b of what it keeps to fp32's accuracy."""
    bias, packed = packings(*shape)
    for num_rows in (1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 17, 64):
        x = torch.randn(num_rows, shape[1])
        for matrix, weight, inputs in packed:
            terms = (inputs(x).double(), weight.double(), bias.double())
            expected = functional.linear(*terms).float()
            torch.testing.assert_close(matrix(x), expected, atol=2e-4, rtol=1e-5)


def test_the_largest_numbers_do_not_overflow():
    """Weights and inputs at the ends of their ranges give the exact sum."""
    inputs = 64
    x = torch.full((3, inputs), 127.0)
    x[1] = -127.0
    x[2, ::2] = -127.0
    for sign in (1.0, -1.0):
        numbers = torch.full((16, inputs), sign * 127.0)
        assert torch.equal(pack_grouped(quantize_int8(numbers), None)(x), x @ numbers.T)
    blocks = GroupedWeights(
        numbers=torch.full((16, inputs), 15, dtype=torch.uint8),
        scales=torch.ones(16, 2, dtype=torch.float16),
        offsets=torch.zeros(16, 2, dtype=torch.float16),
    )
    assert torch.equal(pack_grouped(blocks, None)(x), x @ blocks.dequantize().T)
    lowest = GroupedWeights(
        numbers=torch.full((16, inputs), -128, dtype=torch.int8),
        scales=torch.ones(16, 2, dtype=torch.float16),
        offsets=None,
    )
    assert torch.equal(pack_grouped(lowest, None)(x), x @ lowest.dequantize().T)


def test_inputs_of_next_to_nothing_give_next_to_nothing():
    """The smallest numbers of all do not turn into infinities on their way to 8 bits."""
    _, packed = packings(64, 64)
    x = torch.zeros(3, 64)
    x[1], x[2] = 1e-38, 1e-42
    for matrix, _, _ in packed:
        assert torch.equal(matrix(x), matrix(torch.zeros(3, 64)))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_row_is_the_same_to_the_bit_in_any_batch(shape):
    """The product of a row does not depend on how many rows there are, or which."""
    _, packed = packings(*shape)
    x = torch.randn(40, shape[1])
    for matrix, _, _ in packed:
        together = matrix(x)
        for first, end in ((0, 1), (3, 5), (7, 10), (9, 13), (20, 25), (1, 40)):
            assert torch.equal(matrix(x[first:end]), together[first:end])


def test_nan_stays_in_its_row():
    """A row of NaN, or of infinities, does not reach its neighbours."""
    _, packed = packings(64, 64)
    x = torch.randn(9, 64)
    spoilt = x.clone()
    spoilt[4], spoilt[6] = torch.nan, torch.inf
    kept = [0, 1, 2, 3, 5, 7, 8]
    for matrix, _, _ in packed:
        product = matrix(spoilt)
        assert torch.equal(product[kept], matrix(x)[kept])
        assert product[4].isnan().all()


@pytest.mark.parametrize(("quantize", "levels"), [(quantize_int8, 254), (quantize_int4, 15)])
def test_quantization_is_off_by_half_a_step_at_most(quantize, levels):
    """A weight moves by no more than half of what its group's range and the bits allow."""
    torch.manual_seed(0)
    weight = torch.randn(48, 96) * torch.rand(48, 1) * 10
    groups = weight.view(48, 3, 32)
    span = groups.amax(-1) - groups.amin(-1) if levels == 15 else 2 * groups.abs().amax(-1)
    error = (quantize(weight).dequantize() - weight).view(48, 3, 32).abs().amax(-1)
    # Scales are rounded to fp16 too.
    assert (error <= span / levels * 0.51 + groups.abs().amax(-1) * 2**-10).all()


@pytest.mark.parametrize("quantize", [quantize_int8, quantize_int4])
def test_constant_groups_survive(quantize):
    """Zeros stay zeros, and a group of one number keeps it."""
    weight = torch.zeros(16, 64)
    weight[3, :32] = 0.75
    torch.testing.assert_close(quantize(weight).dequantize(), weight, atol=2e-3, rtol=0)
    assert (quantize(weight).dequantize()[0] == 0).all()
