"""A tokenizer that tests can afford."""

from tokenizers import Tokenizer, models, pre_tokenizers

WORDS = ("stone", "river", "light", "cloud")


def make_tokenizer(words=WORDS):
    """A tokenizer of whole words, with the space before each as byte-level BPE writes it."""
    vocabulary = {f"Ġ{word}": index for index, word in enumerate(words)} | {"<s>": 9, "Ġx": 10}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer
