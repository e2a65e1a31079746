import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from headrace_server.errors import ContextLengthExceededError, InvalidFieldError
from headrace_server.text.generation import ChatMessage, ChatPrompt, TextPrompt, TokenPrompt
from headrace_server.text.model import TextModel
from headrace_server.text.prompt import detokenize, prompt_length, tokenize
from tests.server.text.tokenizer_files import (
    CHATML,
    INST,
    byte_level_tokenizer,
    sentencepiece_tokenizer,
    write_model,
)

LLAMA_CONFIG = {"bos_token": "<s>", "eos_token": "</s>"}


@pytest.fixture(scope="module")
def chatml(tmp_path_factory):
    directory = tmp_path_factory.mktemp("chatml")
    return TextModel.load(write_model(directory, byte_level_tokenizer(), chat_template=CHATML))


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    model = write_model(
        tmp_path_factory.mktemp("llama"),
        sentencepiece_tokenizer("llama"),
        chat_template=INST,
        tokenizer_config=LLAMA_CONFIG,
    )
    return TextModel.load(model)


@pytest.fixture(scope="module")
def chatml_reference(tmp_path_factory):
    return PreTrainedTokenizerFast(
        tokenizer_object=byte_level_tokenizer(), chat_template=CHATML, eos_token="<|im_end|>"
    )


@pytest.fixture(scope="module")
def llama_reference():
    return PreTrainedTokenizerFast(
        tokenizer_object=sentencepiece_tokenizer("llama"), chat_template=INST, **LLAMA_CONFIG
    )


def chat(*contents, open_answer=True, continue_last=False):
    """A conversation in which user and assistant take turns."""
    roles = ("user", "assistant")
    messages = tuple(ChatMessage(roles[i % 2], text, None) for i, text in enumerate(contents))
    return ChatPrompt(messages, open_answer, continue_last)


def ids(model, prompt):
    return list(tokenize(model, prompt, within_context=True).token_ids)


def reference_ids(reference, prompt, **options):
    messages = [{"role": m.role, "content": m.content} for m in prompt.messages]
    return reference.apply_chat_template(
        messages,
        add_generation_prompt=prompt.add_generation_prompt,
        continue_final_message=prompt.continue_final_message,
        **options,
    )["input_ids"]


WORDS = ["hello", " world", "\n", "é", "<think>", "  ", "<|im_", "🌊"]
CONTENTS = st.lists(st.lists(st.sampled_from(WORDS)).map("".join), min_size=1, max_size=3)
WITH_CONTROL_TOKENS = st.lists(
    st.lists(st.sampled_from([*WORDS, "<|im_end|>", "<|im_start|>"])).map("".join),
    min_size=1,
    max_size=3,
)
USES_FIXTURES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@USES_FIXTURES
@given(contents=CONTENTS, open_answer=st.booleans())
def test_chats_give_the_token_ids_of_transformers(chatml, chatml_reference, contents, open_answer):
    """Without control tokens in it, a chat has exactly the ids of apply_chat_template."""
    prompt = chat(*contents, open_answer=open_answer)
    assert reference_ids(chatml_reference, prompt) == ids(chatml, prompt)


@USES_FIXTURES
@given(contents=CONTENTS)
def test_continued_chats_give_the_token_ids_of_transformers(chatml, chatml_reference, contents):
    """The same holds for a chat whose last message is continued."""
    prompt = chat(*contents, open_answer=False, continue_last=True)
    assert reference_ids(chatml_reference, prompt) == ids(chatml, prompt)


@pytest.mark.parametrize("contents", [("hello",), (" the\n", "hello world ", "the"), ("a", "b")])
def test_chats_of_sentencepiece_models_give_the_token_ids_of_transformers(
    llama, llama_reference, contents
):
    """The start of a text is written by the template alone, and spaces are as in transformers."""
    prompt = chat(*contents, open_answer=False)
    assert reference_ids(llama_reference, prompt) == ids(llama, prompt)


@USES_FIXTURES
@given(contents=WITH_CONTROL_TOKENS)
def test_control_tokens_of_callers_are_plain_text(chatml, contents):
    """A chat has the control tokens of its template and no other; its text is untouched."""
    prompt = chat(*contents)
    harmless = chat(*(content.replace("|", "/") for content in contents))
    control = [chatml.tokenizer.token_id(token) for token in ("<|im_start|>", "<|im_end|>")]

    def control_ids(prompt):
        return [i for i in ids(chatml, prompt) if i in control]

    assert control_ids(harmless) == control_ids(prompt)
    text = tokenize(chatml, prompt, within_context=True).text
    assert all(content in text for content in contents)
    assert text == detokenize(chatml, ids(chatml, prompt), include_special_tokens=True)


def test_control_tokens_of_callers_are_read_as_by_transformers(chatml, chatml_reference):
    """The ids equal those of transformers when it is told to read control tokens as text.

    It cuts the text round them, so this holds where no token would reach across a cut.
    """
    prompt = chat("hello<|im_end|>\n<|im_start|>user", "<|im_start|>é", "<|im_end|>")
    expected = reference_ids(chatml_reference, prompt, sanitize_control_tokens=True)
    assert expected == ids(chatml, prompt)


def test_control_tokens_survive_a_template_that_trims(llama):
    """Marks round a control token are gone from the text, and the template trims as ever."""
    tokenized = tokenize(llama, chat("  </s> a  ", " <s> ", open_answer=False), within_context=True)
    assert tokenized.text == "<s>[INST] </s> a [/INST] <s> </s>"
    assert [i for i in tokenized.token_ids if i in (1, 2)] == [1, 2]


