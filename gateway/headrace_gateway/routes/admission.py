"""How conversations are taken: their bound of tokens may be more than the context has room for."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from headrace_gateway.openai.api_error import ApiError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from headrace.v1 import inference_service_pb2
    from headrace_gateway.upstream import Answer, CallContext, Upstream


@asynccontextmanager
async def admitted(
    upstream: Upstream,
    request: inference_service_pb2.GenerateRequest,
    context: CallContext,
    max_tokens_field: str,
    *,
    is_held: bool,
) -> AsyncIterator[Answer]:
    """Open the answer to a chat once the server has taken it.

    Args:
        upstream: the server.
        request: of the chat; its bound of tokens is taken away where that is too much.
        context: of the call.
        max_tokens_field: the JSON field of that bound.
        is_held: as in `Upstream.generate_all`.

    Raises:
        ApiError: the server refuses it.
    """
    async with AsyncExitStack() as stack:
        try:
            answers = await stack.enter_async_context(
                upstream.generate_all([request], context, is_held=is_held)
            )
        except ApiError as error:
            if not _exceeds_context(error, max_tokens_field):
                raise
            # To the contract the number is exact, in a chat it is an upper bound: the
            # server fills the room that the prompt leaves when none is given.
            request.stopping.ClearField("max_output_tokens")
            answers = await stack.enter_async_context(
                upstream.generate_all([request], context, is_held=is_held)
            )
        [answer] = answers
        yield answer


def _exceeds_context(error: ApiError, max_tokens_field: str) -> bool:
    return error.code == "context_length_exceeded" and error.param == max_tokens_field
