from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers.utils.chat_template_utils import render_jinja_template

from headrace_server.errors import InvalidFieldError
from headrace_server.text import chat_template
from headrace_server.text.chat_template import ChatTemplate, TemplateSyntaxError
from tests.server.text.tokenizer_files import CHATML, INST

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

REASONING = """
{%- macro part(role, content) -%}
<|im_start|>{{ role }}
{{ content }}<|im_end|>
{% endmacro -%}
{%- set ns = namespace(last=none) -%}
{%- for message in messages if message.role != "system" -%}
    {%- set ns.last = loop.index0 -%}
{%- endfor -%}
{% for message in messages %}
    {% if message.role == "assistant" and "</think>" in message.content %}
        {% set content = message.content.split("</think>")[-1].lstrip("\\n") %}
    {% else %}
        {% set content = message.content %}
    {% endif %}
    {% if loop.index0 > 30 %}{% break %}{% endif %}
{{ part(message.role, content) }}
    {%- if message.name is defined %}{{ message.name | tojson }}{% endif %}
{% endfor %}
{% if tools %}never{% endif %}{{ dict(a=1)["a"] }}
{% if add_generation_prompt %}{% generation %}<|im_start|>assistant
{% endgeneration %}{% endif %}
"""

TEMPLATES = [CHATML, INST, REASONING]
WORDS = st.text(st.sampled_from("ab \n<{%é</think>🌊"), max_size=8)
ROLES = st.sampled_from(["system", "user", "assistant"])
MESSAGES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": ROLES, "content": WORDS}),
        st.fixed_dictionaries({"role": ROLES, "content": WORDS, "name": WORDS}),
    ),
    min_size=1,
    max_size=5,
)


def message(role, content):
    return {"role": role, "content": content}


@cache
def compiled(source):
    return ChatTemplate(source, TOKENS)


def render(source, messages, *, add_generation_prompt=False):
    return compiled(source).render(messages, add_generation_prompt=add_generation_prompt)


def reference(source, messages, **options):
    """What transformers makes of the messages; None when it raises."""
    try:
        [text], _ = render_jinja_template([messages], chat_template=source, **options, **TOKENS)
    except Exception:
        return None
    return text


@pytest.mark.parametrize("source", TEMPLATES)
@given(messages=MESSAGES, add_generation_prompt=st.booleans())
def test_chats_are_rendered_as_by_transformers(source, messages, add_generation_prompt):
    """The text equals that of transformers, and what it refuses is refused."""
    expected = reference(source, messages, add_generation_prompt=add_generation_prompt)
    if expected is None:
        with pytest.raises(InvalidFieldError):
            render(source, messages, add_generation_prompt=add_generation_prompt)
    else:
        actual = render(source, messages, add_generation_prompt=add_generation_prompt)
        assert expected == actual


@pytest.mark.parametrize("source", TEMPLATES)
@given(messages=MESSAGES)
def test_a_last_message_is_left_open_as_by_transformers(source, messages):
    """A chat to continue ends where it does in transformers."""
    expected = reference(source, messages, continue_final_message=True)
    if expected is None:
        with pytest.raises(InvalidFieldError):
            compiled(source).render_open(messages)
    else:
        assert expected == compiled(source).render_open(messages)


def test_a_refusal_of_the_template_reaches_the_caller():
    """The words of raise_exception are shown, on one line and cut."""
    with pytest.raises(InvalidFieldError) as caught:
        render(INST, [message("system", "x")])
    assert caught.value.field == "chat.messages"
    assert caught.value.message == (
        "The model's chat template refuses these messages: "
        "Only user and assistant roles are supported!"
    )

    with pytest.raises(InvalidFieldError) as caught:
        render("{{ raise_exception('a\\n\\x07b' ~ 'c' * 9999) }}", [message("user", "x")])
    assert len(caught.value.message) < 300
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].missing.more }}",
        "{{ 1 / 0 }}",
        "{{ messages + 1 }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{% set ns = namespace(_x=1) %}",
        "{% set ns = namespace() %}{% set ns.__class__ = 1 %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for i in range(10 ** 9) %}{% endfor %}",
        "{{ '\\ud800' }}",
        "{{ lipsum(n=99999) }}",
    ],
)
def test_a_failing_template_tells_no_internals(source):
    """Whatever a template stumbles over, or is forbidden, the caller reads one fixed sentence."""
    with pytest.raises(InvalidFieldError) as caught:
        render(source, [message("user", "secret")])
    assert caught.value.message == (
        "The model's chat template fails on these messages; send others, or the prompt as text."
    )


