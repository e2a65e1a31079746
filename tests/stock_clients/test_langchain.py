"""LangChain's own tests of a chat model, on the default model."""

import re

import pytest

from tests.gateway.service import running
from tests.stock_clients.test_python import pytest_in_its_environment

MODEL = "smollm2-135m-instruct"
# Some dozens of short answers, which take a minute where nobody shares the cores.
RUN_SECONDS = 900
# So that a suite that skips what it should try is noticed.
MIN_PASSED = 30


@pytest.fixture
def url(tmp_path):
    """The address of a service with the default model."""
    # One thread: threads that wait for each other take minutes where cores are shared.
    flags = ("--seed", "1", "--num-threads", "1")
    with running(tmp_path, "headrace_server", *flags) as server:
        upstream = server.wait_for_event("ready")["address"]
        with running(tmp_path, "headrace_gateway", "--upstream", upstream) as gateway:
            yield gateway.wait_for_event("listening")["url"]


@pytest.mark.model
@pytest.mark.timeout(RUN_SECONDS + 60)
def test_langchain(client_programs, url):
    """All pass but those whose reasons are told there."""
    told = pytest_in_its_environment(
        client_programs, url, MODEL, "langchain_chat_model.py", RUN_SECONDS
    )
    [num_passed] = re.findall(r"(\d+) passed", told)
    assert int(num_passed) >= MIN_PASSED
