"""Texts with a gap: the layout of each family, plain text between, and what ends the answer."""

# ruff: noqa: RUF001  # the bars of DeepSeek's tokens are wide
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken

from headrace_server.backends.interface import BackendFinish
from headrace_server.errors import ContextLengthExceededError, InvalidFieldError
from headrace_server.text.delta import Finish, FinishReason
from headrace_server.text.generation import GenerationRequest, Stopping, TextPrompt
from headrace_server.text.infill import FAMILIES
from headrace_server.text.model import TextModel
from headrace_server.text.pipeline import TextPipeline
from headrace_server.text.prompt import detokenize, prompt_length, tokenize
from tests.server.text.only_candidate import flatten
from tests.server.text.scripted_backend import ScriptedBackend, one_by_one
from tests.server.text.tokenizer_files import (
    byte_level_tokenizer,
    sentencepiece_tokenizer,
    write_model,
)

# What models are trained on, with P and S for the texts before and after the gap.
LAYOUTS = {
    "starcoder": "<fim_prefix>P<fim_suffix>S<fim_middle>",
    "santacoder": "<fim-prefix>P<fim-suffix>S<fim-middle>",
    "qwen": "<|fim_prefix|>P<|fim_suffix|>S<|fim_middle|>",
    "deepseek": "<｜fim▁begin｜>P<｜fim▁hole｜>S<｜fim▁end｜>",
    "codestral": "[SUFFIX]S[PREFIX]P",
    "seed": "<[fim-suffix]>S<[fim-prefix]>P<[fim-middle]>",
}
TOKENS = {
    "starcoder": ("<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>"),
    "santacoder": ("<fim-prefix>", "<fim-suffix>", "<fim-middle>", "<fim-pad>"),
    "qwen": ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "<|fim_pad|>"),
    "deepseek": ("<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "<|EOT|>"),
    "codestral": ("[PREFIX]", "[SUFFIX]", "[MIDDLE]", "</s>"),
    "seed": ("<[fim-prefix]>", "<[fim-suffix]>", "<[fim-middle]>"),
}
CODE_LLAMA = ("▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>")
USES_FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def with_tokens(tokenizer, tokens, *, special=True):
    """The tokenizer with further tokens, which some models do not mark as control tokens."""
    if special:
        tokenizer.add_special_tokens([AddedToken(token, special=True) for token in tokens])
    else:
        tokenizer.add_tokens([AddedToken(token) for token in tokens])
    return tokenizer


def load(directory, tokenizer, **files):
    return TextModel.load(write_model(directory, tokenizer, **files))


@pytest.fixture(params=LAYOUTS)
def family(request):
    return request.param


@pytest.fixture(params=[True, False], ids=["special", "added"])
def byte_level(request, family):
    return with_tokens(byte_level_tokenizer(), TOKENS[family], special=request.param)


@pytest.fixture
def model(tmp_path, byte_level):
    return load(tmp_path, byte_level)


@pytest.fixture
def qwen(tmp_path):
    tokenizer = with_tokens(byte_level_tokenizer(), TOKENS["qwen"], special=False)
    return load(tmp_path, tokenizer)


def ids(model, text, suffix, **options):
    prompt = TextPrompt(text, suffix=suffix, **options)
    return list(tokenize(model, prompt, within_context=True).token_ids)


def names(model, *ids_and_texts):
    """The ids that tokens and texts have by themselves."""
    return [model.tokenizer.token_id(name) for name in ids_and_texts]


@USES_FIXTURES
@given(
    before=st.lists(st.sampled_from(["hello", " world", "\n", "é", "  "])).map("".join),
    after=st.lists(st.sampled_from(["hello", " world", "\n", "é", "  "]), min_size=1).map("".join),
)
def test_a_gap_has_the_tokens_of_its_written_layout(model, byte_level, family, before, after):
    """Where the texts hold no control tokens, the ids are those of the layout as text."""
    written = LAYOUTS[family].replace("P", "\0").replace("S", "\1")
    for token in TOKENS[family]:  # whose names have these letters, too
        marked = token.replace("P", "\0").replace("S", "\1")
        written = written.replace(marked, token)
    written = written.replace("\0", before).replace("\1", after)
    tokenized = tokenize(model, TextPrompt(before, suffix=after), within_context=True)
    assert list(tokenized.token_ids) == byte_level.encode(written).ids
    assert tokenized.text == written