def test_the_size_of_a_rendered_chat_is_bounded(monkeypatch):
    """A template that makes ever more of a chat is stopped."""
    monkeypatch.setattr(chat_template, "MAX_RENDERED_CHARACTERS", 1000)
    endless = "{% for i in range(99999) %}{{ messages[0].content }}{% endfor %}"
    with pytest.raises(InvalidFieldError, match="too much"):
        render(endless, [message("user", "x" * 100)])


@pytest.mark.parametrize(
    "source",
    [
        "{{ 1 }}{{ 2 }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) ~ m(n - 1) }}{% endif %}{% endmacro %}{{ m(60) }}",
    ],
)
def test_the_time_of_rendering_is_bounded(monkeypatch, source):
    """A template that goes on for too long is stopped, whether it writes anything or not."""
    monkeypatch.setattr(chat_template, "MAX_RENDER_SECONDS", 0.0)
    with pytest.raises(InvalidFieldError, match="too much"):
        render(source, [message("user", "x")])


def test_a_template_computes_nothing_before_there_is_a_chat():
    """What a template would take long for, or fail on, does not hold up the start."""
    ChatTemplate("{{ ('x' * 99999) | center(10 ** 18) }}", TOKENS)


def test_a_template_cannot_put_off_its_end(monkeypatch):
    """No name that a template sets counts as its time."""
    monkeypatch.setattr(chat_template, "MAX_RENDER_SECONDS", 0.0)
    source = "{% set deadline = 9e99 %}{% set look_at_the_time = 1 %}{% for i in [1] %}{% endfor %}"
    with pytest.raises(InvalidFieldError, match="too much"):
        render(source, [message("user", "x")])


def test_the_time_of_day_is_known_to_templates():
    """strftime_now formats the present."""
    text = render("{{ strftime_now('%Y') }}", [message("user", "x")])
    assert 2024 <= int(text) <= 9999


def test_a_broken_template_names_its_line():
    """Who brings a template that cannot be compiled learns where to look."""
    with pytest.raises(TemplateSyntaxError, match="line 2"):
        ChatTemplate("{{ messages }}\n{% for %}", TOKENS)


@pytest.mark.parametrize(
    "source",
    [
        "{% break %}",
        "{{ " + "(" * 20_000 + "1" + ")" * 20_000 + " }}",
        "{{ " + "9" * 6000 + " }}",
        "{{ " + "1 + " * 5000 + "1 }}",
        "{% for i in [1] %}" * 40 + "{% endfor %}" * 40,
        "{% if 1 %}" * 3000 + "{% endif %}" * 3000,
    ],
    ids=lambda source: source[:20],
)
def test_what_python_cannot_compile_is_refused_too(source):
    """A template that passes Jinja's parser, or is too much for it, is refused in one sentence."""
    with pytest.raises(TemplateSyntaxError, match="cannot be compiled"):
        ChatTemplate(source, TOKENS)


def test_a_changed_last_message_cannot_be_continued():
    """When the template does not show the last message as it is, continuing it is refused."""
    with pytest.raises(InvalidFieldError, match="cannot be continued"):
        ChatTemplate("{{ messages[0].content | upper }}", {}).render_open([message("user", "x")])
    with pytest.raises(InvalidFieldError, match="cannot be continued"):
        ChatTemplate("nothing", {}).render_open([message("user", "x")])


def test_a_last_message_that_is_shown_twice_is_cut_at_the_second_place():
    """Nothing of the search for the end of a message is left in the text."""
    source = "{{ messages[0].content }}|{{ messages[0].content | trim }}|{{ messages[0].content }}."
    assert compiled(source).render_open([message("user", "x")]) == "x|x|x"
