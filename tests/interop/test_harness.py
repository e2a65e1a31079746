"""Runners that do not keep to their contract, and clients that are not there."""

import shutil

import pytest

from tests.interop import clients
from tests.interop import runner as runners
from tests.interop.clients import CLIENTS, Client
from tests.interop.oracle import REFERENCE
from tests.interop.routes import PLAIN
from tests.interop.runner import RunnerError, running

LINE = {"id": "one", "method": "GetModel", "request": {}}


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("read line; echo nonsense", "not a line of JSON"),
        ('read line; echo \'{"id": "other"}\'', "an answer to 'other'"),
        ("read line; echo 'it broke' >&2; exit 1", "it broke"),
        ("exec sleep 60", "no answer within"),
    ],
)
async def test_a_broken_runner_is_told(monkeypatch, script, told):
    """What it said or did not say is in the error, and it is killed."""
    monkeypatch.setattr(runners, "ANSWER_SECONDS", 0.5)
    broken = Client("broken", "", REFERENCE.folder, run=["sh", "-c", script, "--"], cli=[])
    async with PLAIN.open() as way, running(broken, way) as runner:
        with pytest.raises(RunnerError, match=told):
            await runner.ask(LINE)


def test_a_build_that_does_not_end_is_ended(monkeypatch):
    """With all that it has started."""
    monkeypatch.setattr(clients, "BUILD_SECONDS", 0.5)
    endless = Client("ada", "Ada", REFERENCE.folder, [], [], build="sleep 60 & wait")
    assert clients.build(endless) == "ada was not built within 0.5 s"
    failing = Client("ada", "Ada", REFERENCE.folder, [], [], build="echo it broke; exit 1")
    assert clients.build(failing) == "it broke\n"
    assert clients.build(Client("ada", "Ada", REFERENCE.folder, [], [], build="true")) is None


def test_a_missing_client_is_told_with_its_packages():
    """A person knows what to install, and what to run."""
    absent = Client("ada", "Ada", "clients/ada", [], [], needs=["no-such-gnat"], apt=["gnat"])
    assert absent.missing() == (
        "The client ada needs no-such-gnat: apt-get install gnat, then make interop."
    )
    unbuilt = Client("ada", "Ada", "clients/ada", [], [], needs=["sh"], apt=["dash"], built=["x"])
    assert unbuilt.missing() == "The client ada is not built (x): make interop."
    assert unbuilt.is_installable()
    assert CLIENTS[0].missing() is None


@pytest.mark.skipif(shutil.which("apt-cache") is None, reason="there is no apt")
def test_a_client_whose_packages_are_unknown_is_not_installable():
    """A machine without these packages cannot be asked for them."""
    unknown = Client("ada", "Ada", "clients/ada", [], [], needs=["no-such"], apt=["no-such-deb"])
    assert not unknown.is_installable()
