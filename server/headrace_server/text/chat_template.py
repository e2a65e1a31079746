"""Renders a conversation with a model's Jinja chat template, as transformers does.

A template comes with the model and a conversation from anyone: the template runs in
a sandbox, and what it makes of a conversation is bounded in size and time.
"""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.nodes
import jinja2.runtime
from jinja2.sandbox import ImmutableSandboxedEnvironment

from headrace_server.errors import InvalidFieldError, TemplateRefusalError
from headrace_server.text.control_tokens import unused_characters
from headrace_server.text.template_values import texts_in

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jinja2.parser import Parser

    from headrace_server.text.template_variables import Message

# Characters of a rendered chat: several times the largest request, and small enough for many at
# once.
MAX_RENDERED_CHARACTERS = 16 * 1024 * 1024

# Seconds a template may take: some thousand times what a usual chat takes.
MAX_RENDER_SECONDS = 5.0

# Characters of a template's own words in an error message.
MAX_REFUSAL_CHARACTERS = 200

_DEADLINE = "headrace deadline"  # no name that a template can write


class TemplateSyntaxError(Exception):
    """A chat template cannot be compiled; the message is one sentence."""


class ChatTemplate:
    """A compiled chat template. `render` may run in several threads at once.

    Args:
        source: the Jinja text.
        special_tokens: variables such as ``bos_token``.

    Attributes:
        source: as it was given.
        shows_tools: whether there is a place for tools in it.

    Raises:
        TemplateSyntaxError: `source` is not valid.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        self.source = source
        try:
            self._template, variables = _compile(source)
        except jinja2.TemplateSyntaxError as error:
            message = f"the chat template is not valid in line {error.lineno}; correct it"
            raise TemplateSyntaxError(message) from error
        except Exception as error:  # Jinja leaves much to Python, which has limits of its own
            message = "the chat template cannot be compiled; make it simpler"
            raise TemplateSyntaxError(message) from error
        self.shows_tools = "tools" in variables
        self._special_tokens = dict(special_tokens)

    def render(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Any] = (),
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the text of a conversation.

        Args:
            messages: see `TemplateVariables`.
            add_generation_prompt: whether it ends with the opening of an answer.
            tools: see `TemplateVariables`.
            arguments: further variables, none of which the server sets.

        Raises:
            InvalidFieldError: the template refuses the messages, fails on them or
                makes too much of them.
        """
        variables = {
            **(arguments or {}),
            "messages": messages,
            "tools": tools or None,
            "documents": None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self._render(variables)
        except _RefusedByTemplateError as error:
            words = _one_line(str(error))
            message = f"The model's chat template refuses these messages: {words}"
            raise TemplateRefusalError("chat.messages", message) from error
        except InvalidFieldError:
            raise
        except Exception as error:  # a template can fail in any way
            message = (
                "The model's chat template fails on these messages; send others, or the prompt as "
                "text."
            )
            raise InvalidFieldError("chat.messages", message) from error

    def render_open(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Any] = (),
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """Return the text of a conversation up to the end of its last message's content.

        Args:
            messages: as for `render`.
            tools: as for `render`.
            arguments: as for `render`.

        Raises:
            InvalidFieldError: as `render`, or the template changes that content so
                that its end cannot be found.
        """
        content = messages[-1]["content"]
        # The space is there to see whether the template trims: then what ends in
        # white space is trimmed where it is cut as well.
        [mark] = unused_characters(list(texts_in([*messages, *tools, arguments])), 1)
        end = mark + " "
        last = messages[-1] | {"content": content + end}
        text = self.render(
            [*messages[:-1], last], add_generation_prompt=False, tools=tools, arguments=arguments
        )
        before, found, after = text.rpartition(mark)
        if not found or content.strip() not in before:
            message = (
                "The model's chat template changes the last message, so it cannot be continued; "
                "add a new message or send the prompt as text."
            )
            raise InvalidFieldError("chat.messages", message)
        before = before.replace(end, "").replace(mark, "")  # where the content is shown twice
        return before if after.startswith(" ") else before.rstrip()

    def _render(self, variables: Mapping[str, Any]) -> str:
        deadline = time.monotonic() + MAX_RENDER_SECONDS
        parts = []
        length = 0
        for part in self._template.generate(
            {**variables, **self._special_tokens, _DEADLINE: deadline}
        ):
            parts.append(part)
            length += len(part)
            if length > MAX_RENDERED_CHARACTERS:
                raise _too_much()
            _check_time(deadline)
        text = "".join(parts)
        text.encode()  # a template can write half of a surrogate pair
        return text


class _RefusedByTemplateError(jinja2.TemplateError):
    """The template called ``raise_exception``."""


def _one_line(text: str) -> str:
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words[:MAX_REFUSAL_CHARACTERS]


def _compile(source: str) -> tuple[jinja2.Template, set[str]]:
    """Compile a template in which every turn of a loop and every call of a macro looks at the time.

    Without that, one that writes nothing would never be interrupted.

    Returns:
        The template, and the names of the variables that it takes.
    """
    environment = _environment()
    tree = environment.parse(source)
    variables = jinja2.meta.find_undeclared_variables(tree)
    loops, macros = tree.find_all(jinja2.nodes.For), tree.find_all(jinja2.nodes.Macro)
    bodies = [node.body for node in loops] + [node.body for node in macros]
    for body in bodies:
        look = jinja2.nodes.Call(
            jinja2.nodes.EnvironmentAttribute("look_at_the_time"),
            [jinja2.nodes.ContextReference()],
            [],
            None,
            None,
        )
        body.insert(0, jinja2.nodes.ExprStmt(look, lineno=1))
    tree.set_environment(environment)
    return environment.from_string(tree), variables


class _Environment(ImmutableSandboxedEnvironment):
    """The sandbox of chat templates."""

    @staticmethod
    def look_at_the_time(context: jinja2.runtime.Context) -> None:
        """Stop a template that takes too long."""
        # What a template sets is in another place than what it was given.
        _check_time(context.parent[_DEADLINE])


def _check_time(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise _too_much()


def _too_much() -> InvalidFieldError:
    message = "The model's chat template makes too much of these messages; send fewer."
    return InvalidFieldError("chat.messages", message)


def _environment() -> _Environment:
    environment = _Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, jinja2.ext.loopcontrols],
        optimized=False,  # what a template computes belongs to a render, and to its time
    )
    del environment.globals["lipsum"]  # makes text without end, which no chat needs
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    environment.globals["dict"] = _make_dict
    environment.globals["namespace"] = _Namespace
    return environment


class _Generation(jinja2.ext.Extension):
    """The block that marks what a model writes in training; its body is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja2

    def parse(self, parser: Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


class _Namespace(jinja2.utils.Namespace):
    """A namespace whose attributes cannot reach into Python."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        namespace, *pairs = args  # so that a template can name an attribute `self`
        attributes = dict(*pairs, **kwargs)
        for name in attributes:
            _refuse_private(name)
        jinja2.utils.Namespace.__init__(namespace, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _refuse_private(name)
        super().__setitem__(name, value)


def _refuse_private(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError("a namespace has no private attributes")


def _make_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes HTML.
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _raise_exception(message: str) -> NoReturn:
    raise _RefusedByTemplateError(message)
