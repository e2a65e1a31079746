"""GGUF metadata → tokenizer.json and tokenizer_config.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

from headrace_server.engine.model_runner import ModelLoadError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from headrace_server.models.gguf.metadata import GgufMetadata


class _TokenType(IntEnum):
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4


_LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_SPLIT = _LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")
_TEKKEN_SPLIT = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _gpt2() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _single_digits() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _gpt2()])


def _split_by(pattern: str) -> Callable[[], pre_tokenizers.PreTokenizer]:
    return lambda: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


@dataclass(frozen=True, slots=True)
class _ByteLevelKind:
    """How a byte-level vocabulary cuts text before it merges.

    Args:
        pre_tokenizer: makes the cut.
        takes_whole_words: a word that is a token is taken whole, whatever the merges say.
        normalizes: text is brought to NFC first.
        begins: a text begins with BOS where the file does not say.
    """

    pre_tokenizer: Callable[[], pre_tokenizers.PreTokenizer]
    takes_whole_words: bool = False
    normalizes: bool = False
    begins: bool = False


_GPT2 = _ByteLevelKind(_gpt2)
_SINGLE_DIGITS = _ByteLevelKind(_single_digits)
_LLAMA3 = _ByteLevelKind(_split_by(_LLAMA3_SPLIT), takes_whole_words=True, begins=True)
_QWEN2 = _ByteLevelKind(_split_by(_QWEN2_SPLIT), normalizes=True)
_TEKKEN = _ByteLevelKind(_split_by(_TEKKEN_SPLIT), takes_whole_words=True, begins=True)

# By `tokenizer.ggml.pre`, as llama.cpp reads it.
_BYTE_LEVEL_KINDS = {
    "gpt-2": _GPT2,
    "smollm": _SINGLE_DIGITS,
    "starcoder": _SINGLE_DIGITS,
    "refact": _SINGLE_DIGITS,
    "minerva-7b": _SINGLE_DIGITS,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "llama-bpe": _LLAMA3,
    "falcon3": _LLAMA3,
    "smaug-bpe": _ByteLevelKind(_split_by(_LLAMA3_SPLIT)),
    "qwen2": _QWEN2,
    "deepseek-r1-qwen": _ByteLevelKind(_split_by(_QWEN2_SPLIT)),
    "tekken": _TEKKEN,
}


def write_tokenizer(metadata: GgufMetadata, context_length: int, directory: Path) -> None:
    """Write tokenizer.json and tokenizer_config.json.

    Raises:
        ModelLoadError: the kind of tokenizer is not supported or its tables are damaged.
    """
    tokens = _strings(metadata.get("tokenizer.ggml.tokens", list))
    types = metadata.find("tokenizer.ggml.token_type", list) or []
    model = metadata.get("tokenizer.ggml.model", str)
    try:
        if model == "gpt2":
            tokenizer, begins = _byte_level(metadata, tokens)
        elif model == "llama":
            tokenizer, begins = _sentencepiece(metadata, tokens), True
        else:
            raise ModelLoadError(
                f"The tokenizer {model!r} is not supported in GGUF files; supported are gpt2 "
                "(byte-level BPE) and llama (SentencePiece BPE)."
            )
    except (TypeError, ValueError, KeyError) as error:
        raise ModelLoadError(f"The tokenizer of the GGUF file is damaged: {error}.") from error
    _add_whole_tokens(tokenizer, tokens, types)
    special = _special_tokens(metadata, tokens)
    add_bos = metadata.find("tokenizer.ggml.add_bos_token", bool)
    add_bos = begins if add_bos is None else add_bos
    add_eos = metadata.find("tokenizer.ggml.add_eos_token", bool) or False
    _frame(tokenizer, special["bos"] if add_bos else None, special["eos"] if add_eos else None)
    tokenizer.save(str(directory / "tokenizer.json"))
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context_length,
        "clean_up_tokenization_spaces": False,
        "add_bos_token": add_bos,
        "add_eos_token": add_eos,
    }
    config |= {f"{name}_token": token for name, token in special.items() if token is not None}
    (directory / "tokenizer_config.json").write_text(json.dumps(config, indent=2))


def _byte_level(metadata: GgufMetadata, tokens: list[str]) -> tuple[Tokenizer, bool]:
    """Return the tokenizer, and whether a text begins with BOS where the file does not say."""
    pre = metadata.find("tokenizer.ggml.pre", str) or "default"
    kind = _BYTE_LEVEL_KINDS.get(pre)
    if kind is None:
        raise ModelLoadError(
            f"The GGUF file cuts text by {pre!r}, which is not supported (supported are "
            f"{', '.join(_BYTE_LEVEL_KINDS)}); use the model directory it was made from."
        )
    vocabulary = _vocabulary(tokens)
    merges = []
    for merge in _strings(metadata.get("tokenizer.ggml.merges", list)):
        left, right = merge.split(" ", 1)
        if not {left, right, left + right} <= vocabulary.keys():
            raise ValueError(f"the merge {merge!r} is of unknown tokens")
        merges.append((left, right))
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=kind.takes_whole_words))
    tokenizer.pre_tokenizer = kind.pre_tokenizer()
    tokenizer.decoder = decoders.ByteLevel()
    if kind.normalizes:
        tokenizer.normalizer = normalizers.NFC()
    return tokenizer, kind.begins


def _sentencepiece(metadata: GgufMetadata, tokens: list[str]) -> Tokenizer:
    vocabulary = _vocabulary(tokens)
    scores = metadata.get("tokenizer.ggml.scores", list)
    unknown = metadata.find("tokenizer.ggml.unknown_token_id", int)
    tokenizer = Tokenizer(
        models.BPE(
            vocabulary,
            _implied_merges(vocabulary, scores),
            unk_token=None if unknown is None else tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    add_prefix = metadata.find("tokenizer.ggml.add_space_prefix", bool)
    add_prefix = True if add_prefix is None else add_prefix
    space = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = (
        normalizers.Sequence([normalizers.Prepend("▁"), space]) if add_prefix else space
    )
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if add_prefix:
        steps.append(decoders.Strip(" ", 1, 0))
    tokenizer.decoder = decoders.Sequence(steps)
    return tokenizer


def _implied_merges(vocabulary: dict[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """Return the merges that SentencePiece's scores stand for: the best piece is made first."""
    merges = []
    for piece, token_id in vocabulary.items():
        for cut in range(1, len(piece)):
            left, right = piece[:cut], piece[cut:]
            if left in vocabulary and right in vocabulary:
                merges.append((-scores[token_id], vocabulary[left], vocabulary[right], left, right))
    return [(left, right) for *_, left, right in sorted(merges)]


