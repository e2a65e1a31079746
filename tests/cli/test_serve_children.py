"""The programs that headrace serve starts."""

import asyncio

import pytest

from headrace.cli.serve import children
from headrace.cli.serve.children import Child, ChildEndedError
from headrace.cli.serve.flags import Program


class TalkativeProcess:
    """A program that tells more than anybody reads, and ends."""

    def __init__(self, num_news):
        self.stdout = asyncio.StreamReader()
        for number in range(num_news):
            self.stdout.feed_data(b'{"event": "engine", "number": %d}\n' % number)
        self.stdout.feed_eof()

    async def wait(self):
        return 0


async def test_news_that_nobody_reads_are_bounded(monkeypatch):
    """Of more news than are kept the newest stay, and the end of the program is still noticed."""
    monkeypatch.setattr(children, "_MAX_UNREAD_NEWS", 3)
    child = Child(Program.SERVER, TalkativeProcess(10))
    with pytest.raises(ChildEndedError):
        await child.watch()
    assert [(await child.next_news())["number"] for _ in range(3)] == [7, 8, 9]
    assert child._news.empty()
