"""How large the KV cache is where nobody says it, and what is said of it."""

import logging
from dataclasses import dataclass

import pytest

from headrace_server.engine.model_runner import ModelLoadError
from headrace_server.engine.settings import EngineSettings
from headrace_server.models import kv_cache
from headrace_server.models.precision import choose_precision

BYTES_PER_TOKEN = 2 * 2 * 8 * 4  # key and value, 2 heads of 8 numbers in fp32
PLENTY = 1 << 30


@dataclass(frozen=True)
class Shape:
    num_layers: int = 1
    num_kv_heads: int = 2
    head_dim: int = 8


@pytest.fixture
def take(monkeypatch, caplog):
    """Take a KV cache, and return its tokens and why it has no more."""

    def take(context_length, *, free=PLENTY, reserved_bytes=0, **settings):
        monkeypatch.setattr(kv_cache, "available_bytes", lambda device: free)
        precision = choose_precision("cpu", "float32", "none")
        caplog.clear()
        with caplog.at_level(logging.INFO, "headrace_server.models"):
            cache = kv_cache.allocate(
                Shape(), precision, EngineSettings(**settings), context_length, reserved_bytes
            )
        (record,) = caplog.records
        assert record.fields["tokens"] == cache.num_blocks * cache.block_size
        assert record.fields["change_with"] == "--kv-cache-bytes"
        return cache.num_blocks * cache.block_size, record.fields["reason"]

    return take


def test_the_default_on_cpus_is_a_number_of_tokens(take):
    """However much memory is free, the default holds as many tokens, whatever a token takes."""
    assert take(8192) == (12_288, "12,288 tokens, the default on CPUs")
    assert take(8192, block_size=32) == (12_288, "12,288 tokens, the default on CPUs")


def test_the_default_holds_a_sequence_at_full_length(take):
    """A context that is longer than the default number of tokens fits once."""
    assert take(32_768) == (32_768, "one sequence at full length, the default on CPUs")


def test_the_default_is_no_more_than_half_of_the_free_memory(take):
    """Where little memory is free, half of it is left."""
    free = 2 * 4096 * BYTES_PER_TOKEN
    assert take(8192, free=free) == (4096, "50% of the free memory")
    assert take(1 << 20, free=free) == (4096, "50% of the free memory")


def test_what_steps_need_is_left_unless_a_size_is_given(take):
    """The share is one of what is left for the cache; a size that is given is taken as it is."""
    free = 2 * 4096 * BYTES_PER_TOKEN
    sizes = {"free": free, "reserved_bytes": free // 2}
    assert take(8192, **sizes) == (2048, "50% of the free memory")
    assert take(8192, **sizes, kv_cache_bytes=free) == (8192, "as given")


def test_the_default_is_no_more_than_can_be_used(take):
    """Few sequences of a short context get what all of them need at full length."""
    expected = (3 * 128, "holds all sequences at full length")
    assert take(128, max_num_sequences=3) == expected


def test_a_given_size_is_taken(take):
    """What was asked for is taken, though it is more than the default or can be used."""
    for tokens in (1024, 65_536):
        given = tokens * BYTES_PER_TOKEN
        assert take(128, max_num_sequences=1, kv_cache_bytes=given) == (tokens, "as given")


def test_half_of_the_free_memory_can_be_too_little(take):
    """A length that was asked for and does not fit is refused in numbers."""
    free = 2 * 4096 * BYTES_PER_TOKEN
    with pytest.raises(ModelLoadError, match="holds 4096 tokens, less than one sequence of 8192"):
        take(8192, free=free, max_context_length=8192)
