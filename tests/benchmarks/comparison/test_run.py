"""A whole run, with servers that are scripts."""

import sys
from pathlib import Path

import pytest

from comparison.peer import Launch, Peer
from comparison.prompts import Prompts
from comparison.run import Comparison
from tests.benchmarks.comparison.peers_for_tests import make_options
from tests.benchmarks.comparison.word_tokenizer import make_tokenizer

SERVER = str(Path(__file__).with_name("scripted_peer.py"))
LOADS = ("--streams", "1", "2", "--prompts", "8", "32", "--output-tokens", "4", "--rivals")


def make_peer(name, *arguments, server=SERVER):
    def launch(_, ports):
        command = (sys.executable, server, str(ports.http), *arguments)
        return Launch((command,), ready_path="/health")

    return Peer(name, "1.0", "none", {}, launch)


@pytest.fixture
def compare(tmp_path):
    """Run a comparison of some peers and return its measurements."""

    async def run(*arguments, peers):
        measurements, saved = [], []
        comparison = Comparison(
            make_options(*LOADS, *arguments),
            peers,
            None,  # no part of these tests reads the model
            Prompts(make_tokenizer()),
            tmp_path,
            measurements,
            save=lambda: saved.append(len(measurements)),
        )
        await comparison.run()
        assert saved[-1] == len(measurements)
        return measurements

    return run


async def test_every_peer_is_measured_in_every_round(compare):
    """In turn, so that what disturbs the machine disturbs all of them."""
    measurements = await compare(
        *("--only", "start", "grid", "--rounds", "2"),
        peers=[make_peer("one"), make_peer("two")],
    )
    assert [one.problem for one in measurements if one.problem] == []
    visits = list(dict.fromkeys((one.round_index, one.peer) for one in measurements))
    assert visits == [(0, "one"), (0, "two"), (1, "one"), (1, "two")]
    assert [one.case for one in measurements[:5]] == [
        "cached model",
        *("8 tokens, 1 stream", "8 tokens, 2 streams"),
        *("32 tokens, 1 stream", "32 tokens, 2 streams"),
    ]
    assert all(value > 0 for value in measurements[1].figures.values())


async def test_what_a_peer_cannot_do_is_told_and_the_rest_is_measured(compare):
    """The heavier load of the same kind is not tried; after a failure the server starts anew."""
    measurements = await compare(
        *("--only", "grid", "repeat", "--rounds", "2"), peers=[make_peer("short", "16")]
    )
    first_round = [one for one in measurements if one.round_index == 0]
    assert {one.case: one.problem for one in first_round} == {
        "8 tokens, 1 stream": None,
        "8 tokens, 2 streams": None,
        "32 tokens, 1 stream": "failed: HTTP 503: prompt too long",
        "32 tokens, 2 streams": "left out: a load that is no heavier went wrong",
        "512 tokens": "failed: HTTP 503: prompt too long",
    }
    again = [one.case for one in measurements if one.round_index == 1]
    assert again == ["8 tokens, 1 stream", "8 tokens, 2 streams"]


async def test_a_peer_that_does_not_start_is_told_and_the_others_are_measured(compare):
    """With the reason in place of every figure."""
    measurements = await compare(
        *("--only", "start", "--rounds", "1"),
        peers=[make_peer("broken", server="/no/such/file"), make_peer("well")],
    )
    broken, well = measurements
    assert broken.problem.startswith("it ended while it started:")
    assert well.problem is None


async def test_a_load_that_takes_too_long_counts_as_not_finished(compare):
    """The limit is that of one load."""
    [measurement, *_] = await compare(
        *("--only", "grid", "--rounds", "1", "--limit", "0.000001"), peers=[make_peer("slow")]
    )
    assert measurement.problem == "not finished in 0 s"