@pytest.mark.parametrize("kind", ["llama", "mistral"])
@pytest.mark.parametrize(
    ("before", "after", "expected_before", "expected_after"),
    [
        ("the a", "the", ["▁the", "▁", "a"], ["t", "h", "e"]),
        ("world", " the", ["▁world"], ["▁the"]),
        ("", "\n", [], ["<0x0A>"]),
    ],
)
def test_code_llama_has_no_space_of_its_own_after_the_gap(
    tmp_path, kind, before, after, expected_before, expected_after
):
    """As Meta has it: the text before the gap starts as a text does, the one after it does not."""
    model = load(tmp_path, with_tokens(sentencepiece_tokenizer(kind), CODE_LLAMA))
    prefix, suffix, middle, _ = CODE_LLAMA
    expected = ["<s>", prefix, *expected_before, suffix, *expected_after, middle]
    assert names(model, *expected) == ids(model, before, after)


def test_an_answer_of_code_llama_begins_with_its_space(tmp_path):
    """What fills the gap goes on with a text, so that a space at its start is one."""
    model = load(tmp_path, with_tokens(sentencepiece_tokenizer("llama"), CODE_LLAMA))
    detokenizer = model.tokenizer.decoder.start(ids(model, "a", "b"))
    [the] = names(model, "▁the")
    assert detokenizer.feed(the) == " the"


def test_control_tokens_of_callers_are_plain_text(model, family):
    """Each control token is in the prompt once, whatever the texts hold, and they are whole."""
    text = "a".join([*TOKENS[family], "<|im_end|>", ""])
    prompt = ids(model, text, text)
    expected = [token for token in TOKENS[family] if token in LAYOUTS[family]]
    for token in (*TOKENS[family], "<|im_end|>"):
        assert prompt.count(model.tokenizer.token_id(token)) == expected.count(token)
    shown = detokenize(model, prompt, include_special_tokens=True)
    assert shown.count(text) == 2


def test_control_tokens_are_plain_text_for_code_llama(tmp_path):
    """The same holds where the start of a text is treated in its own way."""
    model = load(tmp_path, with_tokens(sentencepiece_tokenizer("llama"), CODE_LLAMA))
    prompt = ids(model, "▁<MID>a</s>", "▁<SUF></s>▁<MID>")
    counts = [prompt.count(each) for each in names(model, *CODE_LLAMA, "<s>", "</s>")]
    assert counts == [1, 1, 1, 0, 1, 0]


def test_the_beginning_of_a_text_is_added_once(tmp_path):
    """What the tokenizer's file adds goes first, and nothing when it is not wanted."""
    model = load(tmp_path, with_tokens(sentencepiece_tokenizer("gemma"), TOKENS["codestral"][:3]))
    suffix, s, prefix, p = names(model, "[SUFFIX]", "s", "[PREFIX]", "a")
    assert ids(model, "a", "s") == [1, suffix, s, prefix, p]
    assert ids(model, "a", "s", add_special_tokens=False) == [suffix, s, prefix, p]


def test_the_beginning_of_the_family_is_added_where_the_file_has_none(tmp_path):
    """DeepSeek's file adds nothing by itself, and its prompts begin with a token all the same."""
    start = "<｜begin▁of▁sentence｜>"
    model = load(tmp_path, with_tokens(byte_level_tokenizer(), (*TOKENS["deepseek"], start)))
    begin, hole, end, first = names(model, *TOKENS["deepseek"][:3], start)
    [a] = names(model, "a")
    assert ids(model, "a", "a") == [first, begin, a, hole, a, end]
    assert ids(model, "a", "a", add_special_tokens=False) == [begin, a, hole, a, end]


@pytest.mark.parametrize("missing", range(3))
def test_a_model_without_all_tokens_refuses_a_suffix(tmp_path, missing):
    """The error names the field and says why; the same prompt without a suffix is read."""
    tokens = list(TOKENS["starcoder"][:3])
    del tokens[missing]
    model = load(tmp_path, with_tokens(byte_level_tokenizer(), tokens))
    assert not model.fills_in
    with pytest.raises(InvalidFieldError, match="no control tokens for it") as caught:
        ids(model, "a", "b")
    assert caught.value.field == "suffix"
    assert ids(model, "a", "") == names(model, "a")


