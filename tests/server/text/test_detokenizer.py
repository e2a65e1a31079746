import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models

from headrace_server.text.detokenizer import CONTEXT_TOKENS, MAX_HELD_TOKENS, TokenDecoder
from tests.server.text.tokenizer_files import (
    CHATML_TOKENS,
    byte_level_tokenizer,
    sentencepiece_tokenizer,
)

BYTE_LEVEL = byte_level_tokenizer()
LLAMA = sentencepiece_tokenizer("llama")
GEMMA = sentencepiece_tokenizer("gemma")
UNKNOWN_IDS = [-1, -(2**31), 10_000, 2**31 - 1]


def word_piece_tokenizer(decoder):
    """A tokenizer whose text depends on the neighbours of a token."""
    words = ["[UNK]", "he", "##llo", "world", "##s", ".", "'", "|", "do", "n't", "é", "##🌊"]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}))
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens([AddedToken("[SEP]", special=True)])
    return tokenizer


WORD_PIECE = word_piece_tokenizer(decoders.WordPiece(prefix="##", cleanup=True))
NO_DECODER = Tokenizer(models.WordLevel({"a": 0, "b": 1, "é": 2}, unk_token="a"))
METASPACE = sentencepiece_tokenizer("gemma")
METASPACE.decoder = decoders.Metaspace()


def ids_of(tokenizer):
    return st.lists(st.integers(0, tokenizer.get_vocab_size() - 1), max_size=24)


def detokenize(decoder, token_ids, *, after=(), show_special=False):
    detokenizer = decoder.start(after)
    pieces = [detokenizer.feed(i, show_special=show_special) for i in token_ids]
    return "".join([*pieces, detokenizer.flush()])


@pytest.mark.parametrize("tokenizer", [BYTE_LEVEL, WORD_PIECE, NO_DECODER, METASPACE])
@given(data=st.data(), show_special=st.booleans())
def test_any_tokens_give_what_the_tokenizer_decodes_at_once(tokenizer, data, show_special):
    """Random tokens, half characters and all, come out as from `Tokenizer.decode`."""
    token_ids = data.draw(ids_of(tokenizer))
    expected = tokenizer.decode(token_ids, skip_special_tokens=not show_special)
    actual = detokenize(TokenDecoder(tokenizer), token_ids, show_special=show_special)
    assert expected == actual


@pytest.mark.parametrize("tokenizer", [LLAMA, GEMMA])
@given(data=st.data(), show_special=st.booleans())
def test_whole_characters_in_byte_tokens_are_decoded(tokenizer, data, show_special):
    """With byte fallback, words and characters in bytes come out as from `Tokenizer.decode`."""
    byte_tokens = st.characters(exclude_categories=["Cs"]).map(
        lambda c: [tokenizer.token_to_id(f"<0x{byte:02X}>") for byte in c.encode()]
    )
    words = st.integers(259, tokenizer.get_vocab_size() - 1).map(lambda i: [i])
    special = st.integers(0, 2).map(lambda i: [i])
    parts = data.draw(st.lists(st.one_of(byte_tokens, words, special), max_size=12))
    token_ids = [i for part in parts for i in part]

    expected = tokenizer.decode(token_ids, skip_special_tokens=not show_special)
    actual = detokenize(TokenDecoder(tokenizer), token_ids, show_special=show_special)
    assert expected == actual


@given(st.binary(max_size=24))
def test_byte_tokens_are_utf8_with_replacement(content):
    """Stray bytes become U+FFFD as in any text, and take nothing back that was sent."""
    token_ids = [LLAMA.token_to_id(f"<0x{byte:02X}>") for byte in content]
    expected = content.decode("utf-8", "replace")
    assert expected == detokenize(TokenDecoder(LLAMA), token_ids, after=[1])


