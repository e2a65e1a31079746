"""The request of Generate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from headrace_server.rpc.convert.checks import check_label, check_model_name, require, to_seconds
from headrace_server.rpc.convert.constraint import to_constraint
from headrace_server.rpc.convert.output import to_chunking, to_num_logprobs
from headrace_server.rpc.convert.prompt import to_prompt
from headrace_server.rpc.convert.sampling import to_num_candidates, to_sampling
from headrace_server.rpc.convert.stopping import to_stopping
from headrace_server.rpc.convert.tools import to_tool_calls_constraint
from headrace_server.text.generation import ChatPrompt, GenerationRequest

if TYPE_CHECKING:
    from headrace.v1 import inference_service_pb2 as pb
    from headrace_server.grammar.spec import ConstraintSpec
    from headrace_server.text.generation import Prompt

MAX_DURATION_SECONDS: Final = 24 * 60 * 60.0
# Enough ranks to tell kinds of work apart, and few enough to be remembered.
MAX_PRIORITY: Final = 100
# Room for a random secret in any notation.
MAX_CACHE_SALT_CHARACTERS: Final = 256


def to_generation_request(
    message: pb.GenerateRequest, request_id: str, caller: str, key_name: str = ""
) -> GenerationRequest:
    """Check a request and turn it into the front's own type.

    Args:
        message: as it arrived.
        request_id: the server's own id.
        caller: whose request it is.
        key_name: whose key it came with; empty for none.

    Raises:
        InvalidFieldError: a field is missing, malformed or out of its range.
    """
    check_model_name(message.model, "model")
    check_label(message.request_id)
    require(
        -MAX_PRIORITY <= message.priority <= MAX_PRIORITY,
        "priority",
        f"must be from {-MAX_PRIORITY} to {MAX_PRIORITY}",
    )
    require(
        len(message.cache_salt) <= MAX_CACHE_SALT_CHARACTERS,
        "cache_salt",
        f"must have at most {MAX_CACHE_SALT_CHARACTERS} characters",
    )
    output = message.output
    prompt = to_prompt(message)
    return GenerationRequest(
        request_id=request_id,
        prompt=prompt,
        sampling=to_sampling(message.sampling),
        stopping=to_stopping(message.stopping),
        num_candidates=to_num_candidates(message.sampling),
        want_text=output.text if output.HasField("text") else True,
        want_token_ids=output.token_ids,
        show_special_tokens=output.special_tokens,
        num_top_logprobs=to_num_logprobs(output, "top_logprobs"),
        num_prompt_top_logprobs=to_num_logprobs(output, "prompt_logprobs"),
        chunking=to_chunking(output.chunking),
        constraint=_to_form(message, prompt),
        max_queue_seconds=_to_limit(message, "max_queue_duration"),
        max_seconds=_to_limit(message, "max_duration"),
        priority=message.priority,
        caller=caller,
        key_name=key_name,
        cache_salt=message.cache_salt,
    )


def _to_form(message: pb.GenerateRequest, prompt: Prompt) -> ConstraintSpec | None:
    """Return the form of the answer: that of the constraint, or of calls that are required."""
    tool_use = prompt.tool_use if isinstance(prompt, ChatPrompt) else None
    if not message.HasField("constraint"):
        return None if tool_use is None else to_tool_calls_constraint(tool_use)
    require(
        tool_use is None or not tool_use.offered,
        "constraint",
        "must not be set with tools, unless tool_choice is none",
    )
    return to_constraint(message.constraint)


def _to_limit(
    message: pb.GenerateRequest, field: Literal["max_queue_duration", "max_duration"]
) -> float | None:
    if not message.HasField(field):
        return None
    seconds = to_seconds(getattr(message, field), field)
    require(
        0 < seconds <= MAX_DURATION_SECONDS, field, "must be above 0 s and at most 24 h (86400 s)"
    )
    return seconds
