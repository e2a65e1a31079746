"""The command line."""

import pytest

from comparison.options import read_options


def test_the_default_is_the_whole_comparison():
    """Every part, rival and load."""
    options = read_options([])
    assert options.parts == ("grid", "repeat", "interference", "start", "serving", "transport")
    assert options.rivals == ("generate", "llama-cpp", "transformers", "vllm")
    assert (options.streams, options.prompts) == ((1, 4, 16, 64), (64, 512))
    assert (options.num_rounds, options.variants) == (3, ("fp16", "q4"))


def test_quick_is_one_round_of_the_light_loads():
    """Without the part that takes longest."""
    options = read_options(["--quick"])
    assert (options.num_rounds, options.streams, options.prompts) == (1, (1, 16), (64,))
    assert options.parts == ("grid", "repeat", "start", "serving", "transport")


def test_what_is_said_besides_quick_wins_over_it():
    """So that one thing can be looked at quickly."""
    options = read_options(
        ["--quick", "--rounds", "2", "--streams", "4", "--prompts", "8", "--only", "interference"]
    )
    assert (options.num_rounds, options.streams, options.prompts) == (2, (4,), (8,))
    assert options.parts == ("interference",)


def test_parts_variants_and_rivals_can_be_chosen():
    """Parts keep their order, and there may be no rival at all."""
    options = read_options(
        ["--only", "start", "grid", "--headrace", "fp16", "--headrace", "q4", "--rivals"]
    )
    assert options.parts == ("grid", "start")
    assert options.variants == ("fp16", "q4")
    assert options.rivals == ()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--only", "speed"], "invalid choice: 'speed'"),
        (["--streams", "0"], "0 is no whole number from 1 on"),
        (["--rival-at", "ollama=/x"], "takes NAME=DIR with a name out of llama-cpp"),
    ],
)
def test_what_is_wrong_is_told(arguments, complaint, capsys):
    """In one sentence, with status 2."""
    with pytest.raises(SystemExit) as ended:
        read_options(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err
