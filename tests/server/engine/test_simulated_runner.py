"""The simulated model: its text, its independence of the batch, and its eye for wrong KV blocks."""

import pytest

from headrace_server.engine.model_runner import (
    BatchRow,
    ModelDescription,
    ModelLoadError,
    RowFault,
    RowOutput,
    RowSampling,
)
from headrace_server.engine.settings import EngineSettings, SimulatedSettings
from headrace_server.engine.simulated_runner import SimulatedRunner
from headrace_server.engine.simulated_vocabulary import (
    END_OF_TURN,
    FAULT_NAN,
    FAULT_RAISE,
    VOCABULARY_SIZE,
)
from tests.server.engine.stepped_engine import solo_answer


def make_runner(**settings):
    description = ModelDescription(
        "", 64, VOCABULARY_SIZE, num_blocks=8, block_size=4, device_type="cpu"
    )
    return SimulatedRunner(description, SimulatedSettings(**settings))


def make_row(prompt, start=0, block_ids=(0, 1, 2, 3), **sampling):
    token_ids = list(prompt)
    position = start + len(token_ids)
    values = {
        "temperature": 0.0,
        "top_k": None,
        "top_p": 1.0,
        "min_p": 0.0,
        "seed": 0,
        "banned_token_ids": (),
    }
    return BatchRow(0, token_ids, start, block_ids, RowSampling(position, **(values | sampling)))


def test_an_answer_reads_like_text_with_characters_of_several_bytes():
    """The bytes of an answer are valid UTF-8, among them characters of two to four bytes."""
    token_ids = solo_answer(b"hello", max_output_tokens=3000, stop_token_ids=[])
    text = bytes(token_id for token_id in token_ids if token_id < 256).decode(errors="ignore")

    assert {len(character.encode()) for character in text} == {1, 2, 3, 4}
    assert "\ufffd" not in text
    assert len(set(text.split())) > 100


def test_chunks_give_the_token_of_the_whole():
    """A prompt computed in parts gives the same token as in one."""
    whole = make_runner().forward([make_row(b"a prompt")])
    runner = make_runner()
    first = BatchRow(0, list(b"a pro"), 0, (5, 2), None)

    assert runner.forward([first, make_row(b"mpt", start=5, block_ids=(5, 2))]) == [
        RowOutput(None),
        *whole,
    ]


@pytest.mark.parametrize(
    "wrong_place",
    [{"block_ids": (0, 2)}, {"block_ids": (1, 0)}, {"start": 6}],
    ids=["block", "order", "start"],
)
def test_a_wrong_place_in_the_kv_memory_changes_the_answer(wrong_place):
    """Blocks and positions matter, so that a fault of the scheduler shows."""

    def tokens(**place):
        runner = make_runner()
        runner.forward([BatchRow(0, list(b"a promp"), 0, (0, 1), None)])
        rows = [make_row(b"t", **place, temperature=1.0, seed=seed) for seed in range(8)]
        return runner.forward(rows)

    place = {"start": 7, "block_ids": (0, 1)}
    assert tokens(**place) != tokens(**(place | wrong_place))


def test_a_seed_matters_only_where_there_is_a_choice():
    """Greedy answers ignore the seed; with a temperature the seed decides."""
    greedy = [solo_answer(temperature=0.0, seed=seed) for seed in (1, 2)]
    top_1 = [solo_answer(temperature=1.0, top_k=1, seed=seed) for seed in (1, 2)]
    seeded = [solo_answer(temperature=1.0, seed=seed) for seed in (1, 1, 2)]

    assert greedy[0] == greedy[1] == top_1[0] == top_1[1]
    assert seeded[0] == seeded[1] != seeded[2]


def test_banned_ids_are_never_chosen():
    """Whatever is banned, another id comes, until nothing is left."""
    runner = make_runner()
    banned = []
    for _ in range(VOCABULARY_SIZE):
        (output,) = runner.forward([make_row(b"hi", banned_token_ids=banned)])
        assert output.token_id not in banned
        banned.append(output.token_id)

    assert runner.forward([make_row(b"hi", banned_token_ids=banned)]) == [RowFault.NOT_A_NUMBER]


def test_faults_act_only_when_they_are_on():
    """A fault token is an ordinary token of a server that is not under test."""
    rows = [make_row([FAULT_NAN]), make_row([FAULT_RAISE], block_ids=(4,))]

    assert all(isinstance(result, RowOutput) for result in make_runner().forward(rows))
    assert make_runner(faults=True).forward(rows[:1]) == [RowFault.NOT_A_NUMBER]
    with pytest.raises(RuntimeError):
        make_runner(faults=True).forward(rows)


def test_loading_reports_progress_and_the_facts():
    """The description follows the settings."""
    reports = []
    settings = EngineSettings(
        runner="simulated", max_context_length=100, kv_cache_bytes=64 * 50, block_size=16
    )
    runner = SimulatedRunner.load(settings, lambda *report: reports.append(report))

    assert reports[5] == ("loading the simulated model", 0.5)
    assert runner.description.context_length == 100
    assert runner.description.num_blocks == 50


def test_a_kv_memory_without_a_block_is_refused():
    """A size that holds nothing is told in one sentence."""
    settings = EngineSettings(runner="simulated", kv_cache_bytes=63)
    with pytest.raises(ModelLoadError, match="at least 64 bytes"):
        SimulatedRunner.load(settings, lambda *_: None)


def test_end_of_turn_is_the_id_of_its_token():
    """The layout of the vocabulary is bytes first."""
    assert END_OF_TURN == 258
