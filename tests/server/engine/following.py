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


def walk(state, end_token_ids, choice, *, num_free_tokens=30, max_num_tokens=4000):
    """Make an output of random tokens, which ends as soon as it may after some.

    Returns:
        The token ids without an end of text; None where the output got too long.
    """
    ends = set(end_token_ids)
    output = []
    while not state.is_complete:
        token_ids = allowed(state)
        assert token_ids, output
        may_end = ends.intersection(token_ids)
        if may_end and (len(output) >= num_free_tokens or len(may_end) == len(token_ids)):
            return output
        token_ids = [token_id for token_id in token_ids if token_id not in ends]
        output.append(choice.choice(token_ids))
        assert state.accept(output[-1])
        if len(output) == max_num_tokens:
            return None
    return output
