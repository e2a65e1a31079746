"""Clients in JavaScript: openai-node and the AI SDK, by the test runner of Node."""

import os
import subprocess

import pytest

from tests.gateway.service import MODEL
from tests.stock_clients.environment import NODE

RUN_SECONDS = 110


def run(service, script):
    """Run the tests of a script before a service."""
    environment = {**os.environ, "SERVICE_URL": service.url, "MODEL": MODEL}
    command = ["node", "--test", script]
    result = subprocess.run(
        command, cwd=NODE, env=environment, capture_output=True, text=True, timeout=RUN_SECONDS
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "# pass 0" not in result.stdout.splitlines()


@pytest.mark.parametrize("script", ["openai.test.mjs", "ai_sdk.test.mjs"])
def test_clients_in_javascript(node, service, script):
    """Their own types, helpers and errors fit what the service answers."""
    run(service, script)


def test_overload_in_javascript(node, narrow_service):
    """openai-node waits for room, and frees what it leaves."""
    run(narrow_service, "overload.test.mjs")
