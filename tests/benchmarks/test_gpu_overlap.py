"""benchmarks/gpu_overlap.py on a CPU."""

import torch

import gpu
import gpu_overlap


def test_overlapping_steps_are_compared_and_give_the_same():
    """Answers are complete, and those of both runners are equal."""
    model = gpu.Model(gpu.SHAPES["tiny"], torch.device("cpu"), torch.float32, 16, context=256)
    _, answers = gpu_overlap.run(gpu_overlap.plain_runner(model), 2, 5)
    assert [len(answers[index]) for index in range(2)] == [5, 5]
    (result,) = gpu_overlap.measure_overlap(model, (2,), 5)
    assert (result["rows"], result["passed"]) == (2, True)
