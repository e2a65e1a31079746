"""headrace health."""

import grpc

from tests.client.scripted_server import BOUND_SECONDS, Refusal


def test_a_server_that_serves_is_healthy(run, server):
    """A server that takes requests gives 0."""
    result = run("health", "--target", server.target)
    assert (result.returncode, result.stdout, result.stderr) == (0, "serving\n", "")


def test_a_server_that_loads_says_how_far(run, server):
    """A server that takes no requests gives 1 with its own words."""
    server.is_serving = False
    server.model_refusal = Refusal(
        grpc.StatusCode.UNAVAILABLE, "Loading, 40 %.", "ENGINE_UNAVAILABLE", None, 1.0
    )
    result = run("health", "--target", server.target)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "headrace: Loading, 40 %.\n"


def test_a_server_that_serves_nothing_for_no_known_reason(run, server):
    """Without words of the server, a sentence of its own is given."""
    server.is_serving = False
    result = run("health", "--target", server.target)
    assert result.returncode == 1
    assert result.stderr == "headrace: The server takes no requests at the moment.\n"


def test_wait_ends_when_the_server_serves(start, server):
    """--wait asks until the server takes requests."""
    server.is_serving = False
    process = start("health", "--target", server.target, "--wait", "30")
    assert server.health_was_asked.wait(BOUND_SECONDS)
    assert process.poll() is None
    server.is_serving = True
    assert process.wait(BOUND_SECONDS) == 0


def test_wait_has_an_end(run, server):
    """--wait gives up after its time."""
    server.is_serving = False
    assert run("health", "--target", server.target, "--wait", "0.3").returncode == 1
