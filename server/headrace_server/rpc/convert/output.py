"""What the responses carry and how they are cut."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from headrace_server.rpc.convert.checks import require, to_seconds
from headrace_server.text.generation import Chunking

if TYPE_CHECKING:
    from headrace.v1 import output_pb2

MAX_CHUNK_TOKENS: Final = 1024
MAX_CHUNK_DELAY_SECONDS: Final = 60.0
# As many as OpenAI's API has; each is a part of every response.
MAX_TOP_LOGPROBS: Final = 20


def to_num_logprobs(
    message: output_pb2.Output, name: Literal["top_logprobs", "prompt_logprobs"]
) -> int | None:
    """Check how many of the most likely tokens are told; None where no log probabilities are.

    Raises:
        InvalidFieldError: the number is out of its range.
    """
    if not message.HasField(name):
        return None
    count: int = getattr(message, name)
    require(
        0 <= count <= MAX_TOP_LOGPROBS, f"output.{name}", f"must be from 0 to {MAX_TOP_LOGPROBS}"
    )
    return count


def to_chunking(message: output_pb2.Chunking) -> Chunking:
    """Check how the answer is to be cut.

    Raises:
        InvalidFieldError: a value is out of its range, or excludes another.
    """
    field = "output.chunking"
    min_tokens = message.min_tokens if message.HasField("min_tokens") else 1
    require(
        1 <= min_tokens <= MAX_CHUNK_TOKENS,
        f"{field}.min_tokens",
        f"must be from 1 to {MAX_CHUNK_TOKENS}",
    )
    max_delay_seconds = None
    if message.HasField("max_delay"):
        max_delay_seconds = to_seconds(message.max_delay, f"{field}.max_delay")
        require(
            0 <= max_delay_seconds <= MAX_CHUNK_DELAY_SECONDS,
            f"{field}.max_delay",
            f"must be from 0 s to {MAX_CHUNK_DELAY_SECONDS:.0f} s",
        )
    require(
        not (message.whole and (message.HasField("min_tokens") or message.HasField("max_delay"))),
        f"{field}.whole",
        "must not be true together with min_tokens or max_delay",
    )
    return Chunking(min_tokens, max_delay_seconds, message.whole)
