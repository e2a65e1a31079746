import json

import pytest

from headrace_server.text.generation import Sampling
from headrace_server.text.model import TextModel
from headrace_server.text.model_files import ModelFileError
from tests.server.text.tokenizer_files import CHATML, byte_level_tokenizer, write_model

END = byte_level_tokenizer().token_to_id("<|im_end|>")
NEUTRAL = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}


def load(directory, chat_template_file=None, **files):
    model = write_model(directory, byte_level_tokenizer(), **files)
    return TextModel.load(model, chat_template_file)


@pytest.mark.parametrize(
    ("generation_config", "expected"),
    [
        (None, NEUTRAL),
        ({}, NEUTRAL),
        ({"temperature": None, "do_sample": False}, NEUTRAL),
        (
            {"temperature": 0.6, "top_p": 0.9, "top_k": 20},
            NEUTRAL | {"temperature": 0.6, "top_p": 0.9, "top_k": 20},
        ),
        ({"temperature": 0, "min_p": 0.1}, NEUTRAL | {"temperature": 0, "min_p": 0.1}),
        ({"top_k": -1, "top_p": 0}, NEUTRAL),
        ({"repetition_penalty": 1.1}, NEUTRAL | {"repetition_penalty": 1.1}),
    ],
)
def test_sampling_defaults_to_the_generation_config(tmp_path, generation_config, expected):
    """What generation_config.json says is the default; what it leaves out changes nothing."""
    model = load(tmp_path, generation_config=generation_config)
    assert Sampling(**expected) == model.default_sampling


@pytest.mark.parametrize(
    "generation_config",
    [
        {"temperature": 2.5},
        {"top_p": "high"},
        {"top_k": [1]},
        {"min_p": float("nan")},
        {"temperature": True},
        {"repetition_penalty": 0.0},
        {"eos_token_id": "x"},
        {"eos_token_id": True},
        {"eos_token_id": [3, False]},
    ],
)
def test_a_broken_default_stops_the_start(tmp_path, generation_config):
    """A default that cannot be used is named instead of failing each request."""
    with pytest.raises(ModelFileError, match=r"generation_config\.json: \w+ must be"):
        load(tmp_path, generation_config=generation_config)


@pytest.mark.parametrize(
    ("files", "token_ids"),
    [
        ({}, ()),
        ({"generation_config": {"eos_token_id": 3}}, (3,)),
        ({"generation_config": {"eos_token_id": [7, 3, 7, 10_000, -1]}}, (3, 7)),
        ({"tokenizer_config": {"eos_token": "<|im_end|>"}}, (END,)),
        (
            {
                "generation_config": {"eos_token_id": 3},
                "tokenizer_config": {"eos_token": {"content": "<|im_end|>"}},
            },
            (3, END),
        ),
        ({"tokenizer_config": {"eos_token": "<unheard of>"}}, ()),
    ],
)
def test_all_ends_of_text_count(tmp_path, files, token_ids):
    """The ids of generation_config.json and the tokenizer's own all end an answer."""
    assert token_ids == load(tmp_path, **files).end_of_text_token_ids


def test_the_config_ends_text_where_no_generation_config_does(tmp_path):
    """A model without generation_config.json has its end of text in config.json."""
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 5}))
    assert load(tmp_path).end_of_text_token_ids == (5,)


def rendered(model):
    assert model.has_chat_template
    return model.chat_template.render(
        [{"role": "user", "content": "x"}], add_generation_prompt=True
    )


def test_the_template_is_found_where_models_keep_it(tmp_path):
    """chat_template.jinja comes first, then tokenizer_config.json, then chat_template.json."""
    assert not load(tmp_path).has_chat_template

    (tmp_path / "chat_template.json").write_text('{"chat_template": "oldest"}')
    assert rendered(load(tmp_path)) == "oldest"

    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "default"}]
    assert rendered(load(tmp_path, tokenizer_config={"chat_template": named})) == "default"
    assert rendered(load(tmp_path, tokenizer_config={"chat_template": "older"})) == "older"
    assert rendered(load(tmp_path, chat_template=CHATML)).startswith("<|im_start|>")


def test_a_template_can_be_given(tmp_path):
    """A template file of the operator takes the place of the model's own."""
    own = tmp_path / "own.jinja"
    own.write_text("{{ eos_token }} own")
    model = load(tmp_path, own, chat_template=CHATML, tokenizer_config={"eos_token": "<|im_end|>"})
    assert rendered(model) == "<|im_end|> own"


def test_a_given_template_must_be_there_and_valid(tmp_path):
    """A template file that is missing or wrong stops the start and is named."""
    own = tmp_path / "own.jinja"
    with pytest.raises(ModelFileError, match=r"own\.jinja"):
        load(tmp_path, own)
    own.write_text("{% if %}")
    with pytest.raises(ModelFileError, match=r"own\.jinja: .*line 1"):
        load(tmp_path, own)


def test_the_facts_of_the_backend_are_passed_on(tmp_path):
    """Context length and vocabulary size are the backend's, the fingerprint the tokenizer's."""
    model = load(tmp_path, context_length=77)
    assert model.context_length == 77
    assert byte_level_tokenizer().get_vocab_size() == model.vocabulary_size
    assert len(model.tokenizer_fingerprint) == 64
