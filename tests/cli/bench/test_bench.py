"""headrace bench against the two real programs and the simulated engine."""

import json
import re
import signal
import subprocess

import pytest

from tests.cli.conftest import COMMAND
from tests.cli.terminal import CTRL_C, terminal

# Two interpreters with their libraries start in this time even on a busy machine.
BOUND_SECONDS = 60.0
PROTOCOLS = ["gRPC", "HTTP"]


@pytest.fixture(scope="module")
def service():
    """What says which server, by protocol."""
    process = subprocess.Popen(
        [
            *(*COMMAND, "serve", "--backend", "simulated", "--port", "0", "--grpc-port", "0"),
            *("--served-model-name", "tiny", "small", "--log-level", "warning"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        welcome = ""
        for line in process.stdout:
            welcome += line
            if line == "Ctrl-C stops it.\n":
                break
        yield {
            "gRPC": ("--target", re.search(r"gRPC  (\S+)", welcome)[1]),
            "HTTP": ("--url", re.search(r"HTTP  (\S+)", welcome)[1]),
        }
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_figures_are_those_of_the_load(run, service, protocol):
    """Every request is sent and answered to its length, and all that is measured is told."""
    result = run(
        *("bench", *service[protocol], "--json", "--model", "small", "--streams", "2"),
        *("--requests", "6", "--prompt-tokens", "30", "--output-tokens", "5", "--warmup", "1"),
        *("--seed", "3"),
    )
    assert (result.returncode, result.stderr) == (0, "")
    figures = json.loads(result.stdout)
    assert figures["endpoint"] == f"{protocol} {service[protocol][1]}"
    assert figures["plan"] == {
        "num_streams": 2,
        "num_requests": 6,
        "num_warmup_requests": 1,
        "num_prompt_tokens": 30,
        "num_output_tokens": 5,
        "seed": 3,
    }
    assert (figures["num_completed"], figures["num_unfinished"]) == (6, 0)
    assert (figures["num_prompt_tokens"], figures["num_output_tokens"]) == (180, 30)
    assert figures["failures"] == {}
    assert figures["output_tokens_per_second"] == 30 / figures["seconds"]
    times = figures["ttft_seconds"], figures["request_seconds"]
    for name in ("mean", "p50", "p90", "p99", "max"):
        assert 0 < times[0][name] <= times[1][name]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_people_get_a_table(run, service, protocol):
    """The table has each figure in a row and fits 80 columns."""
    load = ["--requests", "3", "--output-tokens", "4", "--prompt-tokens", "8"]
    result = run("bench", *service[protocol], *load)
    lines = result.stdout.splitlines()
    assert lines[0] == f"{protocol} {service[protocol][1]}: 4 at a time, 8 tokens in, 4 out"
    assert lines[2].split() == ["milliseconds", "mean", "p50", "p90", "p99", "max"]
    for title in ("TTFT", "TPOT", "inter-token", "request", "output tokens/s", "requests/s"):
        assert re.search(rf"^{title}( +[\d.]+| +-)+$", result.stdout, re.MULTILINE), title
    assert lines[-2:] == ["completed                 3", "failed                    0"]
    assert max(map(len, lines)) <= 80
    assert result.returncode == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_failures_are_counted_by_their_reason(run, service, protocol):
    """A request that is refused is no end of the run; the exit status tells that there was one."""
    load = ["--requests", "3", "--prompt-tokens", "9000", "--warmup", "0"]
    result = run("bench", *service[protocol], *load)
    assert (result.returncode, result.stderr) == (1, "")
    assert "\nfailed                    3\n  3 times: The prompt is too long: " in result.stdout


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_load_that_cannot_be_is_told_before(run, service, protocol):
    """Where the warm-up fails nothing is measured, and the server's words are told."""
    result = run("bench", *service[protocol], "--prompt-tokens", "9000")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("headrace: The prompt is too long: ")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ctrl_c_prints_what_there_is(environment, service, protocol):
    """A terminal shows how far it is; Ctrl-C ends with 130 after the figures so far."""
    command = [*COMMAND, "bench", *service[protocol], "--requests", "1000000", "--warmup", "1"]
    with terminal(command, environment) as screen:
        screen.wait_for(" of 1000000 requests, ")
        screen.type(CTRL_C)
        assert screen.wait_for_end() == 130
    assert re.search(rb"\r\noutput tokens/s +[\d.]+\r\n", screen.shown)
    assert re.search(rb"\r\nfailed +0\r\nunfinished +4\r\n", screen.shown)
    assert b"Traceback" not in screen.shown


def test_what_is_no_such_api_is_told(run, service):
    """A URL without the API, or without a server, is one sentence."""
    result = run("bench", "--url", f"{service['HTTP'][1]}/nowhere")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("headrace: There is nothing at this path;")


def test_without_aiohttp_http_says_how_to_install_it(run, tmp_path):
    """GRPC needs nothing more; HTTP names its package."""
    (tmp_path / "aiohttp.py").write_text("raise ModuleNotFoundError('aiohttp')")
    result = run("bench", "--url", "http://127.0.0.1:1/v1", PYTHONPATH=str(tmp_path))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "headrace: --url needs the package aiohttp, which is not installed. Install it, in a "
        "checkout of Headrace, with: pip install '.[gateway]'\n"
    )
