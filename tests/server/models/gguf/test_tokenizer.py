"""Tokenizers built from GGUF metadata."""

import gguf
import numpy as np
import pytest
from tokenizers import Tokenizer

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.models.gguf.metadata import GgufMetadata, open_gguf
from headrace_server.models.gguf.tokenizer import write_tokenizer


@pytest.fixture
def build(gguf_file, tmp_path):
    def build(table: dict) -> Tokenizer:
        file = gguf_file("llama")
        file.add_tokenizer(table)
        file.writer.add_tensor("x", np.zeros(1, np.float32))
        path = file.close()
        write_tokenizer(GgufMetadata(path, open_gguf(path)), 64, tmp_path)
        return Tokenizer.from_file(str(tmp_path / "tokenizer.json"))

    return build


@pytest.mark.parametrize(
    ("pre", "text", "expected"),
    [
        ("smollm", "1212 hello", ["1", "2", "1", "2", "Ġhello"]),
        ("gpt-2", "1212 hello", ["12", "12", "Ġhello"]),
        ("llama-bpe", "1212", ["12", "1", "2"]),  # digits in threes
        ("qwen2", "12", ["1", "2"]),
        ("tekken", "12", ["1", "2"]),
    ],
)
def test_text_is_cut_as_the_file_says(build, byte_level, pre, text, expected):
    """tokenizer.ggml.pre decides where merges may not reach."""
    assert build(byte_level | {"pre": pre}).encode(text).tokens == expected


@pytest.mark.parametrize("pre", ["smollm", "gpt-2", "llama-bpe", "qwen2", "tekken"])
def test_text_comes_back(build, byte_level, pre):
    """Any text is encoded and decoded without loss."""
    tokenizer = build(byte_level | {"pre": pre})
    text = "  hello, Wörld!\n\n\t12,345 it's 日本 😀  "
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_words_that_are_tokens_are_taken_whole(build, byte_level):
    """Llama 3's vocabulary holds words that no merge makes."""
    table = byte_level | {
        "tokens": [*byte_level["tokens"], "xyz"],
        "types": byte_level["types"] + [1],
    }
    assert build(table | {"pre": "llama-bpe"}).encode("xyz").tokens == ["xyz"]
    assert build(table | {"pre": "gpt-2"}).encode("xyz").tokens == ["x", "y", "z"]


def test_control_tokens_are_special_and_own_tokens_are_not(build, byte_level):
    """Both are found whole in the text; only control tokens vanish from decoded text."""
    tokenizer = build(byte_level)
    ids = tokenizer.encode("a<|end|><own token>b").ids
    assert [tokenizer.id_to_token(token_id) for token_id in ids] == [
        "a",
        "<|end|>",
        "<own token>",
        "b",
    ]
    assert tokenizer.decode(ids) == "a<own token>b"


@pytest.mark.parametrize(("pre", "begins"), [("smollm", False), ("llama-bpe", True)])
def test_bos_is_added_where_the_kind_of_tokenizer_does(build, byte_level, pre, begins):
    """Where the file says nothing of BOS, it depends on the kind; where it does, that counts."""
    table = byte_level | {"pre": pre, "bos": 0}
    assert (build(table).encode("a").tokens[0] == "<|end|>") == begins
    assert build(table | {"add_bos": True}).encode("a").tokens == ["<|end|>", "a"]
    assert build(table | {"add_bos": False}).encode("a").tokens == ["a"]


SENTENCEPIECE = {
    "model": "llama",
    "tokens": [
        "<unk>",
        "<s>",
        "</s>",
        *[f"<0x{byte:02X}>" for byte in range(256)],
        *"▁abcdehlorwHW,.1",
        *(
            "he",
            "ll",
            "llo",
            "hello",
            "▁hello",
            "lo",
            "▁w",
            "or",
            "▁wor",
            "ld",
            "▁world",
            "ab",
            "bc",
        ),
    ],
    "unk": 0,
    "bos": 1,
    "eos": 2,
}
SENTENCEPIECE["types"] = [2, 3, 3, *[6] * 256, *[1] * (len(SENTENCEPIECE["tokens"]) - 259)]
SENTENCEPIECE["scores"] = [0.0] * 259 + [
    -float(i) for i in range(len(SENTENCEPIECE["tokens"]) - 259)
]


def test_sentencepiece_merges_by_score_and_falls_back_to_bytes(build):
    """Better pieces are made first; unknown characters become their bytes."""
    tokenizer = build(SENTENCEPIECE)
    assert tokenizer.encode("hello world").tokens == ["<s>", "▁hello", "▁world"]
    assert tokenizer.encode("abc").tokens == ["<s>", "▁", "ab", "c"]
    assert tokenizer.encode("aé").tokens == ["<s>", "▁", "a", "<0xC3>", "<0xA9>"]
    text = "hello 日本, Hello  world."
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_sentencepiece_equals_transformers(build):
    """The tokenizer that transformers builds from the same tables gives the same ids."""
    from transformers.integrations.gguf import convert_gguf_tokenizer

    tokenizer = build(SENTENCEPIECE | {"add_bos": False})
    reference, _ = convert_gguf_tokenizer(
        "llama",
        {
            "tokenizer_type": "llama",
            "tokens": SENTENCEPIECE["tokens"],
            "scores": SENTENCEPIECE["scores"],
            "token_type": SENTENCEPIECE["types"],
        },
    )
    for text in ("hello world", "helloworld abc", "a  b", "日本 hello", "Hellow, world.1"):
        expected = reference.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text).ids == expected, text


def test_unknown_kinds_are_refused(build, byte_level):
    """A tokenizer that would cut text wrongly is refused by its name."""
    with pytest.raises(ModelLoadError, match=r"'deepseek-llm'.*not supported"):
        build(byte_level | {"pre": "deepseek-llm"})
    with pytest.raises(ModelLoadError, match="'default'"):
        build({key: value for key, value in byte_level.items() if key != "pre"})
    with pytest.raises(ModelLoadError, match="'bert'"):
        build(byte_level | {"model": "bert"})


def test_damaged_tables_are_refused(build, byte_level):
    """Merges of tokens that do not exist are an error of the file."""
    with pytest.raises(ModelLoadError, match="damaged"):
        build(byte_level | {"merges": ["q x"]})


def test_gguf_types_are_those_of_the_library():
    """The token types are numbered as in GGUF."""
    from headrace_server.models.gguf.tokenizer import _TokenType

    assert {kind.name: kind.value for kind in _TokenType} == {
        kind.name: kind.value for kind in gguf.TokenType if kind.name in _TokenType.__members__
    }
