"""A backend that plays a script to each request, for scenarios that must be exact."""

import asyncio
from contextlib import asynccontextmanager

from headrace_server.backends.interface import (
    BackendFinish,
    BackendLoad,
    BackendState,
    BackendStatus,
    Started,
    Tokens,
)

READY = BackendStatus(BackendState.READY, "ready")


class ScriptedBackend:
    """Implements `Backend`.

    Args:
        script: what happens to a request, in order: events, or lists of those that come
            together; exceptions, which are raised; `asyncio.Event`s, which are waited for.
        refusal: raised instead of admitting a request.

    Attributes:
        requests: all that were submitted.
        num_open: streams that are not left yet.
        num_unread: steps of the script that nobody took, of the streams that were left.
        cancelled: the indices of the candidates that were cancelled, in order.
    """

    def __init__(self, script=(), *, refusal=None, status=READY):
        self.script = list(script)
        self.refusal = refusal
        self.status = status
        self.model = None
        self.load = BackendLoad(0, 0, 0, 0, 0, 0, 0, 0)
        self.requests = []
        self.num_open = 0
        self.num_unread = 0
        self.cancelled = []

    async def wait_for_status_change(self, seen):
        await asyncio.Event().wait()
        return seen

    @asynccontextmanager
    async def submit(self, request):
        if self.refusal is not None:
            raise self.refusal
        self.requests.append(request)
        self.num_open += 1
        stream = _Stream(self.script, self.cancelled.append)
        try:
            yield stream
        finally:
            self.num_open -= 1
            self.num_unread += len(stream.steps)


class _Stream:
    def __init__(self, script, note_cancel):
        self.steps = list(script)
        self._note_cancel = note_cancel
        self._cancelled = set()

    def cancel(self, candidate_index):
        self._cancelled.add(candidate_index)
        self._note_cancel(candidate_index)

    def __aiter__(self):
        return self

    async def __anext__(self):
        while self.steps:
            step = self.steps[0]
            if isinstance(step, asyncio.Event):
                await step.wait()
            del self.steps[0]
            if isinstance(step, Exception):
                raise step
            if not isinstance(step, asyncio.Event) and (events := self._uncancelled(step)):
                return events
        raise StopAsyncIteration

    def _uncancelled(self, step):
        events = step if isinstance(step, list) else [step]
        return [
            event
            for event in events
            if not (isinstance(event, Tokens) and event.candidate_index in self._cancelled)
        ]


def tokens(*token_ids):
    """An event with these tokens after which the sequence goes on."""
    return Tokens(token_ids, None)


def one_by_one(token_ids, finish=BackendFinish.MAX_OUTPUT_TOKENS):
    """The script of a sequence with an event for each token."""
    last = len(token_ids) - 1
    return [
        Started(),
        *(Tokens([i], finish if index == last else None) for index, i in enumerate(token_ids)),
    ]
