from headrace_server.engine.limits import SchedulerLimits, choose_limits
from headrace_server.engine.model_runner import ModelDescription
from headrace_server.engine.settings import EngineSettings


def model_on(device_type: str) -> ModelDescription:
    return ModelDescription("", 64, 9, num_blocks=8, block_size=8, device_type=device_type)


def test_a_cpu_gets_short_steps_and_a_gpu_gets_large_ones():
    """What the settings leave open follows the device."""
    settings = EngineSettings()

    assert choose_limits(settings, model_on("cpu")) == SchedulerLimits(64, 256, 32, 9)
    assert choose_limits(settings, model_on("cuda")) == SchedulerLimits(64, 8192, 2048, 9)


def test_every_running_sequence_has_room_in_a_step():
    """More sequences than the usual budget of a step raise the budget."""
    limits = choose_limits(EngineSettings(max_num_sequences=1000), model_on("cpu"))

    assert limits.max_num_batched_tokens == 1000


def test_what_is_set_stays():
    """Settings are not second-guessed."""
    settings = EngineSettings(max_num_batched_tokens=70, max_prefill_chunk=7)

    assert choose_limits(settings, model_on("cpu")) == SchedulerLimits(64, 70, 7, 9)
