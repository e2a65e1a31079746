import os
import subprocess
import sys

import pytest

from tests.client.scripted_server import BOUND_SECONDS, running_server

COMMAND = [sys.executable, "-m", "headrace"]


@pytest.fixture
def server():
    with running_server() as server:
        yield server


@pytest.fixture
def environment(tmp_path):
    """The environment of a command, with a history of its own."""
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def run(environment):
    """Runs a command to its end."""

    def run(*arguments, stdin="", **variables):
        return subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={**environment, **variables},
            timeout=BOUND_SECONDS,
        )

    return run


@pytest.fixture
def start(environment):
    """Starts a command with pipes; one that still runs after the test is killed."""
    processes = []

    def start(*arguments, **options):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen([*COMMAND, *arguments], env=environment, **{**pipes, **options})
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()
