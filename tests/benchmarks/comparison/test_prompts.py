"""Prompts of an exact length."""

import pytest
from tokenizers import processors

from comparison.prompts import PromptError, Prompts
from tests.benchmarks.comparison.word_tokenizer import make_tokenizer


@pytest.mark.parametrize("num_tokens", [1, 8, 512])
def test_a_prompt_has_the_number_of_tokens_that_was_asked_for(num_tokens):
    """The servers count the same."""
    prompts = Prompts(make_tokenizer())
    assert len(prompts.token_ids(prompts.text("label", num_tokens))) == num_tokens


def test_the_same_label_gives_the_same_prompt():
    """Every peer is asked the same."""
    prompts = Prompts(make_tokenizer())
    assert prompts.text("label", 20) == Prompts(make_tokenizer()).text("label", 20)


def test_other_labels_give_other_prompts():
    """No cache of prefixes helps."""
    prompts = Prompts(make_tokenizer())
    assert len({prompts.text(f"label {index}", 64) for index in range(50)}) == 50


def test_a_tokenizer_that_adds_a_token_to_every_text_is_refused():
    """Then no text of so many words has so many tokens."""
    tokenizer = make_tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 9)]
    )
    with pytest.raises(PromptError, match="made no text of 4 tokens"):
        Prompts(tokenizer).text("label", 4)


def test_a_tokenizer_without_words_is_refused():
    """It is not one of byte-level BPE."""
    with pytest.raises(PromptError, match="no words of one token"):
        Prompts(make_tokenizer(words=())).text("label", 4)
