"""The files of the simulated model."""

from pathlib import Path

from tokenizers import Tokenizer

from headrace_server.engine.simulated_model.build import build
from headrace_server.engine.simulated_runner import MODEL_DIRECTORY
from headrace_server.engine.simulated_vocabulary import SPECIAL_TOKENS, VOCABULARY_SIZE


def test_the_files_are_what_the_builder_writes():
    """Nobody has edited them by hand."""
    for name, content in build().items():
        assert (Path(MODEL_DIRECTORY) / name).read_text(encoding="utf-8") == content


def test_the_tokenizer_speaks_bytes():
    """The id of a byte is its value, and special tokens are single ids."""
    tokenizer = Tokenizer.from_file(str(MODEL_DIRECTORY / "tokenizer.json"))
    text = "Hé, 日本 🌊\n\0"

    assert tokenizer.encode(text).ids == list(text.encode())
    assert tokenizer.decode(list(text.encode())) == text
    assert tokenizer.encode("".join(SPECIAL_TOKENS)).ids == list(range(256, VOCABULARY_SIZE))
    assert tokenizer.get_vocab_size() == VOCABULARY_SIZE
