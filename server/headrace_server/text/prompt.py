"""Turns the prompt of a request into tokens of the model, and tokens back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headrace_server.errors import ContextLengthExceededError, InvalidFieldError
from headrace_server.text.control_tokens import Marks, unused_characters
from headrace_server.text.generation import ChatPrompt, TextPrompt, TokenizedPrompt, TokenPrompt
from headrace_server.text.parsing.reasoning import close_reasoning
from headrace_server.text.template_values import texts_in, with_texts
from headrace_server.text.template_variables import TemplateVariables, template_variables
from headrace_server.text.tool_instructions import with_tools_as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from headrace_server.text.chat_template import ChatTemplate
    from headrace_server.text.control_tokens import ControlTokenFinder
    from headrace_server.text.generation import Prompt
    from headrace_server.text.model import TextModel

# A text with more characters than this for each token of the context is tokenized in part first:
# text rarely has more than 5, so most of what cannot fit is refused cheaply.
PREVIEW_CHARACTERS_PER_TOKEN = 16

# Tokens by which cutting a text may raise its count: more than a word has.
PREVIEW_MARGIN_TOKENS = 256

_JSON_FIELDS: Final = ("chat.messages", "chat.tools", "chat.template_arguments_json")


def prompt_field(prompt: Prompt) -> str:
    """Return the path of the prompt in a request."""
    match prompt:
        case TextPrompt():
            return "text"
        case TokenPrompt():
            return "token_ids.ids"
        case ChatPrompt():
            return "chat.messages"


def prompt_length(prompt: Prompt) -> int:
    """Return the number of characters, or of ids, from which a prompt is made."""
    match prompt:
        case TextPrompt():
            return len(prompt.text) + len(prompt.suffix)
        case TokenPrompt(token_ids):
            return len(token_ids)
        case ChatPrompt():
            return _chat_length(prompt)


def tokenize(
    model: TextModel, prompt: Prompt, *, within_context: bool, has_form: bool = False
) -> TokenizedPrompt:
    """Turn a prompt into tokens.

    Args:
        model: the model that is to read it.
        prompt: text, with a gap or without, token ids or a chat.
        within_context: whether a text that is much longer than the context is refused
            without tokenizing all of it.
        has_form: whether the answer has a form from its first token on, so that reasoning which
            the template of a chat opens has to be closed.

    Raises:
        InvalidFieldError: the prompt is not Unicode, has no tokens or some that the
            model does not know; or the model cannot render the chat or fill a gap.
        ContextLengthExceededError: see `within_context`.
    """
    field = prompt_field(prompt)
    max_tokens = model.context_length if within_context else None
    match prompt:
        case TokenPrompt(token_ids):
            tokenized = TokenizedPrompt(token_ids, None)
        case TextPrompt():
            _check_unicode(field, [prompt.text])
            tokenize_text = _tokenize_gap if prompt.suffix else _tokenize_text
            tokenized = tokenize_text(model, prompt, max_tokens)
        case ChatPrompt():
            closes_reasoning = has_form or prompt.tool_use.is_forced
            tokenized = _tokenize_chat(model, prompt, max_tokens, closes_reasoning)
    if not tokenized.token_ids:
        raise InvalidFieldError(field, "The prompt has no tokens; give it at least one.")
    check_token_ids(model, field, tokenized.token_ids)
    return tokenized


def detokenize(model: TextModel, token_ids: Sequence[int], *, include_special_tokens: bool) -> str:
    """Turn token ids into text; bytes that are not UTF-8 become U+FFFD.

    Raises:
        InvalidFieldError: an id is not one of the model's.
    """
    check_token_ids(model, "token_ids", token_ids)
    detokenizer = model.tokenizer.decoder.start()
    parts = [detokenizer.feed(id_, show_special=include_special_tokens) for id_ in token_ids]
    return "".join([*parts, detokenizer.flush()])


def check_token_ids(model: TextModel, field: str, token_ids: Sequence[int]) -> None:
    """Check that all ids are the model's.

    Raises:
        InvalidFieldError: some are not.
    """
    if token_ids and not 0 <= min(token_ids) <= max(token_ids) < model.vocabulary_size:
        message = f"The token ids must be from 0 to {model.vocabulary_size - 1}."
        raise InvalidFieldError(field, message)


def _chat_length(prompt: ChatPrompt) -> int:
    length = sum(len(message.content) for message in prompt.messages)
    calls = [call for message in prompt.messages for call in message.tool_calls]
    length += sum(len(call.arguments_json) for call in calls)
    tools = prompt.tool_use.tools
    return length + sum(len(tool.description) + len(tool.parameters_json) for tool in tools)


def _check_unicode(field: str, texts: Iterable[str]) -> None:
    try:
        for text in texts:
            text.encode()
    except UnicodeEncodeError as error:
        message = "The text must be Unicode; it has half of a surrogate pair."
        raise InvalidFieldError(field, message) from error


def _tokenize_text(model: TextModel, prompt: TextPrompt, max_tokens: int | None) -> TokenizedPrompt:
    _check_length(model, "text", prompt.text, max_tokens)
    token_ids = model.tokenizer.encode(prompt.text, add_special_tokens=prompt.add_special_tokens)
    return TokenizedPrompt(tuple(token_ids), prompt.text)


def _tokenize_gap(model: TextModel, prompt: TextPrompt, max_tokens: int | None) -> TokenizedPrompt:
    infill_format = model.infill_format
    if infill_format is None:
        message = (
            "suffix needs a model that fills in the middle, and this one has no control tokens "
            "for it; leave it out."
        )
        raise InvalidFieldError("suffix", message)
    _check_unicode("suffix", [prompt.suffix])
    _check_length(model, "text", prompt.text, max_tokens)
    _check_length(model, "suffix", prompt.suffix, max_tokens)
    tokenizer = model.tokenizer
    token_ids = infill_format.token_ids(
        tokenizer.encode_before_gap(prompt.text),
        tokenizer.encode_after_gap(prompt.suffix),
        tokenizer.beginning if prompt.add_special_tokens else None,
    )
    return TokenizedPrompt(tuple(token_ids), infill_format.text(prompt.text, prompt.suffix))


def _tokenize_chat(
    model: TextModel, prompt: ChatPrompt, max_tokens: int | None, closes_reasoning: bool
) -> TokenizedPrompt:
    template = _require_template(model, has_tools=bool(prompt.tool_use.offered))
    variables = template_variables(prompt)
    for name in model.tokenizer.special_tokens.keys() & variables.arguments.keys():
        field = "chat.template_arguments_json"
        raise InvalidFieldError(field, f"{field} must not set {name}, as the model does.")
    if not template.shows_tools:
        messages = with_tools_as_text(variables.messages, variables.tools)
        variables = TemplateVariables(messages, [], variables.arguments)
    variables, marks = _mark_control_tokens(model.tokenizer.control_tokens, variables)
    text = _render(template, prompt, variables)
    if closes_reasoning and model.reasoning_tags is not None and prompt.add_generation_prompt:
        text = close_reasoning(model.reasoning_tags, text)
    if marks is None:
        _check_length(model, "chat.messages", text, max_tokens)
        # The template writes the model's tokens for the start of a text itself.
        token_ids = model.tokenizer.encode(text, add_special_tokens=False)
        return TokenizedPrompt(tuple(token_ids), text)
    marked = marks.take(text)
    _check_length(model, "chat.messages", marked.text, max_tokens)
    return TokenizedPrompt(tuple(model.tokenizer.encode_marked(marked)), marked.text)


def _require_template(model: TextModel, *, has_tools: bool) -> ChatTemplate:
    template = model.tool_template if has_tools else model.chat_template
    if template is None:
        message = (
            "The model has no chat template; send the prompt as text, or start the server with "
            "--chat-template."
        )
        raise InvalidFieldError("chat", message)
    return template


def _mark_control_tokens(
    finder: ControlTokenFinder, variables: TemplateVariables
) -> tuple[TemplateVariables, Marks | None]:
    """Return the variables with marks round their control tokens; None where they have none."""
    # The keys of messages are the server's own, and chats have many of them.
    contents = [list(message.values()) for message in variables.messages]
    value: list[Any] = [contents, variables.tools, variables.arguments]
    for field, part in zip(_JSON_FIELDS, value, strict=True):
        _check_unicode(field, texts_in(part))
    texts = list(texts_in(value))
    spans = finder.find(texts)
    if not any(spans):
        return variables, None
    marks = Marks(*unused_characters(texts, 2))
    marked = map(marks.put, texts, spans)
    contents, tools, arguments = with_texts(value, partial(next, marked))
    messages = [
        dict(zip(message, values, strict=True))
        for message, values in zip(variables.messages, contents, strict=True)
    ]
    return TemplateVariables(messages, tools, arguments), marks


def _render(template: ChatTemplate, prompt: ChatPrompt, variables: TemplateVariables) -> str:
    messages, tools, arguments = variables.messages, variables.tools, variables.arguments
    if prompt.continue_final_message:
        return template.render_open(messages, tools=tools, arguments=arguments)
    return template.render(
        messages,
        add_generation_prompt=prompt.add_generation_prompt,
        tools=tools,
        arguments=arguments,
    )


def _check_length(model: TextModel, field: str, text: str, max_tokens: int | None) -> None:
    """Refuse a text whose beginning alone is longer than `max_tokens`."""
    if max_tokens is None or len(text) <= PREVIEW_CHARACTERS_PER_TOKEN * max_tokens:
        return
    preview = text[: PREVIEW_CHARACTERS_PER_TOKEN * max_tokens]
    token_ids = model.tokenizer.encode(preview, add_special_tokens=False)
    least = len(token_ids) - PREVIEW_MARGIN_TOKENS
    if least > max_tokens:
        message = (
            f"The prompt is too long: its token count is at least {least}, and the context "
            f"length is {max_tokens}; shorten the prompt."
        )
        raise ContextLengthExceededError(field, message)
