"""The embedded default model against transformers, and its answers alone and in company."""

import json
import random
from pathlib import Path

import pytest
import torch

from headrace_server.models.kernels.library import load_kernels

pytestmark = pytest.mark.model

# With the kernels a row is the same to the bit in any batch; in plain torch, on some CPUs only.
TOLERANCE = 0.0 if load_kernels() is not None else 1e-4
QUESTION = "What is the capital of France?"


@pytest.fixture(scope="module")
def directory(default_runner) -> Path:
    return Path(default_runner.description.directory)


@pytest.fixture(scope="module")
def tokenizer(directory):
    """The tokenizer that the front will use, by transformers."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(directory)


@pytest.fixture(scope="module")
def reference(directory):
    """What transformers generates greedily after a prompt."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)

    def generate(prompt, num_tokens, **options):
        # One thread: threads that spin for each other take minutes where cores are shared.
        num_threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            ids = model.generate(
                torch.tensor([prompt]),
                max_new_tokens=num_tokens,
                do_sample=False,
                temperature=None,
                top_p=None,
                **options,
            )
        finally:
            torch.set_num_threads(num_threads)
        return ids[0, len(prompt) :].tolist()

    return generate


def chat(tokenizer, text):
    messages = [{"role": "user", "content": text}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]


def generate(sequences, indices, num_tokens):
    """Continue sequences together; returns the new ids of each."""
    lengths = [len(sequences.tokens[index]) for index in indices]
    for _ in range(num_tokens):
        sequences.step([sequences.row(index) for index in indices])
    return [sequences.tokens[i][length:] for i, length in zip(indices, lengths, strict=True)]


def test_description(default_runner):
    """Context, vocabulary and KV cache for more than one full context."""
    description = default_runner.description
    assert description.context_length == 8192
    assert description.vocabulary_size == 49152
    assert description.num_blocks * description.block_size >= 8192


def test_generation_defaults(directory):
    """The end of an answer is <|im_end|> alone, and the answer is the most likely one."""
    config = json.loads((directory / "generation_config.json").read_text())
    assert config["eos_token_id"] == [2]
    assert config["temperature"] == 0.0


def test_greedy_answer_equals_transformers(default_runner, make_sequences, tokenizer, reference):
    """The answer to a question is Paris, token for token as transformers' generate says."""
    prompt = chat(tokenizer, QUESTION)
    expected = reference(prompt, 24)
    sequences = make_sequences(default_runner)
    index = sequences.add(prompt)
    (actual,) = generate(sequences, [index], len(expected))
    assert actual == expected
    assert tokenizer.decode(actual) == "The capital of France is Paris.<|im_end|>"


def test_longer_greedy_text_equals_transformers(
    default_runner, make_sequences, tokenizer, reference
):
    """Over a longer text too, with another prompt beside it."""
    prompt = chat(tokenizer, "Explain how rivers shape valleys.")
    expected = reference(prompt, 24, min_new_tokens=24)
    sequences = make_sequences(default_runner)
    indices = [sequences.add(prompt), sequences.add(chat(tokenizer, QUESTION))]
    assert generate(sequences, indices, 24)[0] == expected


def test_tokenizer_equals_transformers_but_for_digits(tokenizer):
    """The converted tokenizer gives the ids of transformers' own conversion of the GGUF file.

    But for digits: the published tokenizer splits them one by one, which transformers'
    conversion does not know.
    """
    from transformers import AutoTokenizer

    from headrace_server.models.resolve import _embedded_gguf

    path = _embedded_gguf()
    other = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    generator = random.Random(0)
    texts = [
        "Hello world",
        "  leading   spaces\n\n\ttabs \r\n",
        "naïve café — “quotes” 日本語 한국어 العربية 😀👍🏽",
        "def f(x):\n    return x**y  # it's we'll I'LL don't",
        "<|im_start|>user\nHi<|im_end|>\n<|endoftext|><repo_name>x",
        *("".join(generator.choices("abc XYZ\n\t'.,-é日😀ß<|>", k=30)) for _ in range(200)),
    ]
    for text in texts:
        assert tokenizer.encode(text) == other.encode(text), text
        assert tokenizer.decode(tokenizer.encode(text)) == text
    tokens = tokenizer.tokenize("In 2024, 1234.5")
    assert tokens == ["In", "Ġ", *"2024", ",", "Ġ", *"1234", ".", "5"]


def test_a_row_is_the_same_in_any_batch(default_runner, make_sequences):
    """Logits alone, and among sequences of all lengths with other blocks, are equal."""
    generator = random.Random(0)
    prompts = [
        [generator.randrange(17, 49152) for _ in range(generator.randint(2, 200))] for _ in range(8)
    ]
    together = make_sequences(default_runner, seed=1)
    indices = [together.add(prompt) for prompt in prompts]
    observed = [[] for _ in prompts]
    for _ in range(5):
        logits = together.logits([together.row(index) for index in indices])
        for index, row in zip(indices, logits, strict=True):
            observed[index].append(row)
            together.tokens[index].append(int(row.argmax()))
    for index in (0, 3, 7):
        alone = make_sequences(default_runner, seed=2)
        alone.add(prompts[index])
        for expected in observed[index]:
            (row,) = alone.logits([alone.row(0)])
            torch.testing.assert_close(row, expected, atol=TOLERANCE, rtol=0.0)
            alone.tokens[0].append(int(row.argmax()))


def test_a_prompt_is_the_same_however_it_is_cut(default_runner, make_sequences):
    """Parts of any length give the logits of the whole prompt."""
    generator = random.Random(1)
    prompt = [generator.randrange(17, 49152) for _ in range(330)]
    whole = make_sequences(default_runner)
    (expected,) = whole.logits([whole.row(whole.add(prompt))])
    for parts in ([256], [1, 2, 3, 35, 67], [328], [16] * 6):
        cut = make_sequences(default_runner, seed=3)
        index = cut.add(prompt)
        for part in parts:
            cut.logits([cut.row(index, part)])
        (actual,) = cut.logits([cut.row(index)])
        torch.testing.assert_close(actual, expected, atol=TOLERANCE, rtol=0.0)


def test_a_seeded_answer_is_the_same_in_any_batch(default_runner, make_sequences, tokenizer):
    """Sampled answers do not depend on what else runs."""
    prompts = [chat(tokenizer, text) for text in ("Tell me a story.", QUESTION, "Hi!", "Why?")]
    sampling = {"temperature": 0.8, "top_p": 0.95, "seed": 11}
    together = make_sequences(default_runner, seed=1)
    indices = [together.add(prompt) for prompt in prompts]
    for _ in range(16):
        together.step([together.row(index, **sampling) for index in indices])
    alone = make_sequences(default_runner, seed=2)
    alone.add(prompts[0])
    for _ in range(16):
        alone.step([alone.row(0, **sampling)])
    assert alone.tokens[0] == together.tokens[0]


@pytest.mark.skipif(load_kernels() is None, reason="no compiled kernels here")
def test_four_bits_are_those_of_the_file(default_runner, load_runner, make_sequences, tokenizer):
    """With q4 the logits are those of the dequantized weights, but for inputs in 8 bits."""
    prompt = chat(tokenizer, QUESTION)
    logits = []
    for runner in (default_runner, load_runner("default", quantization="q4")):
        sequences = make_sequences(runner)
        logits.append(sequences.logits([sequences.row(sequences.add(prompt))]))
    # Other 4-bit numbers, rounded anew from the same weights, are off by about 3.
    torch.testing.assert_close(*logits, atol=1.5, rtol=0.0)
