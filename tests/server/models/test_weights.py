"""What a checkpoint's matrices become, with the blocks that they were made from and without."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.utils._python_dispatch import TorchDispatchMode

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.checkpoint import BLOCKS_SUFFIX
from headrace_server.models.config import read_config
from headrace_server.models.embedding import DenseEmbedding, TiedEmbedding
from headrace_server.models.kernels.library import load_kernels
from headrace_server.models.precision import choose_precision
from headrace_server.models.quantization import quantize_int4, quantize_int8
from headrace_server.models.weights import load_decoder

pytestmark = pytest.mark.skipif(load_kernels() is None, reason="no compiled kernels here")

CONTEXT_LENGTH = 128
QUANTIZE = {"q4": quantize_int4, "int8": quantize_int8}
FORMATS = ("fp16", "int8", "q4")
EMBEDDING = "model.embed_tokens.weight"


class MatrixReads(TorchDispatchMode):
    """Notes the shapes of the bf16 matrices whose numbers an operation reads."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not func.is_view:
            self.shapes += [
                tuple(one.shape)
                for one in torch.utils._pytree.tree_leaves(args)
                if isinstance(one, torch.Tensor) and one.dtype == torch.bfloat16 and one.dim() == 2
            ]
        return func(*args, **(kwargs or {}))


@pytest.fixture
def directory(tiny_model):
    """A model whose matrices are bf16, which nothing else in it is, and a head of its own."""
    _, directory = tiny_model("LlamaForCausalLM", tie_word_embeddings=False)
    save_matrices(directory, torch.bfloat16)
    return directory


def add_blocks(directory, quantization, width=None):
    """Write blocks of all matrices; of other weights, so that it shows where they are used."""
    blocks = {}
    for name, weight in load_file(directory / "model.safetensors").items():
        if weight.dim() == 2 and name != EMBEDDING:
            grouped = QUANTIZE[quantization](-weight[:width])
            blocks[f"{name}.numbers"] = grouped.numbers
            blocks[f"{name}.scales"] = grouped.scales
            if grouped.offsets is not None:
                blocks[f"{name}.offsets"] = grouped.offsets
    save_file(blocks, directory / f"quantized{BLOCKS_SUFFIX}")


def load(directory, quantization):
    precision = choose_precision("cpu", "auto", quantization)
    config = read_config(directory)
    return load_decoder(directory, config, CONTEXT_LENGTH, precision, lambda *_: None)


def save_matrices(directory, dtype):
    path = directory / "model.safetensors"
    tensors = load_file(path)
    save_file(
        {name: one.to(dtype) if one.dim() == 2 else one for name, one in tensors.items()}, path
    )


def head_of(directory, quantization):
    """The product of the head with a row of ones."""
    return load(directory, quantization).head(torch.ones(1, 32))


def refusal(directory, quantization):
    with pytest.raises(ModelLoadError) as caught:
        load(directory, quantization)
    return str(caught.value)


@pytest.mark.parametrize("quantization", ["int8", "q4"])
def test_a_matrix_with_blocks_is_not_read(directory, quantization):
    """Where the file has blocks of the wanted kind, only the embedding is read, once."""
    add_blocks(directory, quantization)
    with MatrixReads() as reads:
        load(directory, quantization)
    assert reads.shapes == [(97, 32)]


def test_matrices_without_blocks_are_read(directory):
    """Without blocks of the wanted kind the matrices are read: the test above can fail."""
    add_blocks(directory, "q4")
    for quantization in ("fp16", "int8"):
        with MatrixReads() as reads:
            load(directory, quantization)
        assert (32, 64) in reads.shapes


def test_blocks_take_the_place_of_their_matrix(directory):
    """Blocks of the wanted kind are multiplied with, and those of 8 bits in `q4` too."""
    plain = {quantization: head_of(directory, quantization) for quantization in FORMATS}
    for kind, users in (("int8", {"int8", "q4"}), ("q4", {"q4"})):
        add_blocks(directory, kind)
        for quantization in FORMATS:
            sign = -1 if quantization in users else 1
            difference = sign * head_of(directory, quantization) - plain[quantization]
            assert difference.abs().max() < 0.2 * plain[quantization].abs().max()


@pytest.mark.parametrize("quantization", FORMATS)
@pytest.mark.parametrize("has_blocks", [False, True])
def test_shapes_are_checked_with_blocks_and_without(directory, quantization, has_blocks):
    """A matrix of another shape than config.json says is refused, though blocks would serve."""
    if has_blocks:
        add_blocks(directory, "int8")
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"intermediate_size": 96}))
    expected = "The weight 'model.layers.0.mlp.gate_proj.weight' is bfloat16 [64, 32] where"
    assert expected in refusal(directory, quantization)


@pytest.mark.parametrize("quantization", ["int8", "q4"])
def test_blocks_of_another_shape_are_refused(directory, quantization):
    """Blocks that cannot be those of their weight are named, with the file to remove."""
    add_blocks(directory, quantization, width=16)
    message = refusal(directory, quantization)
    expected = "The blocks of the weight 'model.layers.0.self_attn.q_proj.weight' have a part"
    assert expected in message
    assert f"remove the files *{BLOCKS_SUFFIX} from {directory}" in message


@pytest.mark.parametrize("part", ["scales", "offsets"])
def test_blocks_with_too_few_scales_are_refused(directory, part):
    """The message says which shape the part has and which one it should have."""
    add_blocks(directory, "q4")
    path = directory / f"quantized{BLOCKS_SUFFIX}"
    save_file(
        {name: one[:16] if name.endswith(part) else one for name, one in load_file(path).items()},
        path,
    )
    assert "have a part float16 [16, 1] where config.json asks for [32, 1]" in refusal(
        directory, "q4"
    )


@pytest.mark.parametrize(
    ("dtype", "quantization", "kind"),
    [
        (torch.float16, "fp16", TiedEmbedding),
        (torch.float16, "q4", DenseEmbedding),
        (torch.bfloat16, "fp16", DenseEmbedding),
        (torch.float32, "fp16", DenseEmbedding),
    ],
    ids=str,
)
def test_a_tied_head_serves_as_embedding_where_it_has_the_same_digits(
    tiny_model, dtype, quantization, kind
):
    """The rows are those of the checkpoint to the bit, wherever they are looked up."""
    _, directory = tiny_model("LlamaForCausalLM", tie_word_embeddings=True)
    save_matrices(directory, dtype)
    embedding = load(directory, quantization).embedding
    expected = load_file(directory / "model.safetensors")[EMBEDDING]
    assert type(embedding) is kind
    assert len(embedding) == len(expected)
    token_ids = torch.tensor([96, 0, 1, 15, 16, 17, 96, 50])
    torch.testing.assert_close(embedding(token_ids), expected[token_ids], atol=0.0, rtol=0.0)


def test_a_head_of_its_own_is_no_embedding(directory):
    """Where the head is not tied, the embedding is a matrix of its own in every format."""
    save_matrices(directory, torch.float16)
    embedding = load(directory, "fp16").embedding
    expected = load_file(directory / "model.safetensors")[EMBEDDING]
    assert type(embedding) is DenseEmbedding
    assert torch.equal(embedding(torch.arange(97)), expected)
