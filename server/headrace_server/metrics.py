"""The metrics for Prometheus: their names, and the endpoint that serves them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from prometheus_client import Metric as MetricFamily

    from headrace_server.backends.interface import Backend, BackendLoad

# An event loop that is this late is told to Prometheus as a failed scrape.
_READ_TIMEOUT_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class MetricsConfig:
    """Where the metrics are served.

    Args:
        host: a name or an address of this machine.
        port: 0 lets the system choose.
    """

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of `BackendLoad` under its name for Prometheus.

    Args:
        field: of `BackendLoad`.
        name: in full.
        kind: counters only grow, but those of the engine begin again when it is started again.
        help: what it counts.
    """

    field: str
    name: str
    kind: Literal["gauge", "counter"]
    help: str


METRICS: Final = (
    Metric("num_running", "headrace_sequences_running", "gauge", "Sequences in the batch."),
    Metric(
        "num_waiting",
        "headrace_sequences_waiting",
        "gauge",
        "Sequences in the engine's queue, those that had to give way included.",
    ),
    Metric(
        "num_opened",
        "headrace_sequences_opened_total",
        "counter",
        "Sequences ever accepted, one for each candidate of a request.",
    ),
    Metric(
        "num_closed",
        "headrace_sequences_closed_total",
        "counter",
        "Sequences that ended; the others of those accepted are live.",
    ),
    Metric("num_total_blocks", "headrace_kv_blocks", "gauge", "KV blocks in all."),
    Metric(
        "num_free_blocks", "headrace_kv_blocks_free", "gauge", "KV blocks that no sequence holds."
    ),
    Metric(
        "num_cached_blocks",
        "headrace_kv_blocks_cached",
        "gauge",
        "Free KV blocks with tokens that a prompt may find again.",
    ),
    Metric("num_steps", "headrace_engine_steps_total", "counter", "Steps run by the engine."),
    Metric(
        "num_computed_tokens",
        "headrace_engine_tokens_total",
        "counter",
        "Tokens run through the model, of prompts and of answers.",
    ),
    Metric(
        "num_preemptions",
        "headrace_engine_preemptions_total",
        "counter",
        "Times that a sequence had to give way and be computed again.",
    ),
    Metric(
        "num_prompt_tokens",
        "headrace_prompt_tokens_total",
        "counter",
        "Tokens of the prompts that the engine has started.",
    ),
    Metric(
        "num_cached_prompt_tokens",
        "headrace_prompt_tokens_cached_total",
        "counter",
        "Those among them that did not need to be computed.",
    ),
)


@dataclass(frozen=True, slots=True)
class VllmMetric:
    """A number under the name that boards made for vLLM ask for, with its one label.

    Args:
        name: vLLM's, in full.
        kind: as in `Metric`.
        help: what it counts.
        read: takes it from the load.
    """

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    read: Callable[[BackendLoad], float]


VLLM_LABEL: Final = "model_name"

VLLM_METRICS: Final = (
    VllmMetric(
        "vllm:num_requests_running", "gauge", "Sequences in the batch.", lambda it: it.num_running
    ),
    VllmMetric(
        "vllm:num_requests_waiting",
        "gauge",
        "Sequences in the engine's queue.",
        lambda it: it.num_waiting,
    ),
    VllmMetric(
        "vllm:kv_cache_usage_perc",
        "gauge",
        "The part of the KV blocks that sequences hold, from 0 to 1.",
        lambda it: (it.num_total_blocks - it.num_free_blocks) / max(it.num_total_blocks, 1),
    ),
    VllmMetric(
        "vllm:num_preemptions_total",
        "counter",
        "Times that a sequence had to give way.",
        lambda it: it.num_preemptions,
    ),
    VllmMetric(
        "vllm:prefix_cache_queries_total",
        "counter",
        "Tokens of prompts that were looked for in the KV cache.",
        lambda it: it.num_prompt_tokens,
    ),
    VllmMetric(
        "vllm:prefix_cache_hits_total",
        "counter",
        "Those among them that were found.",
        lambda it: it.num_cached_prompt_tokens,
    ),
)


@asynccontextmanager
async def serve_metrics(
    config: MetricsConfig, backend: Backend, model_name: str
) -> AsyncIterator[str]:
    """Serve the metrics at ``/metrics`` of the address that is yielded.

    Args:
        config: where.
        backend: has the numbers.
        model_name: the label of those that have vLLM's names.

    Raises:
        OSError: the port cannot be had.
    """
    registry = CollectorRegistry()
    registry.register(_LoadCollector(backend, model_name, asyncio.get_running_loop()))
    # Making the server asks for the name of the host, which may take its time.
    server, _ = await asyncio.to_thread(start_http_server, config.port, config.host, registry)
    host = f"[{config.host}]" if ":" in config.host else config.host
    try:
        yield f"{host}:{server.server_port}"
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()


class _LoadCollector(Collector):
    """Reads the load for each scrape, which comes in a thread of the endpoint."""

    def __init__(self, backend: Backend, model_name: str, loop: asyncio.AbstractEventLoop) -> None:
        self._backend = backend
        self._model_name = model_name
        self._loop = loop

    def collect(self) -> Iterator[MetricFamily]:
        """Return all metrics as of now."""
        reading = asyncio.run_coroutine_threadsafe(self._read(), self._loop)
        load = reading.result(_READ_TIMEOUT_SECONDS)
        for metric in METRICS:
            value: int = getattr(load, metric.field)
            if metric.kind == "gauge":
                yield GaugeMetricFamily(metric.name, metric.help, value)
            else:
                yield CounterMetricFamily(metric.name, metric.help, value)
        for twin in VLLM_METRICS:
            kind = GaugeMetricFamily if twin.kind == "gauge" else CounterMetricFamily
            family = kind(twin.name, twin.help, labels=(VLLM_LABEL,))
            family.add_metric((self._model_name,), twin.read(load))
            yield family

    def describe(self) -> list[MetricFamily]:
        """Return nothing: the names are known to be different, and there may be no load yet."""
        return []

    async def _read(self) -> BackendLoad:
        return self._backend.load
