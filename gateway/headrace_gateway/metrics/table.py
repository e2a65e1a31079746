"""The one table of the gateway's metrics: our own names, and vLLM's where boards ask for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

_FIRST_TOKEN_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_INTER_TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
_ANSWER_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)

_MODEL = ("model_name",)


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric as it is described to Prometheus.

    Args:
        name: our own, in full.
        kind: as Prometheus calls it.
        help: what it counts.
        labels: in the order of their values.
        twin: vLLM's name for the same; None where it has none.
        buckets: the upper bounds of a histogram.
    """

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    twin: str | None = None
    buckets: tuple[float, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names under which it is told."""
        return (self.name,) if self.twin is None else (self.name, self.twin)


REQUESTS: Final = Metric(
    "headrace_gateway_requests_total",
    "counter",
    "HTTP requests that have ended; 499 is a client that left.",
    ("route", "status"),
)
REQUEST_SECONDS: Final = Metric(
    "headrace_gateway_request_seconds",
    "histogram",
    "The time from the head of a request to the end of its handling.",
    ("route",),
    buckets=_ANSWER_SECONDS,
)
REQUESTS_IN_FLIGHT: Final = Metric(
    "headrace_gateway_requests_in_flight", "gauge", "HTTP requests that are being handled."
)
PROMPT_TOKENS: Final = Metric(
    "headrace_gateway_prompt_tokens_total",
    "counter",
    "Tokens of the prompts that were answered to the end.",
    _MODEL,
    "vllm:prompt_tokens_total",
)
OUTPUT_TOKENS: Final = Metric(
    "headrace_gateway_output_tokens_total",
    "counter",
    "Tokens of the answers to them.",
    _MODEL,
    "vllm:generation_tokens_total",
)
ANSWERS: Final = Metric(
    "headrace_gateway_answers_total",
    "counter",
    "Answers that ended by themselves, and as abort those whose client left or that failed.",
    (*_MODEL, "finished_reason"),
    "vllm:request_success_total",
)
FIRST_TOKEN_SECONDS: Final = Metric(
    "headrace_gateway_time_to_first_token_seconds",
    "histogram",
    "The time from the arrival at the server to the first token.",
    _MODEL,
    "vllm:time_to_first_token_seconds",
    _FIRST_TOKEN_SECONDS,
)
INTER_TOKEN_SECONDS: Final = Metric(
    "headrace_gateway_inter_token_seconds",
    "histogram",
    "The time between two pieces of an answer that is streamed.",
    _MODEL,
    "vllm:inter_token_latency_seconds",
    _INTER_TOKEN_SECONDS,
)
ANSWER_SECONDS: Final = Metric(
    "headrace_gateway_answer_seconds",
    "histogram",
    "The time from the arrival at the server to the end of the answer.",
    _MODEL,
    "vllm:e2e_request_latency_seconds",
    _ANSWER_SECONDS,
)
QUEUE_SECONDS: Final = Metric(
    "headrace_gateway_queue_seconds",
    "histogram",
    "The part of it before the first step of the engine.",
    _MODEL,
    "vllm:request_queue_time_seconds",
    _FIRST_TOKEN_SECONDS,
)
PREFILL_SECONDS: Final = Metric(
    "headrace_gateway_prefill_seconds",
    "histogram",
    "The part of it from there to the first token.",
    _MODEL,
    "vllm:request_prefill_time_seconds",
    _FIRST_TOKEN_SECONDS,
)
DECODE_SECONDS: Final = Metric(
    "headrace_gateway_decode_seconds",
    "histogram",
    "The part of it from the first token to the end.",
    _MODEL,
    "vllm:request_decode_time_seconds",
    _ANSWER_SECONDS,
)

METRICS: Final = (
    REQUESTS,
    REQUEST_SECONDS,
    REQUESTS_IN_FLIGHT,
    PROMPT_TOKENS,
    OUTPUT_TOKENS,
    ANSWERS,
    FIRST_TOKEN_SECONDS,
    INTER_TOKEN_SECONDS,
    ANSWER_SECONDS,
    QUEUE_SECONDS,
    PREFILL_SECONDS,
    DECODE_SECONDS,
)
