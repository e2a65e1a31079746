"""The metrics over HTTP, their names on the page, and that they tell the truth."""

import asyncio
import re
import socket
import urllib.request
from dataclasses import fields
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace_server.app import StartError
from headrace_server.backends.interface import BackendLoad
from headrace_server.metrics import METRICS, VLLM_METRICS, MetricsConfig, serve_metrics
from tests.server.running_server import collect, running_server
from tests.server.text.scripted_backend import ScriptedBackend

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
LOOPBACK = MetricsConfig("127.0.0.1", 0)
MODEL = 'a/"model"'
SHORT = {"max_output_tokens": 20, "ignore_end_of_text": True}


async def scrape(address):
    """The values by name, as Prometheus reads them."""
    return {name: value for name, value, _ in await samples(address)}


async def samples(address):
    """Names, values and labels."""

    def read():
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as response:
            return response.read().decode()

    families = text_string_to_metric_families(await asyncio.to_thread(read))
    return [(it.name, it.value, it.labels) for family in families for it in family.samples]


def test_the_page_has_every_metric():
    """The table in the documentation has the same names, kinds and words."""
    section = PAGE.read_text().partition("\n## Of the server\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w:]+)` \| (\w+) \| (.*) \|$", section, re.MULTILINE)
    assert rows == [(it.name, it.kind, it.help) for it in (*METRICS, *VLLM_METRICS)]


def test_every_number_of_the_load_is_a_metric():
    """Nothing that the backend counts is kept from Prometheus."""
    assert {metric.field for metric in METRICS} == {field.name for field in fields(BackendLoad)}
    assert len({metric.name for metric in METRICS}) == len(METRICS)


def test_names_follow_the_rules_of_prometheus():
    """All begin alike, and counters, and nothing else, end in _total."""
    assert all(metric.name.startswith("headrace_") for metric in METRICS)
    assert all(metric.name.endswith("_total") == (metric.kind == "counter") for metric in METRICS)


async def test_each_metric_has_the_value_of_its_number():
    """Whatever the backend says now is what is scraped."""
    backend = ScriptedBackend()
    names = [field.name for field in fields(BackendLoad)]
    backend.load = BackendLoad(**{name: 10 + index for index, name in enumerate(names)})
    async with serve_metrics(LOOPBACK, backend, MODEL) as address:
        told = await scrape(address)
    expected = {metric.name: getattr(backend.load, metric.field) for metric in METRICS}
    assert {name: told[name] for name in expected} == expected
    assert set(told) == {*expected, *(metric.name for metric in VLLM_METRICS)}


async def test_boards_made_for_vllm_find_their_names():
    """The numbers of the engine have vLLM's names too, with the name of the model."""
    backend = ScriptedBackend()
    backend.load = BackendLoad(
        3,
        4,
        25,
        100,
        9,
        2,
        50,
        60,
        num_preemptions=5,
        num_prompt_tokens=70,
        num_cached_prompt_tokens=30,
    )
    async with serve_metrics(LOOPBACK, backend, MODEL) as address:
        told = {
            name: (value, labels)
            for name, value, labels in await samples(address)
            if name.startswith("vllm:")
        }
    label = {"model_name": MODEL}
    assert told == {
        "vllm:num_requests_running": (3, label),
        "vllm:num_requests_waiting": (4, label),
        "vllm:kv_cache_usage_perc": (0.75, label),
        "vllm:num_preemptions_total": (5, label),
        "vllm:prefix_cache_queries_total": (70, label),
        "vllm:prefix_cache_hits_total": (30, label),
    }


async def test_the_port_is_closed_at_the_end():
    """Nothing of the endpoint outlives its block."""
    async with serve_metrics(LOOPBACK, ScriptedBackend(), MODEL) as address:
        await scrape(address)
    with pytest.raises(OSError, match="refused"):
        await scrape(address)


async def test_a_server_tells_what_it_does():
    """The numbers of a running server follow its requests."""
    async with running_server("--metrics-port", 0) as under:
        address = under.server.metrics_address
        assert address.startswith("127.0.0.1:")
        idle = await scrape(address)
        call = under.generate(sampling={"candidate_count": 3})
        await call.read()
        busy = await scrape(address)
        call.cancel()
        await under.all_returned()
        await collect(under.generate(stopping=SHORT))
        await under.all_returned()
        done = await scrape(address)

    assert idle["headrace_sequences_opened_total"] == 0
    assert busy["headrace_sequences_opened_total"] == 3
    assert busy["headrace_sequences_closed_total"] == 0
    assert done["headrace_sequences_opened_total"] == done["headrace_sequences_closed_total"] == 4
    assert done["headrace_engine_steps_total"] >= 20
    assert done["headrace_kv_blocks"] == done["headrace_kv_blocks_free"] > 0


async def test_without_the_flag_there_are_none():
    """The endpoint is off by default."""
    async with running_server(until_ready=False) as under:
        assert under.server.metrics_address is None


async def test_a_port_that_is_taken_stops_the_start():
    """The sentence names the port and the flag."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StartError) as caught:
            async with running_server("--metrics-port", port, until_ready=False):
                pass
    assert str(caught.value) == (
        f"Port {port} on 127.0.0.1 is taken; stop the program that has it or choose another with "
        "--metrics-port."
    )
