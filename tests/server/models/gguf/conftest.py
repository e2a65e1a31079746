"""Writes GGUF files the way llama.cpp's converter does."""

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

ALPHABET = [*map(chr, range(33, 127)), *map(chr, range(161, 173)), *map(chr, range(174, 256))]
ALPHABET += [chr(256 + index) for index in range(68)]  # the other bytes, as GPT-2 spells them

BYTE_LEVEL = {
    "model": "gpt2",
    "pre": "smollm",
    "tokens": ["<|end|>", "<own token>", *ALPHABET, "12", "he", "ll", "llo", "hello", "Ġhello"],
    "types": [3, 4, *[1] * 262],
    "merges": ["1 2", "h e", "l l", "ll o", "he llo", "Ġ hello"],
    "eos": 0,
}


class GgufFile:
    """A GGUF file to be: metadata and tensors."""

    def __init__(self, path: Path, architecture: str) -> None:
        self.path = path
        self.writer = gguf.GGUFWriter(path, architecture)
        self.architecture = architecture

    def add_shape(self, config) -> None:
        writer = self.writer
        writer.add_context_length(config.max_position_embeddings)
        writer.add_embedding_length(config.hidden_size)
        writer.add_block_count(config.num_hidden_layers)
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count(config.num_attention_heads)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_key_length(config.head_dim)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])

    def add_tokenizer(self, table: dict) -> None:
        writer = self.writer
        writer.add_tokenizer_model(table["model"])
        writer.add_token_list(table["tokens"])
        if "types" in table:
            writer.add_token_types(table["types"])
        if "pre" in table:
            writer.add_tokenizer_pre(table["pre"])
        if "merges" in table:
            writer.add_token_merges(table["merges"])
        if "scores" in table:
            writer.add_token_scores(table["scores"])
        if "eos" in table:
            writer.add_eos_token_id(table["eos"])
        if "bos" in table:
            writer.add_bos_token_id(table["bos"])
        if "unk" in table:
            writer.add_unk_token_id(table["unk"])
        if "add_bos" in table:
            writer.add_add_bos_token(table["add_bos"])

    def add_weights(self, model, type_of) -> None:
        """Add the weights of a transformers model, and round the model's own likewise."""
        architecture = next(a for a, n in gguf.MODEL_ARCH_NAMES.items() if n == self.architecture)
        names = gguf.get_tensor_name_map(architecture, model.config.num_hidden_layers)
        tied = model.config.tie_word_embeddings
        for name, parameter in model.named_parameters():
            if tied and name == "lm_head.weight":
                continue
            array = parameter.data.numpy()
            heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
            part = name.split(".")[-2]
            if self.architecture == "llama" and part in heads:
                array = self._join_pairs(array, getattr(model.config, heads[part]))
            quantization = type_of(name) if array.ndim == 2 else gguf.GGMLQuantizationType.F32
            data = gguf.quantize(array, quantization)
            self.writer.add_tensor(
                names.get_name(name, try_suffixes=(".weight", ".bias")),
                data,
                raw_dtype=quantization,
            )
            if array.ndim == 2:
                rounded = gguf.dequantize(
                    gguf.quantize(parameter.data.numpy(), quantization), quantization
                )
                parameter.data.copy_(
                    torch.from_numpy(rounded.astype(np.float16).astype(np.float32))
                )

    @staticmethod
    def _join_pairs(array, num_heads):
        halves = array.reshape(num_heads, 2, array.shape[0] // num_heads // 2, *array.shape[1:])
        return halves.swapaxes(1, 2).reshape(array.shape)

    def close(self) -> Path:
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()
        return self.path


@pytest.fixture
def gguf_file(tmp_path):
    """Begin a GGUF file of an architecture."""
    return lambda architecture: GgufFile(tmp_path / f"{architecture}.gguf", architecture)


@pytest.fixture
def byte_level():
    return BYTE_LEVEL
