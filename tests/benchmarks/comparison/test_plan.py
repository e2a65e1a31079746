"""What is measured of whom."""

from comparison.plan import plan_visits
from tests.benchmarks.comparison.peers_for_tests import make_options, make_peer

SIMULATED = make_peer("simulated", flags=())


def steps_of(visit):
    return [(step.part, step.case) for step in visit.steps]


def test_generate_is_measured_with_one_stream_only():
    """It answers one request at a time, so more streams only wait."""
    options = make_options("--only", "grid", "--rivals", "generate", "--prompts", "64", "512")
    [visit] = plan_visits(options, [], SIMULATED)
    assert visit.peer is None
    assert steps_of(visit) == [("grid", "64 tokens, 1 stream"), ("grid", "512 tokens, 1 stream")]


def test_the_fronts_and_the_engine_are_measured_of_headrace_only():
    """The engine comes last, after the server has stopped."""
    options = make_options("--only", "serving", "start", "interference", "--rivals")
    rival, headrace = plan_visits(
        options, [make_peer("rival"), make_peer("Headrace", flags=())], SIMULATED
    )
    assert [part for part, _ in steps_of(rival)] == ["start", "interference"]
    assert steps_of(headrace) == [
        ("start", "cached model"),
        ("serving", "fronts"),
        ("interference", "8 streams, prompts of 2000"),
        ("serving", "engine alone"),
    ]


def test_a_server_that_is_sized_starts_again_where_a_load_needs_other_room():
    """Slots for prompts of 2,000 tokens on every stream would be memory that it never needs."""
    options = make_options("--only", "grid", "interference", "--rivals", "--streams", "64")
    grid, interference = plan_visits(options, [make_peer(is_sized=True)], SIMULATED)
    assert (grid.sizing.num_streams, grid.sizing.context_tokens) == (64, 512 + 64)
    assert interference.sizing.num_streams == 16
    assert interference.sizing.context_tokens > 2000


def test_the_transport_is_measured_on_the_simulated_server():
    """It needs no model."""
    options = make_options("--only", "transport")
    [visit] = plan_visits(options, [make_peer()], SIMULATED)
    assert visit.name == "simulated"
    assert [case for _, case in steps_of(visit)] == ["1 stream", "64 streams", "256 streams"]


def test_every_step_has_a_name_of_its_own():
    """Results are kept by part, case and peer."""
    visits = plan_visits(make_options(), [make_peer("a"), make_peer("b", flags=())], SIMULATED)
    keys = [(visit.name, *step) for visit in visits for step in steps_of(visit)]
    assert len(keys) == len(set(keys))