@given(ids_of(BYTE_LEVEL))
@example([BYTE_LEVEL.token_to_id(token) for token in ("í", "¡", "¢")])
def test_text_comes_as_soon_as_its_last_byte(token_ids):
    """No whole character is held back, and no part of one is sent."""
    detokenizer = TokenDecoder(BYTE_LEVEL).start()
    text = ""
    for end, token_id in enumerate(token_ids, 1):
        text += detokenizer.feed(token_id)
        whole = BYTE_LEVEL.decode(token_ids[:end])
        held = whole.removeprefix(text)
        assert text + held == whole
        assert held in ("", "\ufffd", "\ufffd\ufffd")
        if held == "\ufffd\ufffd":
            # Python waits for the third byte of a surrogate, although that is no character.
            tokens = map(BYTE_LEVEL.id_to_token, token_ids[:end])
            *_, first_byte, _ = [token for token in tokens if token not in CHATML_TOKENS]
            assert first_byte.endswith("í")  # stands for 0xED


def test_the_end_flushes_a_partial_character():
    """A character that never becomes complete is one U+FFFD at the end."""
    detokenizer = TokenDecoder(BYTE_LEVEL).start()
    first_byte = BYTE_LEVEL.encode("🐟").ids[0]
    assert [
        detokenizer.feed(first_byte),
        detokenizer.flush(),
        detokenizer.flush(),
    ] == ["", "\ufffd", ""]


@pytest.mark.parametrize("tokenizer", [BYTE_LEVEL, LLAMA, WORD_PIECE, NO_DECODER])
def test_unknown_ids_have_no_text(tokenizer):
    """An id outside the vocabulary, even a negative one, is silent and harmless."""
    known = tokenizer.get_vocab_size() - 2
    alone = detokenize(TokenDecoder(tokenizer), [known])
    assert alone == detokenize(TokenDecoder(tokenizer), [*UNKNOWN_IDS, known, *UNKNOWN_IDS])


def test_a_continuation_keeps_its_leading_space():
    """The start of a text loses its first space, the continuation of a prompt does not."""
    decoder = TokenDecoder(LLAMA)
    token_ids = [LLAMA.token_to_id("▁hello")]
    assert detokenize(decoder, token_ids) == "hello"
    assert detokenize(decoder, token_ids, after=[1]) == " hello"


def test_only_the_first_space_of_a_text_is_lost():
    """Of two spaces at the start of a text one remains, also when they come one by one."""
    space = LLAMA.token_to_id("▁")
    token_ids = [1, space, space, LLAMA.token_to_id("a")]
    assert " a" == LLAMA.decode(token_ids) == detokenize(TokenDecoder(LLAMA), token_ids)


def test_words_continue_the_prompt_where_neighbours_matter():
    """Without a byte table the last tokens of the prompt decide how the answer begins."""
    he, llo, world = (WORD_PIECE.token_to_id(word) for word in ("he", "##llo", "world"))
    assert detokenize(TokenDecoder(WORD_PIECE), [llo, world], after=[world, he]) == "llo world"


def test_a_special_token_can_be_shown_alone():
    """One special token can have its text while the others stay hidden."""
    start, end = (BYTE_LEVEL.token_to_id(token) for token in ("<|im_start|>", "<|im_end|>"))
    detokenizer = TokenDecoder(BYTE_LEVEL).start()
    assert [detokenizer.feed(start), detokenizer.feed(end, show_special=True)] == ["", "<|im_end|>"]


def test_garbage_is_not_held_for_ever():
    """A decoder without a byte table gives up waiting for a character after some tokens."""
    tokenizer = sentencepiece_tokenizer("gemma")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    detokenizer = TokenDecoder(tokenizer).start()
    stray = tokenizer.token_to_id("<0xFF>")
    pieces = [detokenizer.feed(stray) for _ in range(MAX_HELD_TOKENS)]
    assert "".join(pieces) == "\ufffd" * MAX_HELD_TOKENS


def test_silent_tokens_are_not_held_for_ever():
    """Tokens that add nothing to a text leave the window as short as ever."""
    tokenizer = word_piece_tokenizer(decoders.CTC(pad_token="|", cleanup=False))
    he = tokenizer.token_to_id("he")
    detokenizer = TokenDecoder(tokenizer).start()
    text = "".join(detokenizer.feed(he) for _ in range(1000)) + detokenizer.flush()
    assert (text, "he") == (tokenizer.decode([he] * 1000), text)
    assert len(detokenizer._window) <= MAX_HELD_TOKENS + CONTEXT_TOKENS
