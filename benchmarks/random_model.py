"""A decoder of random weights with a KV cache, without an engine around it."""

from dataclasses import dataclass

import torch

from headrace_server.engine.model_runner import BatchRow, RowOutput, RowSampling
from headrace_server.models.decoder import Decoder, Layer, Norm
from headrace_server.models.embedding import DenseEmbedding
from headrace_server.models.gpu import has_gpu_kernels
from headrace_server.models.kv_cache import KvCache, LayerCache
from headrace_server.models.linear import DenseLinear
from headrace_server.models.operations.reference import ReferenceOperations
from headrace_server.models.precision import Precision, WeightFormat
from headrace_server.models.step_inputs import build_step_inputs

try:
    from headrace_server.models.sampling.sampler import sample
except ImportError:  # it needs msgspec, which a machine lent for a measurement may lack
    sample = None

BLOCK_SIZE = 16


@dataclass(frozen=True)
class Shape:
    """A decoder of the Llama family."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    window: int | None = None


class Model:
    """A decoder of random weights with a KV cache, as kernels or in plain torch."""

    def __init__(self, shape, device, dtype, num_blocks, context=4096, plain=False):
        self.shape, self.device, self.num_blocks = shape, device, num_blocks
        generator = torch.Generator(device).manual_seed(0)

        def matrix(outputs, inputs):
            # Numbers that all formats hold exactly, so that formats differ by their sums alone.
            drawn = torch.randn(outputs, inputs, generator=generator, device=device)
            return drawn.mul_(inputs**-0.5).bfloat16().to(dtype)

        def norm(width):
            return Norm(torch.ones(width, device=device, dtype=dtype), 1e-5)

        query_width = shape.heads * shape.head_dim
        layers = [
            Layer(
                index=index,
                input_norm=norm(shape.hidden),
                qkv=DenseLinear(
                    matrix(query_width + 2 * shape.kv_heads * shape.head_dim, shape.hidden), None
                ),
                query_norm=None,
                key_norm=None,
                output=DenseLinear(matrix(shape.hidden, query_width), None),
                mlp_norm=norm(shape.hidden),
                gate_up=DenseLinear(matrix(2 * shape.intermediate, shape.hidden), None),
                down=DenseLinear(matrix(shape.hidden, shape.intermediate), None),
                window=shape.window,
            )
            for index in range(shape.layers)
        ]
        embedding = DenseEmbedding(matrix(shape.vocabulary, shape.hidden))
        kept = {"device": device, "dtype": dtype}
        blocks = (num_blocks, shape.kv_heads)
        self.cache = KvCache(
            tuple(
                LayerCache(
                    torch.zeros(*blocks, shape.head_dim, BLOCK_SIZE, **kept),
                    torch.zeros(*blocks, BLOCK_SIZE, shape.head_dim, **kept),
                )
                for _ in layers
            ),
            num_blocks,
            BLOCK_SIZE,
        )
        frequencies = 500_000.0 ** -(torch.arange(0, shape.head_dim, 2) / shape.head_dim)
        angles = (torch.arange(context)[:, None] * frequencies).to(device)
        rotations = torch.polar(torch.ones_like(angles), angles)
        if has_gpu_kernels(device, shape.head_dim) and not plain:
            from headrace_server.models.operations.fused_gpu import FusedGpuOperations

            operations = FusedGpuOperations(rotations)
        else:
            precision = Precision(device, dtype, dtype, WeightFormat.DENSE)
            operations = ReferenceOperations(rotations, {shape.window}, precision)
        head = DenseLinear(matrix(shape.vocabulary, shape.hidden), None)
        self.decoder = Decoder(embedding, layers, norm(shape.hidden), head, dtype, operations)
        self.steps = self.decoder
        per_layer = shape.hidden * (2 * query_width + 2 * shape.kv_heads * shape.head_dim)
        per_layer += 3 * shape.hidden * shape.intermediate
        weights = shape.layers * per_layer + shape.vocabulary * shape.hidden
        self.weight_bytes = weights * dtype.itemsize
        self.token_bytes = 2 * shape.layers * shape.kv_heads * shape.head_dim * dtype.itemsize

    def record(self, max_rows, context):
        """Have decode steps replayed from graphs from now on; does nothing in plain torch."""
        if not has_gpu_kernels(self.device, self.shape.head_dim):
            return
        from headrace_server.models.cuda_graphs import CudaRecorder, GraphedDecoder

        graphed = GraphedDecoder(self.decoder, self.cache, -(-context // BLOCK_SIZE), max_rows)
        graphed.record(CudaRecorder(), lambda phase, fraction=None: None)
        self.steps = graphed

    def logits(self, rows):
        with torch.inference_mode():
            step = build_step_inputs(rows, BLOCK_SIZE, self.device)
            return step, self.steps.logits(step, self.cache)

    def forward(self, rows):
        """Compute a step; return the chosen token of each row."""
        step, logits = self.logits(rows)
        chosen = [None] * len(rows)
        if step.samplings and sample is None:
            ids = torch.softmax(logits, dim=-1).multinomial(1).flatten().tolist()
            for index, token_id in zip(step.sampled_rows, ids, strict=True):
                chosen[index] = token_id
        elif step.samplings:
            with torch.inference_mode():
                outputs = sample(logits, step.samplings)
            for index, output in zip(step.sampled_rows, outputs, strict=True):
                assert isinstance(output, RowOutput), output
                chosen[index] = output.token_id
        return chosen


def make_row(index, tokens, start, blocks, temperature=0.0, sampled=True):
    sampling = RowSampling(
        position=start + len(tokens),
        temperature=temperature,
        top_k=None,
        top_p=1.0,
        min_p=0.0,
        seed=index,
        banned_token_ids=(),
    )
    return BatchRow(index, tokens, start, blocks, sampling if sampled else None)


def blocks_of(index, num_tokens):
    count = -(-num_tokens // BLOCK_SIZE)
    return range(index * count, (index + 1) * count)
