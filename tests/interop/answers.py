"""The responses of a Generate call: whether they keep the contract, and their joined answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.protobuf.json_format import MessageToDict

if TYPE_CHECKING:
    from headrace.v1 import inference_service_pb2 as pb

_NUM_BYTE_TOKENS = 256  # of the simulated model: its other tokens are control tokens


@dataclass
class Candidate:
    """One answer."""

    text: str = ""
    reasoning: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[dict] = field(default_factory=list)
    finish: dict | None = None

    def text_of_tokens(self) -> str:
        """The text that the tokens of the simulated model make, whose ids are bytes."""
        return bytes(i for i in self.token_ids if i < _NUM_BYTE_TOKENS).decode(errors="replace")


@dataclass
class Answer:
    """All that one call has answered, without what differs from one time to the next."""

    prompt_token_count: int | None = None
    prompt_logprobs: list[dict] = field(default_factory=list)
    candidates: dict[int, Candidate] = field(default_factory=dict)
    usage: dict | None = None


def join(responses: list[pb.GenerateResponse]) -> Answer:
    """Join the deltas of a stream."""
    answer = Answer()
    for response in responses:
        if response.HasField("prompt"):
            answer.prompt_token_count = response.prompt.token_count
        if response.HasField("usage"):
            answer.usage = MessageToDict(response.usage)
        answer.prompt_logprobs += map(MessageToDict, response.prompt_logprobs)
        for delta in response.deltas:
            candidate = answer.candidates.setdefault(delta.candidate_index, Candidate())
            candidate.text += delta.text
            candidate.reasoning += delta.reasoning_text
            candidate.token_ids += delta.token_ids
            candidate.logprobs += map(MessageToDict, delta.logprobs)
            if delta.HasField("finish"):
                candidate.finish = MessageToDict(delta.finish)
    return answer


def faults(responses: list[pb.GenerateResponse], *, is_whole: bool) -> list[str]:
    """What of the contract of Generate the responses do not keep."""
    found = [
        f"response {i} {'has' if i else 'lacks'} the prompt"
        for i, response in enumerate(responses)
        if response.HasField("prompt") == bool(i)
    ]
    finished: set[int] = set()
    for i, response in enumerate(responses):
        for delta in response.deltas:
            if delta.candidate_index in finished:
                found.append(f"response {i} goes on with candidate {delta.candidate_index}")
            if delta.HasField("finish"):
                finished.add(delta.candidate_index)
    if is_whole:
        found += _faults_of_the_end(responses, finished)
    return found


def _faults_of_the_end(responses: list[pb.GenerateResponse], finished: set[int]) -> list[str]:
    if not responses:
        return ["there is no response"]
    found = [] if finished else ["no candidate is finished"]
    last = responses[-1]
    if not (last.HasField("usage") and last.HasField("timing")):
        found.append("the last response lacks usage or timing")
    if any(response.HasField("usage") for response in responses[:-1]):
        found.append("a response before the last has usage")
    if seen := {delta.candidate_index for r in responses for delta in r.deltas} - finished:
        found.append(f"candidates {seen} have no finish")
    return found
