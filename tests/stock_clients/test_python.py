"""Clients in Python that have an environment of their own: LiteLLM, OpenAI's agents, llm."""

import os
import subprocess

import pytest

from tests.gateway.service import MODEL
from tests.stock_clients.environment import PYTHON

RUN_SECONDS = 110


def pytest_in_its_environment(programs, service_url, model, suite, seconds):
    """Run a suite before a service, and return what its pytest tells at the end."""
    environment = {**os.environ, "SERVICE_URL": service_url, "MODEL": model}
    command = [programs / "python", "-m", "pytest", "-c", "pytest.ini", "--tb=short", suite]
    result = subprocess.run(
        command, cwd=PYTHON, env=environment, capture_output=True, text=True, timeout=seconds
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_litellm(client_programs, service):
    """Its answers, streams, tools and error classes fit what the service answers."""
    told = pytest_in_its_environment(
        client_programs, service.url, MODEL, "litellm_calls.py", RUN_SECONDS
    )
    assert "6 passed" in told


def test_openai_agents(client_programs, service):
    """Runs, streams, tools and error classes of the SDK's default fit /v1/responses."""
    told = pytest_in_its_environment(
        client_programs, service.url, MODEL, "agents_runs.py", RUN_SECONDS
    )
    assert "6 passed" in told


@pytest.mark.parametrize("stream", [(), ("--no-stream",)])
def test_the_llm_command(client_programs, service, tmp_path, stream):
    """A few lines of YAML in its folder make a model of the service."""
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: headrace\n  model_name: {MODEL}\n  api_base: {service.url}/v1\n"
    )
    command = [client_programs / "llm", "-m", "headrace", "-n", *stream, "-o", "max_tokens", "20"]
    result = subprocess.run(
        [*command, "-o", "seed", "1", "Hey"],
        env={**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "unused"},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.strip()
