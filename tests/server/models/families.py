"""Tiny variants of the families, and steps that must give transformers' logits."""

import torch

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 32,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}

DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.2, 1.3],
    "long_factor": [1.0, 2.0, 3.0, 4.0],
    "original_max_position_embeddings": 64,
}
PARTIAL = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.75}
GRANITE = {
    "embedding_multiplier": 3.0,
    "attention_multiplier": 0.2,
    "residual_multiplier": 0.6,
    "logits_scaling": 4.0,
    "attention_bias": True,
}

# Those of the own decoder.
OWN_VARIANTS = {
    "llama": ("LlamaForCausalLM", {}),
    "llama-tied": ("LlamaForCausalLM", {"tie_word_embeddings": True}),
    "llama-biased": ("LlamaForCausalLM", {"attention_bias": True, "mlp_bias": True}),
    "llama-one-kv-head": ("LlamaForCausalLM", {"num_key_value_heads": 1}),
    "llama-all-kv-heads": ("LlamaForCausalLM", {"num_key_value_heads": 4}),
    "llama-llama3": ("LlamaForCausalLM", {"rope_parameters": LLAMA3}),
    "llama-linear": ("LlamaForCausalLM", {"rope_parameters": LINEAR}),
    "mistral": ("MistralForCausalLM", {"sliding_window": None, "head_dim": 16}),
    "mistral-window": ("MistralForCausalLM", {"sliding_window": 11}),
    "qwen2": ("Qwen2ForCausalLM", {"tie_word_embeddings": True}),
    "qwen2-yarn": ("Qwen2ForCausalLM", {"rope_parameters": YARN}),
    "qwen2-yarn-attention": (
        "Qwen2ForCausalLM",
        {"rope_parameters": YARN | {"attention_factor": 0.7, "beta_fast": 16, "beta_slow": 2}},
    ),
    "qwen2-window": (
        "Qwen2ForCausalLM",
        {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3ForCausalLM", {"head_dim": 16}),
    "qwen3-biased": ("Qwen3ForCausalLM", {"attention_bias": True, "rope_parameters": LLAMA3}),
    "smollm3": ("SmolLM3ForCausalLM", {"no_rope_layers": [1, 0, 1]}),
    "smollm3-window": (
        "SmolLM3ForCausalLM",
        {"use_sliding_window": True, "sliding_window": 9, "no_rope_layer_interval": 3},
    ),
    "phi3": ("Phi3ForCausalLM", {"sliding_window": 11}),
    "phi3-partial": (
        "Phi3ForCausalLM",
        {"rope_parameters": PARTIAL, "num_attention_heads": 2, "head_dim": 16},
    ),
    "granite": ("GraniteForCausalLM", GRANITE),
    "granite-tied": ("GraniteForCausalLM", GRANITE | {"tie_word_embeddings": True}),
}


# Those of the fallback.
FALLBACK_VARIANTS = {
    "gemma": ("GemmaForCausalLM", {}),
    "gemma2": ("Gemma2ForCausalLM", {"sliding_window": 11, "query_pre_attn_scalar": 20}),
    "gemma3": (
        "Gemma3ForCausalLM",
        {
            "sliding_window": 11,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "gpt2": ("GPT2LMHeadModel", {"n_inner": 48}),
    "olmo2": ("Olmo2ForCausalLM", {}),
    "gpt-neox": ("GPTNeoXForCausalLM", {}),
    "mixtral": ("MixtralForCausalLM", {"num_local_experts": 4, "sliding_window": 11}),
}

# Variants of the own decoder's families that it does not compute.
FALLBACK_VARIANTS_OF_OWN = {
    "llama-gelu": ("LlamaForCausalLM", {"hidden_act": "gelu"}),
    "llama-dynamic": ("LlamaForCausalLM", {"rope_parameters": DYNAMIC}),
    "phi3-longrope": (
        "Phi3ForCausalLM",
        {
            "rope_parameters": LONGROPE,
            "max_position_embeddings": 256,
            "original_max_position_embeddings": 64,
        },
    ),
}


def tokens_of(length: int, seed: int) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 97, (length,), generator=generator).tolist()


def reference(model, tokens):
    """The logits of transformers after each token."""
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0]


def assert_close(actual, expected, tolerance=1e-4):
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=0)


# Each number is how many tokens of a sequence a step computes.
PROMPT_LENGTHS = (41, 1, 23, 60, 9)
STEPS = (
    [41, 1, 5, 16, 1],
    [0, 0, 1, 20, 2],
    [0, 0, 1, 1, 1],
    [0, 0, 2, 1, 1],
    [0, 0, 14, 22, 4],
)


def assert_steps_equal_transformers(model, sequences, tolerance):
    """Whole prompts, chunks, decode steps and any mix of them give transformers' logits."""
    for layer in sequences.runner._cache.layers:  # what a row has not written must not reach it
        layer.keys.fill_(torch.nan)
        layer.values.fill_(torch.nan)
    prompts = [tokens_of(length, seed) for seed, length in enumerate(PROMPT_LENGTHS)]
    expected = [reference(model, prompt) for prompt in prompts]
    for prompt in prompts:
        sequences.add(prompt)
    for step in STEPS:
        rows = [sequences.row(index, count) for index, count in enumerate(step) if count]
        logits = sequences.logits(rows)
        for row, actual in zip(rows, logits, strict=True):
            last = sequences.num_computed[row.sequence_id] - 1
            assert_close(actual, expected[row.sequence_id][last], tolerance)
    assert tuple(sequences.num_computed) == PROMPT_LENGTHS
