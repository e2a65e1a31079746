"""What chats and completions have in common: model, sampling, stopping, streaming."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.v1 import inference_service_pb2, output_pb2, sampling_pb2, stopping_pb2
from headrace_gateway.openai.api_error import invalid_field
from headrace_gateway.openai.forms import read_form
from headrace_gateway.openai.tools import tool_json_path

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace_gateway.openai.forms import Form

_SAMPLING = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
    "logit_bias",
)

_JSON_PATHS = {
    "stopping.min_output_tokens": "min_tokens",
    "stopping.stop_sequences": "stop",
    "stopping.stop_token_ids": "stop_token_ids",
    "stopping.ignore_end_of_text": "ignore_eos",
    "stopping.include_stop_in_output": "include_stop_str_in_output",
    "chat.messages": "messages",
    "chat.add_generation_prompt": "add_generation_prompt",
    "chat.continue_final_message": "continue_final_message",
    "chat": "messages",
    "text": "prompt",
    "token_ids.ids": "prompt",
    "token_ids": "prompt",
    "model": "model",
    "priority": "priority",
    "cache_salt": "cache_salt",
    "sampling.candidate_count": "n",
    "add_special_tokens": "add_special_tokens",
    "suffix": "suffix",
    "output.special_tokens": "skip_special_tokens",
    "output.top_logprobs": "top_logprobs",
    "output.prompt_logprobs": "prompt_logprobs",
    **{f"sampling.{name}": name for name in _SAMPLING},
}
"""The paths of the contract's fields and the JSON paths that were made into them."""


@dataclass(frozen=True, slots=True)
class Options:
    """The wishes that are the same for every prompt of a request.

    Args:
        model: the name asked for; empty for the served model.
        request_id: the caller's label; empty for none.
        request_id_field: the JSON field that it came from.
        stream: whether the answer is sent as it is made.
        include_usage: whether a stream ends with the token counts.
        max_tokens: the most output tokens; None leaves it to the server.
        max_tokens_field: the JSON field that `max_tokens` came from.
        sampling: as in the contract; what was not given is not set.
        stopping: as in the contract, without max_output_tokens.
        num_candidates: how many answers each prompt gets, as asked for.
        top_logprobs: as in the contract; None tells no log probabilities.
        show_special_tokens: whether control tokens have their names in the text.
        form: that of the answers; None for any.
        priority: as in the contract.
        cache_salt: as in the contract.
    """

    model: str
    request_id: str
    request_id_field: str
    stream: bool
    include_usage: bool
    max_tokens: int | None
    max_tokens_field: str
    sampling: sampling_pb2.Sampling
    stopping: stopping_pb2.Stopping
    num_candidates: int
    top_logprobs: int | None
    show_special_tokens: bool
    form: Form | None
    priority: int
    cache_salt: str

    def to_generate_request(self) -> inference_service_pb2.GenerateRequest:
        """Return a request to which only the prompt is missing."""
        request = inference_service_pb2.GenerateRequest(
            model=self.model,
            request_id=self.request_id,
            sampling=self.sampling,
            stopping=self.stopping,
            constraint=None if self.form is None else self.form.constraint,
            priority=self.priority,
            cache_salt=self.cache_salt,
        )
        if self.max_tokens is not None:
            request.stopping.max_output_tokens = self.max_tokens
        if self.top_logprobs is not None:
            request.output.top_logprobs = self.top_logprobs
        if self.show_special_tokens:
            request.output.special_tokens = True
        if not self.stream:
            request.output.chunking.CopyFrom(output_pb2.Chunking(whole=True))
        return request

    def json_path(self, path: str) -> str | None:
        """Return the JSON path of a field of the contract; None where there is none.

        ``chat.messages[0].role`` gives ``messages[0].role``.
        """
        entries = {
            **_JSON_PATHS,
            "request_id": self.request_id_field,
            "stopping.max_output_tokens": self.max_tokens_field,
        }
        if self.form is not None and path.partition(".")[0] == "constraint":
            return self.form.path
        if (tool_path := tool_json_path(path)) is not None:
            return tool_path
        for entry, json_path in entries.items():
            if path == entry or path.startswith((f"{entry}.", f"{entry}[")):
                return json_path + path.removeprefix(entry)
        return None


def read_options(
    values: Mapping[str, Any], *, max_tokens_field: str, default_max_tokens: int | None
) -> Options:
    """Build the options from the values of `fields.read_fields`.

    Raises:
        ApiError: 400, stream_options without a stream, top_logprobs without logprobs, or several
            forms for the answer.
    """
    stream = values.get("stream", False)
    stream_options = values.get("stream_options")
    if stream_options is not None and not stream:
        raise invalid_field("stream_options", "stream_options needs stream to be true.")
    request_id_field = "request_id" if "request_id" in values else "rid"
    return Options(
        model=values.get("model", ""),
        request_id=values.get(request_id_field, ""),
        request_id_field=request_id_field,
        stream=stream,
        include_usage=stream_options is not None and stream_options.include_usage,
        max_tokens=values.get(max_tokens_field, default_max_tokens),
        max_tokens_field=max_tokens_field,
        sampling=_sampling(values),
        stopping=_stopping(values),
        num_candidates=values.get("n", 1),
        top_logprobs=_top_logprobs(values),
        show_special_tokens=not values.get("skip_special_tokens", True),
        form=read_form(values),
        priority=values.get("priority", 0),
        cache_salt=values.get("cache_salt", ""),
    )


def _top_logprobs(values: Mapping[str, Any]) -> int | None:
    count: int = values.get("top_logprobs", 0)
    if values.get("logprobs"):
        return count
    if count:
        raise invalid_field("top_logprobs", "top_logprobs needs logprobs to be true.")
    return None


def _sampling(values: Mapping[str, Any]) -> sampling_pb2.Sampling:
    given = {name: values[name] for name in _SAMPLING if name in values}
    if given.get("top_k") == -1:  # "all tokens" in vLLM's dialect, 0 in the contract
        given["top_k"] = 0
    if "n" in values:
        given["candidate_count"] = values["n"]
    return sampling_pb2.Sampling(**given)


def _stopping(values: Mapping[str, Any]) -> stopping_pb2.Stopping:
    return stopping_pb2.Stopping(
        min_output_tokens=values.get("min_tokens"),
        stop_sequences=values.get("stop", ()),
        stop_token_ids=values.get("stop_token_ids", ()),
        ignore_end_of_text=values.get("ignore_eos"),
        include_stop_in_output=values.get("include_stop_str_in_output"),
    )
