"""A quantised file and its copy in fp16."""

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize

from comparison.gguf_f16 import weight_type, write_f16


def write_quantised(path):
    """A file with two matrices in Q4_1, a vector in fp32, and metadata of several kinds."""
    writer = GGUFWriter(path, "llama")
    writer.add_file_type(3)
    writer.add_block_count(2)
    writer.add_token_list(["a", "b"])
    values = np.linspace(-1, 1, 64 * 32, dtype=np.float32).reshape(64, 32)
    for name in ("blk.0.ffn_up.weight", "blk.1.ffn_up.weight"):
        packed = quantize(values, GGMLQuantizationType.Q4_1)
        writer.add_tensor(name, packed, raw_dtype=GGMLQuantizationType.Q4_1)
    writer.add_tensor("output_norm.weight", np.ones(32, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_the_copy_has_the_values_and_the_metadata_of_the_source(tmp_path):
    """So that two servers with one file each run the same model."""
    source, target = tmp_path / "source.gguf", tmp_path / "target.gguf"
    write_quantised(source)
    write_f16(source, target)
    before, after = GGUFReader(source), GGUFReader(target)
    for old, new in zip(before.tensors, after.tensors, strict=True):
        assert (new.name, list(new.shape)) == (old.name, list(old.shape))
        expected = dequantize(old.data, old.tensor_type)
        np.testing.assert_allclose(new.data.astype(np.float32), expected, rtol=1e-3, atol=1e-4)
    assert [tensor.tensor_type.name for tensor in after.tensors] == ["F16", "F16", "F32"]
    assert after.get_field("llama.block_count").contents() == 2
    assert after.get_field("tokenizer.ggml.tokens").contents() == ["a", "b"]
    assert after.get_field("general.file_type").contents() == 1


def test_the_type_of_a_file_is_that_of_most_weights(tmp_path):
    """Vectors stay in fp32 in every file."""
    source, target = tmp_path / "source.gguf", tmp_path / "target.gguf"
    write_quantised(source)
    write_f16(source, target)
    assert (weight_type(source), weight_type(target)) == ("Q4_1", "F16")
