from headrace_server.engine.limits import SchedulerLimits, choose_limits
from headrace_server.engine.settings import EngineSettings


def test_a_cpu_gets_short_steps_and_a_gpu_gets_large_ones():
    """What the settings leave open follows the device."""
    cpu = choose_limits(EngineSettings(device="cpu"), vocabulary_size=9)
    gpu = choose_limits(EngineSettings(device="cuda:1"), vocabulary_size=9)

    assert cpu == SchedulerLimits(64, 256, 64, 9)
    assert gpu == SchedulerLimits(64, 8192, 2048, 9)


def test_every_running_sequence_has_room_in_a_step():
    """More sequences than the usual budget of a step raise the budget."""
    limits = choose_limits(EngineSettings(max_num_sequences=1000), vocabulary_size=9)

    assert limits.max_num_batched_tokens == 1000


def test_what_is_set_stays():
    """Settings are not second-guessed."""
    settings = EngineSettings(max_num_batched_tokens=70, max_prefill_chunk=7)

    assert choose_limits(settings, vocabulary_size=9) == SchedulerLimits(64, 70, 7, 9)
