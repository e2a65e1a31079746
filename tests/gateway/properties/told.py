"""What an answer tells, however it comes: whole, in a stream, or over gRPC."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hypothesis import event

from headrace.v1 import stopping_pb2
from tests.gateway.conftest import events_of
from tests.gateway.properties.wishes import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterable

    import aiohttp

    from headrace.v1 import inference_service_pb2 as pb
    from headrace.v1.inference_service_pb2_grpc import InferenceServiceStub
    from headrace.v1.logprobs_pb2 import TokenLogprobs
    from tests.gateway.properties.wishes import Wish

REASONS = {
    stopping_pb2.FINISH_REASON_END_OF_TEXT: "stop",
    stopping_pb2.FINISH_REASON_STOP_SEQUENCE: "stop",
    stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS: "length",
    stopping_pb2.FINISH_REASON_TOOL_CALLS: "tool_calls",
}
ARRAYS = ("tokens", "token_logprobs", "top_logprobs", "text_offset")


@dataclass(slots=True)
class Told:
    """One answer, joined.

    Args:
        calls: the name of each and its arguments.
        logprobs: in a chat the entries; in completions one tuple of the four arrays for each token.
        token_ids: of the output; those of completions only.
        prompt_token_ids: of the prompt; those of completions over HTTP only.
    """

    text: str = ""
    reasoning: str = ""
    calls: list[list[str]] = field(default_factory=list)
    logprobs: list[Any] = field(default_factory=list)
    token_ids: list[int] = field(default_factory=list)
    prompt_token_ids: list[int] = field(default_factory=list)
    reason: str | None = None

    def add(self, choice: dict[str, Any]) -> None:
        """Add what a choice of a whole answer or of a chunk tells."""
        assert self.reason is None, "told more after its end"
        said = choice.get("message") or choice.get("delta") or {}
        assert said.get("reasoning") == said.get("reasoning_content")
        self.text += said.get("content") or choice.get("text") or ""
        self.reasoning += said.get("reasoning") or ""
        for index, call in enumerate(said.get("tool_calls", ())):
            if call.get("id"):
                assert call.get("index", index) == len(self.calls)
                self.calls.append([call["function"]["name"], ""])
            self.calls[-1][1] += call["function"]["arguments"]
        self.logprobs += _logprobs(choice.get("logprobs"))
        self.token_ids += choice.get("token_ids", ())
        self.prompt_token_ids += choice.get("prompt_token_ids", ())
        self.reason = choice["finish_reason"]


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers of a request, and the tokens of the prompt and of all outputs."""

    told: list[Told]
    prompt_tokens: int
    output_tokens: int


async def check_one_answer(
    http: aiohttp.ClientSession, stub: InferenceServiceStub, wish: Wish
) -> None:
    """Check that a request has the same answer whole, in a stream and over gRPC."""
    expected = await whole(http, wish)
    assert await streamed(http, wish) == expected
    responses = [response async for response in stub.Generate(wish.as_call())]
    assert _as_http_tells(wish, _of_grpc(wish, responses)) == _as_grpc_tells(wish, expected)
    for it in expected.told:
        event(f"{it.reason}, calls: {bool(it.calls)}, reasoning: {bool(it.reasoning)}")


async def whole(http: aiohttp.ClientSession, wish: Wish) -> Answers:
    async with http.post(wish.path, json=wish.as_body()) as response:
        assert response.status == 200, await response.text()
        answer = await response.json()
    assert [choice["index"] for choice in answer["choices"]] == list(range(wish.num_answers))
    return _answers(wish, answer["choices"], answer["usage"])


async def streamed(http: aiohttp.ClientSession, wish: Wish) -> Answers:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    async with http.post(wish.path, json=wish.as_body() | options) as response:
        assert response.status == 200, await response.text()
        *chunks, last, done = events_of(await response.text())
    assert (done, last["choices"]) == ("[DONE]", [])
    assert all(chunk["usage"] is None for chunk in chunks)
    return _answers(wish, [c for chunk in chunks for c in chunk["choices"]], last["usage"])


def _answers(wish: Wish, choices: list[dict[str, Any]], usage: dict[str, Any]) -> Answers:
    told = [Told() for _ in range(wish.num_answers)]
    for choice in choices:
        told[choice["index"]].add(choice)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    return Answers(told, usage["prompt_tokens"], usage["completion_tokens"])


def _logprobs(logprobs: dict[str, Any] | None) -> list[Any]:
    if logprobs is None:
        return []
    if "content" in logprobs:
        return logprobs["content"] or []
    return list(zip(*(logprobs[name] for name in ARRAYS), strict=True))


def _of_grpc(wish: Wish, responses: Iterable[pb.GenerateResponse]) -> Answers:
    """Join an answer over gRPC; it tells no ids where HTTP does not, nor the prompt's own."""
    told = [Told() for _ in range(wish.num_answers)]
    for response in responses:
        for delta in response.deltas:
            it = told[delta.candidate_index]
            it.text += delta.text
            it.reasoning += delta.reasoning_text
            for call in delta.tool_calls:
                if call.id:
                    it.calls.append([call.name, ""])
                it.calls[call.index][1] += call.arguments_json
            if wish.path == TEXT:
                it.token_ids += delta.token_ids
            it.logprobs += [_entry(each) for each in delta.logprobs]
            if delta.HasField("finish"):
                it.reason = REASONS[delta.finish.reason]
    return Answers(
        told,
        sum(response.prompt.token_count for response in responses),
        sum(response.usage.output_token_count for response in responses),
    )


def _as_grpc_tells(wish: Wish, answers: Answers) -> Answers:
    """Leave of an answer over HTTP what gRPC tells in the same shape.

    A token without bytes, such as the end of text, has a name in a chat over HTTP.
    """
    for it in answers.told:
        it.prompt_token_ids = []
        if wish.path == TEXT:
            it.logprobs = [logprob for _, logprob, _, _ in it.logprobs]
            continue
        for entry in [each for one in it.logprobs for each in (one, *one["top_logprobs"])]:
            entry["token"] = entry["token"] if entry["bytes"] else ""
    return answers


def _as_http_tells(wish: Wish, answers: Answers) -> Answers:
    """Leave of log probabilities over gRPC what completions over HTTP tell in the same shape."""
    for it in answers.told:
        if wish.path == TEXT:
            it.logprobs = [entry["logprob"] for entry in it.logprobs]
    return answers


def _entry(message: TokenLogprobs) -> dict[str, Any]:
    return _token(message) | {"top_logprobs": [_token(top) for top in message.top]}


def _token(message: Any) -> dict[str, Any]:
    return {
        "token": message.token_bytes.decode("utf-8", "replace"),
        "logprob": message.logprob,
        "bytes": list(message.token_bytes),
    }
