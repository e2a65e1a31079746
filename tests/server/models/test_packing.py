"""Packed matrices: their products, and what quantization does to them."""

import pytest
import torch
from torch.nn import functional

from headrace_server.models.kernels.library import load_kernels
from headrace_server.models.packing import pack_fp16, pack_grouped
from headrace_server.models.quantization import quantize_int4, quantize_int8

pytestmark = pytest.mark.skipif(load_kernels() is None, reason="no compiled kernels here")

SHAPES = [(64, 64), (97, 32), (576, 1536), (33, 288), (16, 512)]


def packings(outputs, inputs):
    """A matrix in every format: as packed, and as the numbers that it stands for."""
    torch.manual_seed(outputs)
    weight = torch.randn(outputs, inputs).half().float()
    bias = torch.randn(outputs)
    int8, int4 = quantize_int8(weight), quantize_int4(weight)
    return bias, [
        (pack_fp16(weight, bias), weight),
        (pack_grouped(int8, bias), int8.dequantize()),
        (pack_grouped(int4, bias), int4.dequantize()),
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_product_is_that_of_the_dequantized_weights(shape):
    """Every format and number of rows gives x W + b to fp32's accuracy."""
    bias, packed = packings(*shape)
    for num_rows in (1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 64):
        x = torch.randn(num_rows, shape[1])
        for matrix, weight in packed:
            expected = functional.linear(x.double(), weight.double(), bias.double()).float()
            torch.testing.assert_close(matrix(x), expected, atol=2e-4, rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_row_is_the_same_to_the_bit_in_any_batch(shape):
    """The product of a row does not depend on how many rows there are, or which."""
    _, packed = packings(*shape)
    x = torch.randn(40, shape[1])
    for matrix, _ in packed:
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
    for matrix, _ in packed:
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
