"""The bound of what is held of an answer until its end, over all prompts of a request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.v1 import inference_service_pb2
from headrace_gateway import errors

if TYPE_CHECKING:
    from headrace.v1.inference_service_pb2 import GenerateResponse

MAX_HELD_BYTES = 8 * 1024 * 1024
"""The most that the responses of the server to one request may have, as protobuf. The objects
and the JSON that are made of log probabilities are about ten times as large, and all of it is
there at once; a text of this size has millions of tokens.
"""


class HeldAnswer:
    """Counts what has come."""

    def __init__(self) -> None:
        self._num_bytes = 0

    def add(self, response: GenerateResponse, num_candidates: int) -> None:
        """Count a response.

        Args:
            response: of one prompt.
            num_candidates: how many choices tell what it has of the prompt.

        Raises:
            ApiError: 400, it is too much.
        """
        self._num_bytes += response.ByteSize()
        if response.prompt_logprobs and num_candidates > 1:
            told = inference_service_pb2.GenerateResponse(prompt_logprobs=response.prompt_logprobs)
            self._num_bytes += (num_candidates - 1) * told.ByteSize()
        if self._num_bytes > MAX_HELD_BYTES:
            raise errors.answer_too_large(MAX_HELD_BYTES)
