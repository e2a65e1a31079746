"""The metrics of answers: what the contract tells of each call of Generate."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

from headrace.v1 import stopping_pb2
from headrace_gateway.metrics import table

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

    from headrace.v1.inference_service_pb2 import GenerateResponse, Timing
    from headrace_gateway.metrics.table import Metric

_ABORTED = "abort"
_LENGTHS = frozenset(
    (
        stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS,
        stopping_pb2.FINISH_REASON_CONTEXT_LENGTH,
        stopping_pb2.FINISH_REASON_TIME_LIMIT,
    )
)


class GenerationMetrics:
    """Counts answers, their tokens and their times, for each model by its own name.

    Args:
        registry: takes the metrics in.
        clock: gives seconds that only grow.
    """

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.clock = clock
        self.prompt_tokens = _Counters(table.PROMPT_TOKENS, registry)
        self.output_tokens = _Counters(table.OUTPUT_TOKENS, registry)
        self.answers = _Counters(table.ANSWERS, registry)
        self.inter_token_seconds = _Histograms(table.INTER_TOKEN_SECONDS, registry)
        self._first_token_seconds = _Histograms(table.FIRST_TOKEN_SECONDS, registry)
        self._answer_seconds = _Histograms(table.ANSWER_SECONDS, registry)
        self._queue_seconds = _Histograms(table.QUEUE_SECONDS, registry)
        self._prefill_seconds = _Histograms(table.PREFILL_SECONDS, registry)
        self._decode_seconds = _Histograms(table.DECODE_SECONDS, registry)

    def observe(self, timing: Timing, model: str) -> None:
        """Take in the times of an answer to its end."""
        queue = timing.queue.ToTimedelta().total_seconds()
        total = timing.total.ToTimedelta().total_seconds()
        self._queue_seconds.observe(queue, model)
        self._answer_seconds.observe(total, model)
        if timing.HasField("first_token"):
            first_token = timing.first_token.ToTimedelta().total_seconds()
            self._first_token_seconds.observe(first_token, model)
            self._prefill_seconds.observe(max(first_token - queue, 0), model)
            self._decode_seconds.observe(max(total - first_token, 0), model)


class GenerationMeter:
    """Counts one call; one that the server refused leaves nothing.

    Args:
        metrics: take the numbers in.
        is_streamed: whether its pieces come as they are made.
    """

    def __init__(self, metrics: GenerationMetrics, *, is_streamed: bool) -> None:
        self._metrics = metrics
        self._is_streamed = is_streamed
        self._model: str | None = None
        self._last_piece: float | None = None
        self._is_over = False

    def admit(self, model: str) -> None:
        """Begin: the server has taken the request and will answer with a model."""
        self._model = model

    def take(self, response: GenerateResponse) -> None:
        """Count a response of a call that was admitted."""
        model = self._model or ""
        if response.deltas and self._is_streamed:
            self._take_piece(model)
        for delta in response.deltas:
            if delta.HasField("finish"):
                reason = "length" if delta.finish.reason in _LENGTHS else "stop"
                self._metrics.answers.add(1, model, reason)
        if response.HasField("usage"):
            self._is_over = True
            self._metrics.prompt_tokens.add(response.usage.prompt_token_count, model)
            self._metrics.output_tokens.add(response.usage.output_token_count, model)
            self._metrics.observe(response.timing, model)

    def end(self) -> None:
        """Count the call as aborted where it was admitted and has not come to its end."""
        if self._model is not None and not self._is_over:
            self._metrics.answers.add(1, self._model, _ABORTED)

    def _take_piece(self, model: str) -> None:
        now = self._metrics.clock()
        if self._last_piece is not None:
            self._metrics.inter_token_seconds.observe(now - self._last_piece, model)
        self._last_piece = now


class _Counters:
    """One counter under all of its names."""

    def __init__(self, metric: Metric, registry: CollectorRegistry) -> None:
        self._counters = [
            Counter(name, metric.help, metric.labels, registry=registry) for name in metric.names
        ]

    def add(self, amount: int, *labels: str) -> None:
        for counter in self._counters:
            counter.labels(*labels).inc(amount)


class _Histograms:
    """One histogram under all of its names."""

    def __init__(self, metric: Metric, registry: CollectorRegistry) -> None:
        self._histograms = [
            Histogram(name, metric.help, metric.labels, registry=registry, buckets=metric.buckets)
            for name in metric.names
        ]

    def observe(self, seconds: float, *labels: str) -> None:
        for histogram in self._histograms:
            histogram.labels(*labels).observe(seconds)
