"""benchmarks/gpu.py, as far as it goes without a GPU."""

import sys

import pytest
import torch

import gpu


def test_the_workload_is_that_of_nano_vllm():
    """Its published number of output tokens comes out, so that numbers can be compared."""
    prompts, num_outputs = gpu.workload(gpu.WORKLOAD_REQUESTS, 1024, 128_256)
    assert (len(prompts), sum(num_outputs)) == (256, 133_966)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_machine_without_a_gpu_is_told_so(monkeypatch):
    """One sentence, and an exit status that says that nothing was measured."""
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    with pytest.raises(SystemExit) as ended:
        gpu.main()
    assert ended.value.code == (
        "This machine has no GPU that PyTorch can use; --device cpu --quick tries the script."
    )


def test_requests_of_different_lengths_get_their_tokens():
    """The loop of the workload ends with as many tokens as were asked for."""
    counts = []

    class Counting(gpu.Model):
        def forward(self, rows):
            chosen = super().forward(rows)
            counts.append(sum(token is not None for token in chosen))
            return chosen

    model = Counting(gpu.SHAPES["tiny"], torch.device("cpu"), torch.float32, 16, context=64)
    gpu.run_workload(model, [[1, 2, 3], [4], [5] * 20], [2, 5, 1])
    assert sum(counts) == 8
