"""The names of the metrics: on the page, on the board, and by the rules of Prometheus."""

import json
import re
from pathlib import Path

import pytest

from headrace_gateway.metrics.table import METRICS
from headrace_server.metrics import METRICS as SERVER_METRICS
from headrace_server.metrics import VLLM_METRICS

DOCS = Path(__file__).parents[3] / "docs"
BOARD = json.loads((DOCS / "grafana" / "headrace.json").read_text())
PANELS = BOARD["panels"]
# Those that the boards of vLLM's own documentation ask for, each from one of the two places.
ASKED_FOR = {
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
    "vllm:request_success_total",
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:request_decode_time_seconds",
}


def samples():
    """The names of all series of both places, each with its labels."""
    told = {metric.name: () for metric in SERVER_METRICS}
    told |= {metric.name: ("model_name",) for metric in VLLM_METRICS}
    for metric in METRICS:
        endings = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        for name in metric.names:
            told |= {name + ending: metric.labels for ending in endings}
    return told


def test_the_page_has_every_metric():
    """The table in the documentation has the same names, kinds and words."""
    text = (DOCS / "metrics.md").read_text()
    section = text.partition("\n## Of the gateway\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\S*) ?\| (\w+) \| (.*) \|$", section, re.MULTILINE)
    assert [(name, twin.strip("`") or None, *rest) for name, twin, *rest in rows] == [
        (metric.name, metric.twin, metric.kind, metric.help) for metric in METRICS
    ]


def test_boards_for_vllm_find_what_they_ask_for():
    """Every name is told, and by one of the two places only."""
    gateway = {metric.twin for metric in METRICS if metric.twin}
    server = {metric.name for metric in VLLM_METRICS}
    assert gateway | server >= ASKED_FOR
    assert gateway & server == set()


def test_names_follow_the_rules_of_prometheus():
    """All begin alike; counters, and nothing else, end in _total; times say their unit."""
    for metric in METRICS:
        assert metric.name.startswith("headrace_gateway_")
        for name in metric.names:
            assert name.endswith("_total") == (metric.kind == "counter")
            assert name.endswith("_seconds") == (metric.kind == "histogram")
        assert bool(metric.buckets) == (metric.kind == "histogram")
        assert list(metric.buckets) == sorted(set(metric.buckets))
    names = [name for metric in METRICS for name in metric.names]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("panel", PANELS, ids=[panel["title"] for panel in PANELS])
def test_every_query_of_the_board_names_what_is_there(panel):
    """A series exists, and has the labels by which it is chosen, grouped and shown."""
    known = samples()
    assert panel["targets"]
    for target in panel["targets"]:
        query = target["expr"]
        series = re.findall(r"\b(?:headrace|vllm)[\w:]+", query)
        assert series
        assert [name for name in series if name not in known] == []
        groups = re.findall(r"by \((\w+)\)", query)
        shown = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
        assert [label for label in shown if label not in groups] == []
        for name in series:
            chosen = re.search(name + r"\{(\w+)=", query)
            labels = [*groups, *([chosen[1]] if chosen else [])]
            assert [it for it in labels if it not in known[name] and it != "le"] == []
            assert "le" not in labels or name.endswith("_bucket")


def test_the_models_of_the_board_come_from_a_metric():
    """The choice of models is filled from a series that has the label."""
    [models] = [it for it in BOARD["templating"]["list"] if it["name"] == "model"]
    name, label = re.fullmatch(r"label_values\((\S+), (\w+)\)", models["query"]["query"]).groups()
    assert label in samples()[name]


def test_panels_do_not_overlap():
    """Each has a place and a number of its own."""
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in PANELS]
    assert len(set(places)) == len({panel["id"] for panel in PANELS}) == len(PANELS)