def test_tokens_that_the_weights_do_not_know_are_none(tmp_path):
    """A tokenizer may have more tokens than the model has rows for."""
    facts = write_model(tmp_path, with_tokens(byte_level_tokenizer(), TOKENS["starcoder"]))
    too_small = byte_level_tokenizer().get_vocab_size() + 2
    assert TextModel.load(facts).fills_in
    assert not TextModel.load(type(facts)(facts.directory, 256, too_small)).fills_in


def test_prompts_without_a_gap_have_control_tokens(qwen):
    """Who writes the layout himself is understood as before."""
    prefix, suffix, middle = names(qwen, *TOKENS["qwen"][:3])
    [a] = names(qwen, "a")
    text = "<|fim_prefix|>a<|fim_suffix|>a<|fim_middle|>"
    assert ids(qwen, text, "") == [prefix, a, suffix, a, middle]


def test_a_suffix_is_measured_and_checked_as_a_prompt_is(qwen):
    """Its characters count, it must be Unicode, and one that cannot fit is refused in part."""
    assert prompt_length(TextPrompt("abc", suffix="de")) == 5
    with pytest.raises(InvalidFieldError) as invalid:
        ids(qwen, "a", "\ud800")
    assert invalid.value.field == "suffix"
    with pytest.raises(ContextLengthExceededError) as too_long:
        ids(qwen, "a", "x" * 100_000)
    assert too_long.value.field == "suffix"


async def answer(facts, prompt, script=(), **options):
    """Return what the backend was asked and how the answer ends."""
    backend = ScriptedBackend(script)
    async with TextPipeline(backend) as pipeline:
        await pipeline.load_model(facts)
        async with pipeline.generate(GenerationRequest("id", prompt, **options)) as answer:
            deltas = [flatten(delta) async for delta in answer]
    return backend.requests[0], deltas


@pytest.mark.parametrize("special", [True, False])
@pytest.mark.parametrize("end", TOKENS["qwen"])
async def test_the_answer_ends_where_the_model_goes_on_with_another_text(tmp_path, special, end):
    """Every token that the family says after an answer is its end of text, and has no text."""
    tokenizer = with_tokens(byte_level_tokenizer(), TOKENS["qwen"], special=special)
    facts = write_model(tmp_path, tokenizer)
    script = one_by_one(
        [*tokenizer.encode("hello").ids, tokenizer.token_to_id(end)], BackendFinish.STOP_TOKEN
    )
    asked, deltas = await answer(facts, TextPrompt("a", suffix="b"), script)
    assert tokenizer.token_to_id(end) in asked.stop_token_ids
    assert "".join(delta.text for delta in deltas) == "hello"
    assert deltas[-1].finish == Finish(FinishReason.END_OF_TEXT)


async def test_the_ends_are_those_of_gaps_only(tmp_path):
    """Without a suffix the model's own end is the only one, and none where it is ignored."""
    tokenizer = with_tokens(byte_level_tokenizer(), TOKENS["starcoder"])
    end = tokenizer.token_to_id("<|im_end|>")
    facts = write_model(tmp_path, tokenizer, generation_config={"eos_token_id": end})
    script = one_by_one([1])
    ends = {tokenizer.token_to_id(token) for token in (*TOKENS["starcoder"], "<|endoftext|>")}
    gap = TextPrompt("a", suffix="b")
    for prompt, stopping, expected in [
        (gap, Stopping(max_output_tokens=1), {end, *ends}),
        (gap, Stopping(max_output_tokens=1, ignore_end_of_text=True), set()),
        (TextPrompt("a"), Stopping(max_output_tokens=1), {end}),
    ]:
        asked, _ = await answer(facts, prompt, script, stopping=stopping)
        assert asked.stop_token_ids == expected


def test_no_token_is_of_two_families():
    """So that a vocabulary says which one a model is of."""
    firsts = [family.prefix for family in FAMILIES]
    assert len(set(firsts)) == len(FAMILIES)
