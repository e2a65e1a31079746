"""The engine without a front, on the simulated model."""

from comparison.engine_worker import run_offline
from headrace_server.engine.settings import EngineSettings
from headrace_server.engine.simulated_runner import SimulatedRunner


def test_every_prompt_gets_its_tokens():
    """Also where more prompts come than run together."""
    settings = EngineSettings(runner="simulated", max_num_sequences=2)
    runner = SimulatedRunner.load(settings, lambda phase, fraction=None: None)
    prompts = [[10 + index] * 20 for index in range(5)]
    assert run_offline(runner, settings, prompts, 6) == 5 * 6
