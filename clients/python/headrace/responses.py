"""Responses of the contract → results of the client; pure, and shared by both clients."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from grpc import StatusCode

from headrace import results
from headrace.errors import InternalError
from headrace.v1.model_pb2 import Capability
from headrace.v1.stopping_pb2 import FinishReason

if TYPE_CHECKING:
    from google.protobuf.duration_pb2 import Duration

    from headrace.v1.inference_service_pb2 import (
        GenerateResponse,
        TokenizeRequest,
        TokenizeResponse,
    )
    from headrace.v1.model_pb2 import Model
    from headrace.v1.stopping_pb2 import Finish


class Transcript:
    """The answer so far, collected from the responses of one call.

    Attributes:
        request_id: the server's own id of the request, once it is known.
    """

    def __init__(self) -> None:
        self.request_id: str | None = None
        self._texts: list[str] = []
        self._token_ids: list[int] = []
        self._finish: results.Finish | None = None
        self._usage = results.Usage(0, 0)
        self._timing = results.Timing(0.0, None, 0.0)

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    def add(self, response: GenerateResponse) -> results.Delta | None:
        """Take a response and return its piece; None when it has none."""
        if response.HasField("usage"):
            self._usage = results.Usage(
                response.usage.prompt_token_count, response.usage.output_token_count
            )
            self._timing = _timing(response)
        if not response.deltas:
            return None
        delta = response.deltas[0]
        if delta.HasField("finish"):
            self._finish = _finish(delta.finish)
        self._texts.append(delta.text)
        self._token_ids.extend(delta.token_ids)
        return results.Delta(delta.text, tuple(delta.token_ids), self._finish)

    def close(self) -> None:
        """Take note that the call ended with status OK.

        Raises:
            InternalError: the answer has no finish, which breaks the contract.
        """
        if self._finish is None:
            raise InternalError(
                "The server ended the call before the answer was complete.",
                code=StatusCode.INTERNAL,
            )

    @property
    def generation(self) -> results.Generation:
        """Return the whole answer.

        Raises:
            RuntimeError: it is not finished.
        """
        if self._finish is None:
            raise RuntimeError("the answer is not complete: read the stream to its end")
        return results.Generation(
            text=self.text,
            token_ids=tuple(self._token_ids),
            finish=self._finish,
            usage=self._usage,
            timing=self._timing,
            request_id=self.request_id,
        )


def tokenization(request: TokenizeRequest, response: TokenizeResponse) -> results.Tokenization:
    """Convert a response."""
    had_text = request.WhichOneof("prompt") != "token_ids"
    return results.Tokenization(tuple(response.token_ids), response.text if had_text else None)


def model(message: Model) -> results.Model:
    """Convert the description of a model."""
    sampling = message.default_sampling
    return results.Model(
        name=message.name,
        aliases=tuple(message.aliases),
        context_length=message.context_length,
        vocabulary_size=message.vocabulary_size,
        default_sampling=results.Sampling(
            sampling.temperature, sampling.top_p, sampling.top_k, sampling.min_p
        ),
        end_of_text_token_ids=tuple(message.end_of_text_token_ids),
        capabilities=tuple(_capability(number) for number in message.capabilities),
        tokenizer_fingerprint=message.tokenizer_fingerprint,
        ready_time=message.ready_time.ToDatetime(tzinfo=UTC),
    )


def _finish(message: Finish) -> results.Finish:
    return results.Finish(
        reason=_finish_reason(message.reason),
        stop_sequence=message.stop_sequence if message.HasField("stop_sequence") else None,
        stop_token_id=message.stop_token_id if message.HasField("stop_token_id") else None,
    )


def _finish_reason(number: FinishReason.ValueType) -> results.FinishReason:
    try:
        name = FinishReason.Name(number)
        return results.FinishReason(name.removeprefix("FINISH_REASON_").lower())
    except ValueError:
        return results.FinishReason.UNKNOWN


def _capability(number: Capability.ValueType) -> results.Capability:
    try:
        return results.Capability(Capability.Name(number).removeprefix("CAPABILITY_").lower())
    except ValueError:
        return results.Capability.UNKNOWN


def _timing(response: GenerateResponse) -> results.Timing:
    timing = response.timing
    first_token = timing.first_token if timing.HasField("first_token") else None
    return results.Timing(
        queue_seconds=_seconds(timing.queue),
        first_token_seconds=None if first_token is None else _seconds(first_token),
        total_seconds=_seconds(timing.total),
    )


def _seconds(duration: Duration) -> float:
    return duration.ToNanoseconds() / 1e9
