"""Tells whether the engine can follow a constraint, by doing what the engine will do."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

import numpy as np
from llguidance import LLMatcher

from headrace_server.engine.grammar_vocabulary import GrammarError, GrammarVocabulary
from headrace_server.grammar.messages import Sound, Unsound
from headrace_server.grammar.refusal import (
    ConstraintRefusedError,
    explain,
    explain_warnings,
    invalid,
    too_complex,
)
from headrace_server.grammar.spec import JsonSchemaConstraint, ToolCallsConstraint
from headrace_server.grammar.tool_calls import arguments_schema
from headrace_server.grammar.translation import to_grammar

if TYPE_CHECKING:
    from headrace_server.grammar.messages import Verdict
    from headrace_server.grammar.spec import ConstraintSpec

# Tokens of a text that is made up to see whether its masks are made in time.
_NUM_TRIAL_TOKENS: Final = 12

# Of one mask, of the processor: everybody's step waits for it. Most take a fiftieth.
_MAX_MASK_SECONDS: Final = 0.1


def check(spec: ConstraintSpec, vocabulary: GrammarVocabulary) -> Verdict:
    """Compile a constraint, which may take for ever or any memory, and follow it for a while."""
    try:
        if isinstance(spec, ToolCallsConstraint):
            _check_tools(spec)
        grammar = to_grammar(spec)
        _check_warnings(spec, grammar)
        _try_out(spec, vocabulary, vocabulary.matcher(grammar))
    except ConstraintRefusedError as error:
        return Unsound(str(error))
    except (GrammarError, ValueError) as error:
        return Unsound(explain(spec, str(error)))
    return Sound(grammar)


def _check_tools(spec: ToolCallsConstraint) -> None:
    """Check the schemas one by one, so that the refusal can name the tool."""
    for tool in spec.tools:
        part = JsonSchemaConstraint(arguments_schema(tool.parameters_json))
        try:
            grammar = to_grammar(part)
            is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar)
            problem = explain(part, messages[0]) if is_error else explain_warnings(part, messages)
        except ConstraintRefusedError as error:
            problem = str(error)
        if problem is not None:
            raise ConstraintRefusedError(f'Tool "{tool.name}": {problem}')


def _check_warnings(spec: ConstraintSpec, grammar: str) -> None:
    is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar)
    problem = None if is_error else explain_warnings(spec, messages)
    if problem is not None:
        raise ConstraintRefusedError(problem)


def _try_out(spec: ConstraintSpec, vocabulary: GrammarVocabulary, matcher: LLMatcher) -> None:
    _try_openings(spec, vocabulary, matcher)
    choice = random.Random(0)  # noqa: S311  # any text will do
    for num_tokens in range(_NUM_TRIAL_TOKENS):
        token_ids = [] if matcher.is_stopped() else _allowed(spec, vocabulary, matcher)
        if not token_ids:
            if num_tokens == 0:
                raise ConstraintRefusedError(invalid(spec, "it matches no text but an empty one"))
            return
        if not matcher.consume_token(choice.choice(token_ids)):
            raise ConstraintRefusedError(too_complex(spec))  # what it allows, it cannot follow


def _try_openings(spec: ConstraintSpec, vocabulary: GrammarVocabulary, matcher: LLMatcher) -> None:
    """Begin the text with an object and with an array, which are what gets complex."""
    token_ids = _allowed(spec, vocabulary, matcher)
    for token_id in vocabulary.token_ids("{[") & set(token_ids):
        if not matcher.deep_copy().consume_token(token_id):
            raise ConstraintRefusedError(too_complex(spec))


def _allowed(spec: ConstraintSpec, vocabulary: GrammarVocabulary, matcher: LLMatcher) -> list[int]:
    start = time.thread_time()
    mask = vocabulary.text_mask(matcher)
    if time.thread_time() - start > _MAX_MASK_SECONDS:
        raise ConstraintRefusedError(too_complex(spec))
    token_ids: list[int] = np.flatnonzero(
        np.unpackbits(mask.view(np.uint8), bitorder="little")
    ).tolist()
    return token_ids
