"""A response while it is made: its events, and what it is in the end."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

from headrace_gateway.responses import events
from headrace_gateway.responses.output import Output
from headrace_gateway.responses.response import (
    Response,
    ResponseError,
    ResponseStatus,
    response,
    response_usage,
)

if TYPE_CHECKING:
    from headrace.v1.inference_service_pb2 import GenerateResponse
    from headrace_gateway.openai.answer import Identity, TokenCounts
    from headrace_gateway.openai.api_error import ApiError
    from headrace_gateway.responses.response_request import Settings

ID_PREFIX = "resp_"


class ResponseEvents:
    """Makes the events of a streamed response; without a stream nobody needs to see them.

    Args:
        identity: that of the response.
        settings: what it repeats.
    """

    def __init__(self, identity: Identity, settings: Settings) -> None:
        self._identity = identity
        self._settings = settings
        self._numbers = count()
        self._output = Output(identity.id.removeprefix(ID_PREFIX), self._numbers)

    def opening(self, prompt_index: int) -> list[events.Event]:
        """Return the events that say that the request was taken."""
        begun = response(self._identity, self._settings, "in_progress")
        return [
            events.ResponseCreated(sequence_number=next(self._numbers), response=begun),
            events.ResponseInProgress(sequence_number=next(self._numbers), response=begun),
        ]

    def chunks(self, prompt_index: int, message: GenerateResponse) -> list[events.Event]:
        """Return the events of what is new."""
        return [event for delta in message.deltas for event in self._output.add(delta)]

    def closing(self, counts: TokenCounts) -> list[events.Event]:
        """Return the event with the whole response."""
        kind = events.ResponseIncomplete if self._output.is_cut else events.ResponseCompleted
        return [kind(sequence_number=next(self._numbers), response=self.whole(counts))]

    def failure(self, error: ApiError) -> list[events.Event]:
        """Return the events that end the stream with an error: what it is, and what there was."""
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        failed = response(
            self._identity,
            self._settings,
            "failed",
            self._output.current_items(),
            error=ResponseError(code, error.message),
        )
        return [
            events.ErrorEvent(
                sequence_number=next(self._numbers),
                code=error.code or error.type,
                message=error.message,
                param=error.param,
            ),
            events.ResponseFailed(sequence_number=next(self._numbers), response=failed),
        ]

    def whole(self, counts: TokenCounts) -> Response:
        """Return the response of an answer that ended well."""
        status: ResponseStatus = "incomplete" if self._output.is_cut else "completed"
        return response(
            self._identity, self._settings, status, self._output.items, response_usage(counts)
        )
