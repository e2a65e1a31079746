"""The code on the page of recipes runs as it is there, but for the address and the model."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.service import MODEL
from tests.stock_clients.environment import NODE

PAGE = Path(__file__).parents[2] / "docs" / "recipes.md"
RUN_SECONDS = 110
OF_THIS_ENVIRONMENT = ["openai-python", "Anthropic SDK", "huggingface_hub"]
OF_THEIR_OWN = ["OpenAI Agents SDK", "LangChain", "LiteLLM"]
OF_NODE = ["openai-node", "AI SDK"]


def block(heading, language, service):
    """Return the only block of a language below a heading, made for this service."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    [code] = re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    code = code.replace("http://localhost:1919", service.url)
    return code.replace("smollm2-135m-instruct", MODEL)


def printed_by(command, **options):
    """Return what a program prints, which must succeed."""
    result = subprocess.run(command, capture_output=True, timeout=RUN_SECONDS, **options)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout.decode().strip()


def test_no_recipe_is_left_out():
    """Each heading has its test."""
    headings = re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)
    tried = [*OF_THIS_ENVIRONMENT, *OF_THEIR_OWN, *OF_NODE, "curl", "llm", "Continue"]
    assert sorted(headings) == sorted(tried)


def test_curl(service):
    """It prints the events."""
    assert printed_by(["sh", "-c", block("curl", "sh", service)]).endswith("data: [DONE]")


@pytest.mark.parametrize("heading", OF_THIS_ENVIRONMENT)
def test_python(service, heading):
    """It prints the answer."""
    assert printed_by([sys.executable, "-c", block(heading, "python", service)])


@pytest.mark.parametrize("heading", OF_THEIR_OWN)
def test_python_of_its_own_environment(client_programs, service, heading):
    """It prints the answer."""
    assert printed_by([client_programs / "python", "-c", block(heading, "python", service)])


@pytest.mark.parametrize("heading", OF_NODE)
def test_javascript(node, service, heading):
    """It prints the answer."""
    command = ["node", "--input-type=module", "-e", block(heading, "js", service)]
    assert printed_by(command, cwd=NODE)


def test_llm(client_programs, service, tmp_path):
    """It prints the answer."""
    (tmp_path / "extra-openai-models.yaml").write_text(block("llm", "yaml", service))
    path = f"{client_programs}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "LLM_USER_PATH": str(tmp_path), "PATH": path}
    assert printed_by(["sh", "-c", block("llm", "sh", service)], env=environment)


def test_continue(node, service, tmp_path):
    """Its command prints the answer with this configuration."""
    (tmp_path / "config.yaml").write_text(block("Continue", "yaml", service))
    command = [
        NODE / "node_modules" / ".bin" / "cn",
        "--config",
        tmp_path / "config.yaml",
        "-p",
        "Hey",
    ]
    environment = {**os.environ, "HOME": str(tmp_path), "CONTINUE_TELEMETRY_ENABLED": "0"}
    assert printed_by(command, env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL)
