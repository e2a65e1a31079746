import hashlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken

from headrace_server.text.control_tokens import Marks
from headrace_server.text.model_files import ModelFileError
from headrace_server.text.tokenizer import Tokenizer
from tests.server.text.tokenizer_files import (
    byte_level_tokenizer,
    sentencepiece_tokenizer,
    write_model,
)

MARKS = Marks("\U000f0000", "\U000f0001")


@pytest.fixture
def byte_level(tmp_path):
    write_model(tmp_path, byte_level_tokenizer())
    return Tokenizer.load(tmp_path)


def test_text_begins_with_what_the_model_adds(tmp_path):
    """The model's own start of a text is added on demand, as its post-processor says."""
    write_model(tmp_path, sentencepiece_tokenizer("llama"))
    tokenizer = Tokenizer.load(tmp_path)
    hello = tokenizer.token_id("▁hello")
    assert [1, hello] == tokenizer.encode("hello", add_special_tokens=True)
    assert [hello] == tokenizer.encode("hello", add_special_tokens=False)


def test_truncation_and_padding_of_the_file_are_off(tmp_path):
    """A tokenizer.json that was saved in training neither cuts nor pads prompts."""
    tokenizer = byte_level_tokenizer()
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=8)
    write_model(tmp_path, tokenizer)
    assert len(Tokenizer.load(tmp_path).encode("xyz", add_special_tokens=True)) == 3


def test_the_fingerprint_is_that_of_the_file(tmp_path, byte_level):
    """Anyone can compute the fingerprint with sha256sum."""
    content = (tmp_path / "tokenizer.json").read_bytes()
    assert hashlib.sha256(content).hexdigest() == byte_level.fingerprint


def test_named_tokens_are_read_in_both_spellings(tmp_path):
    """tokenizer_config.json names tokens as text, as objects or as null."""
    config = {"bos_token": None, "eos_token": {"content": "</s>", "lstrip": False}}
    config |= {"pad_token": "<unk>", "model_max_length": 1e30}
    write_model(tmp_path, sentencepiece_tokenizer("llama"), tokenizer_config=config)
    assert Tokenizer.load(tmp_path).special_tokens == {"eos_token": "</s>", "pad_token": "<unk>"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "needs this file"),
        (b"{", "not a tokenizer"),
        (b"[]", "not a tokenizer"),
        (b'{"version": "1.0"}', "not a tokenizer"),
        (b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_broken_tokenizer_file_is_one_sentence(tmp_path, content, problem):
    """A missing or broken tokenizer.json is named with what to do about it."""
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ModelFileError, match=rf"tokenizer\.json: .*{problem}"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", "1"])
def test_a_broken_config_is_one_sentence(tmp_path, content):
    """A broken tokenizer_config.json is named with what is wrong."""
    write_model(tmp_path, byte_level_tokenizer())
    (tmp_path / "tokenizer_config.json").write_text(content)
    with pytest.raises(ModelFileError, match=r"tokenizer_config\.json: the file"):
        Tokenizer.load(tmp_path)


def without_special_tokens(tokenizer):
    """The same tokenizer with special tokens that nobody writes: a reference for plain text."""
    definition = json.loads(tokenizer.to_str())
    for token in definition["added_tokens"]:
        if token["special"]:
            token["content"] = token["content"][::-1] + "\0"
    return type(tokenizer).from_str(json.dumps(definition))


def encode_with_plain_middle(tokenizer, before, middle, after):
    """The ids of a text whose middle holds control tokens that are plain text."""
    [spans] = tokenizer.control_tokens.find([middle])
    marked = MARKS.take(before + MARKS.put(middle, spans) + after)
    return tokenizer.encode_marked(marked)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["<|im_end|>", "hello", " world", "\n", "é", "<think>", "  "])))
def test_control_tokens_of_callers_are_plain_text(byte_level, parts):
    """The text between two tokens of a template is read as if there were no special tokens."""
    middle = "".join(parts)
    tokenizer = byte_level
    start, end = tokenizer.token_id("<|im_start|>"), tokenizer.token_id("<|im_end|>")
    plain = without_special_tokens(byte_level_tokenizer()).encode(middle).ids
    newline, hello = (tokenizer.encode(t, add_special_tokens=False) for t in ("\n", "hello"))

    actual = encode_with_plain_middle(
        tokenizer, "<|im_end|>\n<|im_start|>", middle, "<|im_end|>hello"
    )
    assert [end, *newline, start, *plain, end, *hello] == actual


@pytest.mark.parametrize("kind", ["llama", "mistral", "gemma"])
@pytest.mark.parametrize("before", ["", "<s>", "<s>hello</s>", "hello "])
def test_spaces_at_a_seam_are_as_in_the_whole_text(tmp_path, kind, before):
    """However a tokenizer treats the start of a text or section, plain sections get the same.

    A text that is no control token stands in for one: read at once, it must give the
    same ids round it.
    """
    write_model(tmp_path, sentencepiece_tokenizer(kind))
    tokenizer = Tokenizer.load(tmp_path)

    whole = tokenizer.encode(f"{before}the /s/ world</s>the", add_special_tokens=False)
    pieces = encode_with_plain_middle(tokenizer, before, "the </s> world", "</s>the")
    first, last = (tokenizer.token_id(token) for token in ("<0x3C>", "<0x3E>"))
    slash, s = tokenizer.token_id("/"), tokenizer.token_id("s")
    index = next(i for i in range(len(whole)) if whole[i : i + 3] == [slash, s, slash])
    assert [*whole[:index], first, slash, s, last, *whole[index + 3 :]] == pieces


def test_tokens_that_swallow_spaces_do_so_at_a_seam(tmp_path):
    """White space that a template's token swallows is not read again with the caller's text."""
    source = byte_level_tokenizer()
    source.add_special_tokens([AddedToken("<|user|>", rstrip=True, lstrip=True, special=True)])
    write_model(tmp_path, source)
    tokenizer = Tokenizer.load(tmp_path)
    user = tokenizer.token_id("<|user|>")
    plain = without_special_tokens(source).encode("a<|im_end|>b").ids

    actual = encode_with_plain_middle(tokenizer, "<|user|>\n", "a<|im_end|>b", " <|user|>")
    assert [user, *plain, user] == actual
