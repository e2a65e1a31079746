"""headrace models."""

import json

from tests.client.scripted_server import a_model


def test_models_are_a_table(run, server):
    """The models are a table of the facts that requests need."""
    server.models = [a_model("tiny"), a_model("a-longer-name")]
    result = run("models", "--target", server.target)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == (
        "NAME           CONTEXT  TAKES             ALIASES\n"
        "tiny           2048     completion, chat  small\n"
        "a-longer-name  2048     completion, chat  small\n"
    )


def test_models_are_a_list_in_json(run, server):
    """--json gives all that is known."""
    (model,) = json.loads(run("models", "--target", server.target, "--json").stdout)
    assert model["name"] == "tiny"
    assert model["ready_time"] == "2026-01-02T03:04:05+00:00"
    assert model["default_sampling"] == {
        "temperature": 0.5,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.25,
        "repetition_penalty": 1.0,
    }
