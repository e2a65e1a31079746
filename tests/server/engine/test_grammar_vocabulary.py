"""Tokenizers of all kinds: tokens by their bytes, control tokens apart from text."""

import json
import random
import re

import pytest

from headrace_server.engine.constraints import GrammarCompiler
from headrace_server.engine.grammar_vocabulary import GrammarVocabulary, VocabularyError
from headrace_server.grammar.spec import (
    ChoicesConstraint,
    JsonSchemaConstraint,
    RegexConstraint,
)
from headrace_server.text.detokenizer import TokenDecoder
from tests.server.engine.following import accept_all, allowed, compiled, walk
from tests.server.text.tokenizer_files import (
    byte_level_tokenizer,
    sentencepiece_tokenizer,
    write_model,
)

TOKENIZERS = {
    "byte level": byte_level_tokenizer,
    "llama": lambda: sentencepiece_tokenizer("llama"),
    "mistral": lambda: sentencepiece_tokenizer("mistral"),
    "gemma": lambda: sentencepiece_tokenizer("gemma"),
}

SCHEMA = {
    "type": "object",
    "properties": {"the": {"type": "string", "maxLength": 20}, "é 🌊": {"type": "integer"}},
    "required": ["the", "é 🌊"],
    "additionalProperties": False,
}


@pytest.fixture(params=TOKENIZERS)
def tokenizer(request):
    return TOKENIZERS[request.param]()


@pytest.fixture
def compiler(tokenizer, tmp_path):
    write_model(tmp_path, tokenizer)
    vocabulary_size = tokenizer.get_vocab_size()
    with GrammarCompiler(lambda: GrammarVocabulary.load(tmp_path, vocabulary_size)) as compiler:
        yield compiler


def texts(compiler, tokenizer, spec):
    """What a caller would read of random outputs, behind a prompt."""
    prompt = tokenizer.encode("hello").ids
    for seed in range(5):
        token_ids = walk(compiled(compiler, spec), [], random.Random(seed))
        detokenizer = TokenDecoder(tokenizer).start(after=prompt)
        yield "".join([*map(detokenizer.feed, token_ids), detokenizer.flush()])


def test_the_text_that_callers_read_follows_the_constraint(compiler, tokenizer):
    """White space, characters of several bytes and texts of control tokens included."""
    for text in texts(compiler, tokenizer, JsonSchemaConstraint(json.dumps(SCHEMA))):
        assert json.loads(text).keys() == {"the", "é 🌊"}
    pattern = "( the|hello| world|é|🌊|\\n){3}"
    for text in texts(compiler, tokenizer, RegexConstraint(pattern)):
        assert re.fullmatch(pattern, text), text
    choices = (" the user", "</s> [INST]", "<|im_end|>né")
    for text in texts(compiler, tokenizer, ChoicesConstraint(choices)):
        assert text in choices


def test_no_control_token_is_text(compiler, tokenizer):
    """In a text of anything."""
    token_ids = allowed(compiled(compiler, RegexConstraint("(?s:.)*")))
    added = tokenizer.get_added_tokens_decoder()
    assert not {token_id for token_id in token_ids if token_id in added and added[token_id].special}


@pytest.mark.parametrize("added", ["<think>", "<a tool call>", "né"])
def test_an_added_token_that_looks_like_an_end_of_text_can_be_one(added, tmp_path):
    """It is allowed where the output may end alone, whatever the tokenizer calls it."""
    tokenizer = byte_level_tokenizer()
    write_model(tmp_path, tokenizer)
    end = tokenizer.token_to_id(added)
    size = tokenizer.get_vocab_size()
    with GrammarCompiler(lambda: GrammarVocabulary.load(tmp_path, size)) as compiler:
        spec = RegexConstraint("[ab]|[ab](?s:.)*!")
        state = compiled(compiler, spec, [end])
        assert end not in allowed(state)
        assert end in allowed(accept_all(state, tokenizer.encode("a").ids))
        assert end not in allowed(accept_all(state, tokenizer.encode("b").ids))
        assert end not in allowed(accept_all(compiled(compiler, spec), tokenizer.encode("a").ids))


@pytest.mark.parametrize("added", ["<think>", "<a tool call>", "né", "plain"])
def test_the_text_of_an_added_token_can_be_made_in_one_way_at_least(added, tmp_path):
    """Also where it is all that is left."""
    tokenizer = byte_level_tokenizer()
    tokenizer.add_tokens(["plain"])
    write_model(tmp_path, tokenizer)
    size = tokenizer.get_vocab_size()
    with GrammarCompiler(lambda: GrammarVocabulary.load(tmp_path, size)) as compiler:
        state = compiled(compiler, ChoicesConstraint((f"{added}!",)))
        assert tokenizer.decode(walk(state, [], random.Random(0))) == f"{added}!"


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"added_tokens": [], "model": {}}'])
def test_what_is_no_tokenizer_is_told(content, tmp_path):
    """Missing, broken, or without a token that is no text."""
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(VocabularyError, match=r"^The tokenizer of the model cannot be used"):
        GrammarVocabulary.load(tmp_path, 10)
