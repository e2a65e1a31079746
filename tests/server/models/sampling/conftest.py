"""How the tests of sampling run."""

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Threads that spin for each other take minutes where cores are shared."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(num_threads)