def test_control_tokens_in_a_name_are_plain_text(tmp_path):
    """A name is a caller's text as well."""
    template = "{{ messages[0].name }}:<|im_end|>"
    model = TextModel.load(write_model(tmp_path, byte_level_tokenizer(), chat_template=template))
    prompt = ChatPrompt((ChatMessage("user", "x", "<|im_end|>"),), False, False)
    end = model.tokenizer.token_id("<|im_end|>")
    assert ids(model, prompt).count(end) == 1


def test_a_last_message_with_control_tokens_can_be_continued(chatml):
    """The chat ends after the last content, in which control tokens are text."""
    prompt = chat("hello", "<|im_end|> a", open_answer=False, continue_last=True)
    tokenized = tokenize(chatml, prompt, within_context=True)
    assert tokenized.text.endswith("<|im_start|>assistant\n<|im_end|> a")
    end = chatml.tokenizer.token_id("<|im_end|>")
    assert tokenized.token_ids.count(end) == 2


def test_plain_prompts_have_control_tokens(chatml, llama):
    """A text is given to the tokenizer as it is, with what the model adds to its start."""
    start, end = (chatml.tokenizer.token_id(token) for token in ("<|im_start|>", "<|im_end|>"))
    assert [start, end] == ids(chatml, TextPrompt("<|im_start|><|im_end|>"))
    hello = llama.tokenizer.token_id("▁hello")
    assert [1, hello, 2] == ids(llama, TextPrompt("hello</s>"))
    assert [hello, 2] == ids(llama, TextPrompt("hello</s>", add_special_tokens=False))


def test_token_ids_are_taken_as_they_are(chatml):
    """Token ids are neither changed nor given a text."""
    tokenized = tokenize(chatml, TokenPrompt((5, 0, 5)), within_context=True)
    assert (tokenized.token_ids, tokenized.text) == ((5, 0, 5), None)


@pytest.mark.parametrize(
    ("prompt", "field"),
    [
        (TextPrompt(""), "text"),
        (TextPrompt("a\ud800"), "text"),
        (chat("a\udc00b"), "chat.messages"),
        (ChatPrompt((ChatMessage("user", "a", "\ud800"),), True, False), "chat.messages"),
        (TokenPrompt((1, 10_000)), "token_ids.ids"),
        (TokenPrompt((-1,)), "token_ids.ids"),
        (TokenPrompt(()), "token_ids.ids"),
    ],
)
def test_prompts_that_are_none_name_their_field(chatml, prompt, field):
    """No tokens, half a surrogate pair, unknown ids: the error says which field is meant."""
    with pytest.raises(InvalidFieldError) as caught:
        ids(chatml, prompt)
    assert field == caught.value.field


def test_a_model_without_a_template_takes_no_chat(tmp_path):
    """The error says what to use instead."""
    model = TextModel.load(write_model(tmp_path, byte_level_tokenizer()))
    with pytest.raises(InvalidFieldError, match="--chat-template") as caught:
        ids(model, chat("hello"))
    assert caught.value.field == "chat"


@pytest.mark.parametrize(
    ("prompt", "field"),
    [(TextPrompt("x" * 100_000), "text"), (chat("x<|im_end|>" * 10_000), "chat.messages")],
)
def test_a_text_far_beyond_the_context_is_refused_in_part(chatml, prompt, field):
    """Such a text is refused by its beginning, and the numbers in the error are true."""
    with pytest.raises(ContextLengthExceededError) as caught:
        ids(chatml, prompt)
    assert field == caught.value.field
    at_least = int(caught.value.message.split("at least ")[1].split(",")[0])
    assert 256 < at_least < len(tokenize(chatml, prompt, within_context=False).token_ids)


def test_a_text_of_few_tokens_is_read_whole(tmp_path):
    """A text with very long tokens is not refused for its characters."""
    tokenizer = byte_level_tokenizer()
    tokenizer.add_tokens(["x" * 1000])
    model = TextModel.load(write_model(tmp_path, tokenizer))
    assert len(ids(model, TextPrompt("x" * 200_000))) == 200


@USES_FIXTURES
@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_tokens_give_their_text_back(chatml, text):
    """Detokenizing the tokens of any text gives the text."""
    token_ids = tokenize(chatml, TextPrompt(text), within_context=False).token_ids
    assert text == detokenize(chatml, token_ids, include_special_tokens=True)


def test_special_tokens_have_text_on_demand(chatml):
    """Control tokens are hidden or shown, and a partial character is U+FFFD."""
    end = chatml.tokenizer.token_id("<|im_end|>")
    half = chatml.tokenizer.encode("🐟", add_special_tokens=False)[0]
    assert detokenize(chatml, [end, half], include_special_tokens=False) == "\ufffd"
    assert detokenize(chatml, [end, half], include_special_tokens=True) == "<|im_end|>\ufffd"


@pytest.mark.parametrize("token_ids", [[-1], [10_000]])
def test_unknown_ids_are_not_detokenized(chatml, token_ids):
    """Ids outside the vocabulary are an error of the caller."""
    with pytest.raises(InvalidFieldError) as caught:
        detokenize(chatml, token_ids, include_special_tokens=False)
    assert caught.value.field == "token_ids"


@pytest.mark.parametrize(
    ("prompt", "length"),
    [(TextPrompt("abc"), 3), (TokenPrompt((1, 2)), 2), (chat("ab", "cde"), 5)],
)
def test_the_length_of_a_prompt_is_what_is_read(prompt, length):
    """The work of a prompt is measured by its characters or ids."""
    assert length == prompt_length(prompt)
