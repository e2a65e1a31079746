from __future__ import annotations

import pytest

from tests.gateway.service import serving
from tests.stock_clients.environment import BIN, HOW_TO_MAKE, NODE, PYTHON


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """A server with its simulated engine and a gateway in front of it, for all tests."""
    with serving(tmp_path_factory.mktemp("service")) as service:
        yield service


@pytest.fixture
def narrow_service(tmp_path):
    """A service that answers one request at a time, lets one more wait, and takes its time."""
    flags = ("--max-num-seqs", "1", "--max-queued-requests", "1")
    with serving(tmp_path, (*flags, "--simulated-step-seconds", "0.01")) as service:
        yield service


@pytest.fixture(scope="session")
def node():
    """The clients in JavaScript."""
    if not (NODE / "node_modules" / ".made").exists():
        pytest.skip(HOW_TO_MAKE)


@pytest.fixture(scope="session")
def client_programs():
    """The folder of the programs of the clients in Python."""
    if not (PYTHON / ".venv" / ".made").exists():
        pytest.skip(HOW_TO_MAKE)
    return BIN
