"""The text side of a model: its tokenizer, its chat template and its defaults."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from headrace_server.text.chat_template import ChatTemplate, TemplateSyntaxError
from headrace_server.text.generation import TextPrompt
from headrace_server.text.infill import find_infill_format
from headrace_server.text.model_defaults import read_default_sampling, read_end_of_text_token_ids
from headrace_server.text.model_files import ModelFileError, read_optional_json, read_text
from headrace_server.text.template_traits import find_call_format, find_reasoning_tags
from headrace_server.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from headrace_server.backends.interface import BackendModel
    from headrace_server.text.generation import Prompt, Sampling
    from headrace_server.text.infill import InfillFormat
    from headrace_server.text.parsing.formats import ToolCallFormat
    from headrace_server.text.parsing.reasoning import ReasoningTags


_TOOL_TEMPLATE: Final = "tool_use"  # as transformers calls it


@dataclass(frozen=True, slots=True)
class TextModel:
    """What the front knows of a model; several threads may use it at once.

    Args:
        tokenizer: text to tokens and back.
        chat_template: None where the model has none.
        tool_template: the one for chats with tools, which for most models is the same.
        context_length: largest number of tokens of prompt and output together.
        vocabulary_size: number of token ids.
        end_of_text_token_ids: the ids with which the model says that it is done.
        default_sampling: every value but the seed is set.
        call_format: that in which the model calls tools by itself; None where it is not known.
        reasoning_tags: None where the model does not mark its reasoning.
        infill_format: None where the model has no tokens to fill in the middle of a text.
    """

    tokenizer: Tokenizer
    chat_template: ChatTemplate | None
    tool_template: ChatTemplate | None
    context_length: int
    vocabulary_size: int
    end_of_text_token_ids: tuple[int, ...]
    default_sampling: Sampling
    call_format: ToolCallFormat | None
    reasoning_tags: ReasoningTags | None
    infill_format: InfillFormat | None

    @classmethod
    def load(
        cls,
        model: BackendModel,
        chat_template_file: Path | None = None,
        call_format: ToolCallFormat | None = None,
    ) -> TextModel:
        """Read the files of a model.

        Args:
            model: the loaded model.
            chat_template_file: a template in place of the model's own.
            call_format: in place of the one that the template speaks for.

        Raises:
            ModelFileError: a file is missing or broken.
        """
        tokenizer = Tokenizer.load(model.directory)
        template = _load_chat_template(model.directory, tokenizer, chat_template_file)
        tool_template = template
        if chat_template_file is None:
            tool_template = _load_tool_template(model.directory, tokenizer) or template
        return cls(
            tokenizer=tokenizer,
            chat_template=template,
            tool_template=tool_template,
            context_length=model.context_length,
            vocabulary_size=model.vocabulary_size,
            end_of_text_token_ids=_end_of_text_token_ids(model, tokenizer),
            default_sampling=read_default_sampling(model.directory),
            call_format=call_format or find_call_format(tool_template),
            reasoning_tags=find_reasoning_tags(template),
            infill_format=find_infill_format(partial(_known_token_id, model, tokenizer)),
        )

    @property
    def has_chat_template(self) -> bool:
        """Whether the model takes chats."""
        return self.chat_template is not None

    @property
    def has_reasoning(self) -> bool:
        """Whether answers to chats may have reasoning."""
        return self.reasoning_tags is not None

    @property
    def fills_in(self) -> bool:
        """Whether the model takes a text with a gap."""
        return self.infill_format is not None

    def end_token_ids(self, prompt: Prompt) -> frozenset[int]:
        """Return the ids with which the model says that an answer to this prompt is done."""
        ends = frozenset(self.end_of_text_token_ids)
        if self.infill_format is None or not isinstance(prompt, TextPrompt) or not prompt.suffix:
            return ends
        return ends | self.infill_format.end_token_ids

    @property
    def tokenizer_fingerprint(self) -> str:
        """The SHA-256 of tokenizer.json in hexadecimal."""
        return self.tokenizer.fingerprint


def _known_token_id(model: BackendModel, tokenizer: Tokenizer, token: str) -> int | None:
    """Return the id of a token that the weights know, too."""
    token_id = tokenizer.token_id(token)
    return token_id if token_id is not None and token_id < model.vocabulary_size else None


def _end_of_text_token_ids(model: BackendModel, tokenizer: Tokenizer) -> tuple[int, ...]:
    token_ids: set[int | None] = set(read_end_of_text_token_ids(model.directory))
    if (eos_token := tokenizer.special_tokens.get("eos_token")) is not None:
        token_ids.add(tokenizer.token_id(eos_token))
    return tuple(sorted(i for i in token_ids if i is not None and 0 <= i < model.vocabulary_size))


def _load_chat_template(
    directory: Path, tokenizer: Tokenizer, chat_template_file: Path | None
) -> ChatTemplate | None:
    path = chat_template_file or directory / "chat_template.jinja"
    if chat_template_file is not None or path.exists():
        return _compile(path, read_text(path), tokenizer)
    return _compile(*_find_older_template(directory, "default"), tokenizer)


def _load_tool_template(directory: Path, tokenizer: Tokenizer) -> ChatTemplate | None:
    """Return the template that a model has for chats with tools only."""
    path = directory / "additional_chat_templates" / f"{_TOOL_TEMPLATE}.jinja"
    if path.exists():
        return _compile(path, read_text(path), tokenizer)
    if (directory / "chat_template.jinja").exists():
        return None
    return _compile(*_find_older_template(directory, _TOOL_TEMPLATE), tokenizer)


def _compile(path: Path, source: str | None, tokenizer: Tokenizer) -> ChatTemplate | None:
    if source is None:
        return None
    try:
        return ChatTemplate(source, tokenizer.special_tokens)
    except TemplateSyntaxError as error:
        raise ModelFileError(path, str(error)) from error


def _find_older_template(directory: Path, name: str) -> tuple[Path, str | None]:
    """Return a template of a model that has no chat_template.jinja, and where it stands."""
    for file_name in ("tokenizer_config.json", "chat_template.json"):
        path = directory / file_name
        source: Any = read_optional_json(path).get("chat_template")
        if isinstance(source, list):  # of templates with names
            templates = [entry for entry in source if isinstance(entry, dict)]
            named = {entry.get("name"): entry.get("template") for entry in templates}
            source = named.get(name)
        elif name != "default":
            source = None
        if isinstance(source, str):
            return path, source
    return path, None
