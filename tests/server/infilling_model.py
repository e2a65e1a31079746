"""A tiny random model with the control tokens of StarCoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.server.text.tokenizer_files import byte_level_tokenizer, write_model

if TYPE_CHECKING:
    from pathlib import Path

CONTROL_TOKENS = ("<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>")


def write_infilling_model(directory: Path) -> Path:
    """Write a Llama of random weights that a server can load, and return its directory."""
    import torch
    import transformers

    torch.manual_seed(0)
    tokenizer = byte_level_tokenizer()
    tokenizer.add_special_tokens(list(CONTROL_TOKENS))
    write_model(directory, tokenizer)
    config = transformers.LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=None,
        eos_token_id=tokenizer.token_to_id("<|endoftext|>"),
        pad_token_id=None,
    )
    transformers.LlamaForCausalLM(config).eval().save_pretrained(directory)
    return directory
