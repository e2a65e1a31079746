"""Follows constraints as the engine does, choosing at random among the tokens that are allowed."""

import numpy as np

from headrace_server.engine.messages import Constraint
from headrace_server.grammar.translation import to_grammar


def constraint_of(spec):
    """The grammar of a constraint as the front would send it."""
    return Constraint(to_grammar(spec))


def compiled(compiler, spec, stop_token_ids=()):
    """The state before the first token, waited for."""
    pending = compiler.start(constraint_of(spec), stop_token_ids)
    pending._compilation.grammar.exception(timeout=60)
    return pending.take()


def token_ids_of(words):
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()


def allowed(state, *, may_stop=True):
    """The ids that the next mask allows."""
    return token_ids_of(state.mask(may_stop=may_stop).wait())


def accept_all(state, token_ids):
    """Follow an output; each token must be allowed."""
    for token_id in token_ids:
        assert token_id in allowed(state)
        assert state.accept(token_id)
    return state


def walk(state, end_token_ids, choice, *, closing_token_ids=(), num_free_tokens=16):
    """Make an output of random tokens; those that close bring it to its end after some.

    Returns:
        The token ids, without an end of text.
    """
    output = []
    while not state.is_complete:
        words = state.mask(may_stop=True).wait()
        is_long = len(output) >= num_free_tokens
        ends = [token_id for token_id in end_token_ids if allows(words, token_id)]
        if ends and is_long:
            break
        closing = [token_id for token_id in closing_token_ids if allows(words, token_id)]
        token_ids = closing if closing and is_long else token_ids_of(words)
        assert token_ids, output
        token_id = choice.choice(token_ids)
        if token_id in ends:
            break
        output.append(token_id)
        assert state.accept(token_id)
        assert len(output) < 1000, "it comes to no end"
    return output


def allows(words, token_id):
    return bool(words[token_id // 32] >> token_id % 32 & 1)
