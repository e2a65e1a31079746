"""Small model directories for tests: a byte-level one and those in the manner of SentencePiece."""

import json
from pathlib import Path

from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from headrace_server.backends.interface import BackendModel

CHATML = (
    "{% for message in messages %}"
    "{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""The template of the embedded default model, with a shorter system prompt."""

INST = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'].strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}"
    "{{ ' ' + message['content'].strip() + ' ' + eos_token }}"
    "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}"
    "{% endfor %}"
)
"""A template in the manner of Llama 2: it trims the contents and refuses system messages."""

CHATML_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
END_OF_TURN = "<|im_end|>"

_WORDS = ["Ġthe", "hello", "Ġworld", "ing", "user", "Ġ<", "im", "ĊĊ", "ðŁĮĬ", "Ã©"]


def byte_level_tokenizer() -> Tokenizer:
    """GPT-2's kind: every byte is a token, some words are, and some tokens are added."""
    vocabulary = {character: i for i, character in enumerate(sorted(_alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocabulary, _merges(_WORDS, vocabulary)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in CHATML_TOKENS])
    tokenizer.add_tokens([AddedToken("<think>"), AddedToken("<a tool call>"), AddedToken("né")])
    return tokenizer


def sentencepiece_tokenizer(kind: str) -> Tokenizer:
    """Llama's kind, with bytes for unknown characters.

    Args:
        kind: how white space is handled: ``llama`` puts a space before each section of
            a text and takes the first away again, ``mistral`` only before the first
            section, ``gemma`` none.
    """
    vocabulary = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for piece in [*(f"<0x{byte:02X}>" for byte in range(256)), *"▁abcdefghilmnorstuwyINST[]/é🌊"]:
        vocabulary[piece] = len(vocabulary)
    merges = _merges(["▁the", "▁hello", "▁world", "▁▁", "INST", "user"], vocabulary)
    model = models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if kind == "llama":
        prepend, replace = normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")
        tokenizer.normalizer = normalizers.Sequence([prepend, replace])
    elif kind == "mistral":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.decoder = decoders.Sequence(
        steps if kind == "gemma" else [*steps, decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def write_model(
    directory: Path,
    tokenizer: Tokenizer,
    *,
    chat_template: str | None = None,
    tokenizer_config: dict | None = None,
    generation_config: dict | None = None,
    context_length: int = 256,
) -> BackendModel:
    """Write the text files of a model, as a backend reports them."""
    tokenizer.save(str(directory / "tokenizer.json"))
    if chat_template is not None:
        (directory / "chat_template.jinja").write_text(chat_template, encoding="utf-8")
    if tokenizer_config is not None:
        (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    if generation_config is not None:
        (directory / "generation_config.json").write_text(json.dumps(generation_config))
    return BackendModel(directory, context_length, tokenizer.get_vocab_size())


def _alphabet() -> list[str]:
    return pre_tokenizers.ByteLevel.alphabet()


def _merges(words: list[str], vocabulary: dict[str, int]) -> list[tuple[str, str]]:
    """Return merges that build each word from left to right; their results join `vocabulary`."""
    merges = []
    for word in words:
        left = word[0]
        for right in word[1:]:
            if left + right not in vocabulary:
                vocabulary[left + right] = len(vocabulary)
                merges.append((left, right))
            left += right
    return merges