def _vocabulary(tokens: list[str]) -> dict[str, int]:
    # Of equal tokens the first is found; the others can be made by the model only.
    return {token: index for index, token in reversed(list(enumerate(tokens)))}


def _add_whole_tokens(tokenizer: Tokenizer, tokens: list[str], types: Sequence[int]) -> None:
    """Make tokens that are never cut: control tokens, which are special, and the user's own."""
    special, own = [], []
    for token, token_type in zip(tokens, types, strict=False):
        if not token:
            continue
        if token_type in (_TokenType.CONTROL, _TokenType.UNKNOWN):
            special.append(AddedToken(token, normalized=False, special=True))
        elif token_type == _TokenType.USER_DEFINED:
            own.append(AddedToken(token, normalized=False, special=False))
    tokenizer.add_special_tokens(special)
    tokenizer.add_tokens(own)


def _special_tokens(metadata: GgufMetadata, tokens: list[str]) -> dict[str, str | None]:
    special = {}
    for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding")):
        token_id = metadata.find(f"tokenizer.ggml.{key}_token_id", int)
        inside = token_id is not None and 0 <= token_id < len(tokens)
        special[name] = tokens[token_id] if token_id is not None and inside else None
    return special


def _frame(tokenizer: Tokenizer, first: str | None, last: str | None) -> None:
    """Let every text begin with `first` and end with `last`."""
    if first is None and last is None:
        return
    template = " ".join(part for part in (first, "$A", last) if part is not None)
    special = [
        (token, tokenizer.token_to_id(token)) for token in (first, last) if token is not None
    ]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=special
    )


def _strings(values: list[Any]) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise ModelLoadError("The tokenizer of the GGUF file is damaged: a token is not text.")
    return values
