"""What a client has seen beside what it must see; pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from google.protobuf import json_format
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health_pb2

from headrace.v1 import inference_service_pb2, model_service_pb2
from tests.interop.answers import faults, join

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from tests.interop.answers import Answer, Candidate
    from tests.interop.scenarios import Sees, Step

_SERVICES = [
    inference_service_pb2.DESCRIPTOR.services_by_name["InferenceService"],
    model_service_pb2.DESCRIPTOR.services_by_name["ModelService"],
]
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"]
_RESPONSE_CLASSES = {
    method.name: GetMessageClass(method.output_type)
    for service in _SERVICES
    for method in service.methods
} | {f"Health{method.name}": GetMessageClass(method.output_type) for method in _HEALTH.methods}


@dataclass(frozen=True)
class Asked:
    """What a call was.

    Args:
        route: the name of its route.
        method: as in a line for runners.
        request_id: its `x-request-id`.
        alone: the answer that it has alone, if any.
    """

    route: str
    method: str
    request_id: str
    alone: Answer | None = None


def problems_of(call: dict[str, Any], sees: Sees, asked: Asked) -> list[str]:
    """Compare a call, as a runner tells it, with what it must see."""
    code = sees.code_behind.get(asked.route, sees.code)
    found = [
        f"{key} is {call.get(key)!r}, not {wanted!r}"
        for key, wanted in (("code", code), ("reason", sees.reason), ("field", sees.field))
        if call.get(key) != wanted
    ]
    if found:
        found[-1] += f" ({call.get('message')})"
    if bool(call.get("retry_delay_ms")) != sees.retry:
        found.append(f"retry_delay_ms is {call.get('retry_delay_ms')!r}")
    if sees.reason is not None and not call.get("message"):
        found.append("there is no message")
    for kind, wanted in (("headers", sees.headers), ("trailers", sees.trailers)):
        for key, value in wanted.items():
            expected = value.replace("{request_id}", asked.request_id)
            if call[kind].get(key) != expected:
                found.append(f"{key} in {kind} is {call[kind].get(key)!r}, not {expected!r}")
    try:
        responses = parse(call["responses"], asked.method)
    except json_format.ParseError as error:
        return [*found, f"a response is not ProtoJSON: {error}"]
    return found + _problems_of_responses(responses, sees, asked)


def parse(responses: list[dict[str, Any]], method: str) -> list[Message]:
    """Turn responses in ProtoJSON into messages.

    Raises:
        json_format.ParseError: one is none.
    """
    response_class = _RESPONSE_CLASSES[method]
    return [json_format.ParseDict(response, response_class()) for response in responses]


def _problems_of_responses(responses: list[Message], sees: Sees, asked: Asked) -> list[str]:
    found = []
    if sees.responses is not None and len(responses) != sees.responses:
        found.append(f"there are {len(responses)} responses, not {sees.responses}")
    if sees.holds is not None and responses:
        held = json_format.MessageToDict(responses[0])
        if not holds(held, sees.holds):
            found.append(f"the first response is {held}, without {sees.holds}")
    if sees.answer is not None:
        found += faults(responses, is_whole=sees.answer == "whole")
        found += _problems_of_answer(join(responses), sees, asked.alone)
    elif asked.method == "Generate" and responses:
        found.append(f"there are {len(responses)} responses")
    return found


def holds(value: Any, wanted: Any) -> bool:
    """Whether a value has all that is wanted, perhaps beside other things."""
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            key in value and holds(value[key], wanted[key]) for key in wanted
        )
    if isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(holds, value, wanted))
    return value == wanted


def _problems_of_answer(answer: Answer, sees: Sees, alone: Answer | None) -> list[str]:
    found = []
    if alone is not None and sees.answer == "whole" and answer != alone:
        found.append(f"the answer is {answer}, not {alone}")
    for index, candidate in answer.candidates.items():
        if alone is not None and not _begins_alike(candidate, alone.candidates.get(index)):
            found.append(f"candidate {index} begins with {candidate.text[:50]!r}")
        if sees.finish is not None and (candidate.finish or {}).get("reason") != sees.finish:
            found.append(f"candidate {index} ends with {candidate.finish}")
        if missing := set(sees.characters) - set(candidate.text):
            found.append(f"candidate {index} is {candidate.text!r}, without {missing}")
        if sees.ids and not candidate.token_ids:
            found.append(f"candidate {index} has no token ids")
        if sees.logprobs and len(candidate.logprobs) != len(candidate.token_ids):
            found.append(f"candidate {index} has {len(candidate.logprobs)} log probabilities")
        if candidate.token_ids and candidate.text not in ("", candidate.text_of_tokens()):
            found.append(f"candidate {index} is {candidate.text!r}, its tokens are another text")
    if sees.answer == "whole" and len(answer.candidates) != sees.candidates:
        found.append(f"there are {len(answer.candidates)} candidates, not {sees.candidates}")
    return found


def _begins_alike(candidate: Candidate, alone: Candidate | None) -> bool:
    if alone is None:
        return False
    # Where one of them is cut there may be a character of which the other has more.
    length = min(len(candidate.text), len(alone.text)) - 1
    return candidate.text[: max(length, 0)] == alone.text[: max(length, 0)]


def problems_of_pauses(call: dict[str, Any], pause_ms: float) -> list[str]:
    """Whether a call that was to be read slowly took as long as that takes."""
    wanted_ms = pause_ms * (len(call["responses"]) - 1)
    if call["elapsed_ms"] >= wanted_ms:
        return []
    return [f"the pauses alone take {wanted_ms} ms, but all was read in {call['elapsed_ms']} ms"]


def problems_of_log(calls: list[dict[str, Any]], step: Step, num_tries: int) -> list[str]:
    """Compare the lines of the access log with what the server must have seen of a step.

    Args:
        calls: the lines.
        step: what was done.
        num_tries: how often the route tries a call that is refused so that it may be sent again.
    """
    problems = [
        f"the server has logged {call}"
        for call in calls
        if call["code"] not in step.logs.codes
        or call.get("reason") != step.sees.reason
        or not (step.logs.tokens_below is None or call["output_tokens"] < step.logs.tokens_below)
    ]
    if len(calls) != step.num_calls * (num_tries if step.sees.retry else 1):
        problems.append(f"the server has seen {len(calls)} calls")
    return problems
