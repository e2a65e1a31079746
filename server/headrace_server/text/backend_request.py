"""Resolves a request and its tokens into what the backend is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from headrace_server.backends.interface import BackendRequest, SamplingParams
from headrace_server.errors import ContextLengthExceededError, InvalidFieldError
from headrace_server.text.prompt import check_token_ids, prompt_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace_server.engine.messages import Constraint
    from headrace_server.text.generation import GenerationRequest, Sampling
    from headrace_server.text.model import TextModel

Number = TypeVar("Number", int, float)


def to_backend_request(
    model: TextModel,
    request: GenerationRequest,
    prompt_token_ids: Sequence[int],
    constraint: Constraint | None,
    default_seed: int,
) -> BackendRequest | None:
    """Fill in the model's defaults.

    Args:
        model: the model that is to answer.
        request: what is asked for.
        prompt_token_ids: its prompt.
        constraint: that of the request, as the engine follows it.
        default_seed: for a request without a seed of its own.

    Returns:
        What the backend is asked; None where there is nothing to compute.

    Raises:
        ContextLengthExceededError: prompt and output do not fit the context.
        InvalidFieldError: a token id is not one of the model's, or the least number of output
            tokens does not fit.
    """
    stopping = request.stopping
    max_output_tokens = _resolve_max_output_tokens(model, request, len(prompt_token_ids))
    check_token_ids(model, "stopping.stop_token_ids", stopping.stop_token_ids)
    check_token_ids(model, "sampling.logit_bias", list(request.sampling.logit_bias))
    num_candidates = request.num_candidates
    if max_output_tokens == 0:
        if request.num_prompt_top_logprobs is None:
            return None
        # To read the prompt, the backend has to continue it.
        max_output_tokens = num_candidates = 1
    end_of_text = () if stopping.ignore_end_of_text else model.end_token_ids(request.prompt)
    return BackendRequest(
        request_id=request.request_id,
        prompt_token_ids=prompt_token_ids,
        sampling=_resolve_sampling(model.default_sampling, request.sampling, default_seed),
        max_output_tokens=max_output_tokens,
        min_output_tokens=stopping.min_output_tokens,
        stop_token_ids=frozenset(stopping.stop_token_ids).union(end_of_text),
        num_candidates=num_candidates,
        num_top_logprobs=request.num_top_logprobs,
        num_prompt_top_logprobs=request.num_prompt_top_logprobs,
        constraint=constraint,
        priority=request.priority,
        caller=request.caller,
        cache_identity=_to_cache_identity(request),
    )


def _to_cache_identity(request: GenerationRequest) -> str:
    """Join the name of the key, which has no spaces, and the salt, so that no two pairs are alike.

    Where there are no keys, the salt alone tells callers apart.
    """
    return f"{request.key_name} {request.cache_salt}" if request.key_name else request.cache_salt


def _resolve_max_output_tokens(
    model: TextModel, request: GenerationRequest, num_prompt_tokens: int
) -> int:
    """Return the largest number of output tokens, which is 0 only when asked for."""
    stopping = request.stopping
    room = model.context_length - num_prompt_tokens
    wanted = stopping.max_output_tokens
    if room < 0 or (room == 0 and (wanted is None or request.num_prompt_top_logprobs is not None)):
        message = (
            f"The prompt is too long: its token count is {num_prompt_tokens}, and the context "
            f"length is {model.context_length}, output included; shorten the prompt."
        )
        raise ContextLengthExceededError(prompt_field(request.prompt), message)
    if wanted is not None and wanted > room:
        message = (
            f"stopping.max_output_tokens is {wanted} and the token count of the prompt is "
            f"{num_prompt_tokens}, together more than the context length of "
            f"{model.context_length}; shorten the prompt or ask for at most {room}."
        )
        raise ContextLengthExceededError("stopping.max_output_tokens", message)
    if stopping.min_output_tokens > room:
        message = (
            f"stopping.min_output_tokens is {stopping.min_output_tokens}, and the prompt leaves "
            f"room for at most {room}."
        )
        raise InvalidFieldError("stopping.min_output_tokens", message)
    return room if wanted is None else wanted


def _resolve_sampling(default: Sampling, wanted: Sampling, default_seed: int) -> SamplingParams:
    top_k = _or_default(wanted.top_k, default.top_k)
    return SamplingParams(
        temperature=_or_default(wanted.temperature, default.temperature),
        top_k=top_k or None,
        top_p=_or_default(wanted.top_p, default.top_p),
        min_p=_or_default(wanted.min_p, default.min_p),
        seed=_or_default(wanted.seed, default_seed),
        logit_bias=wanted.logit_bias,
        presence_penalty=_or_default(wanted.presence_penalty, default.presence_penalty),
        frequency_penalty=_or_default(wanted.frequency_penalty, default.frequency_penalty),
        repetition_penalty=_or_default(wanted.repetition_penalty, default.repetition_penalty),
    )


def _or_default(wanted: Number | None, default: Number | None) -> Number:
    assert default is not None  # see TextModel.default_sampling
    return default if wanted is None else wanted
