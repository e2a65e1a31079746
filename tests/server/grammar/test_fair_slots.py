"""Places are shared between callers, in turns."""

import asyncio

import pytest

from headrace_server.errors import OverloadedError
from headrace_server.grammar.fair_slots import FairSlots, SlotLimits


class Crowd:
    """Callers that stay in their places until they are told to leave."""

    def __init__(self, *, num_slots=2, num_slots_per_caller=1, max_waiting=8, max_per_caller=4):
        self._slots = FairSlots(
            SlotLimits(num_slots, num_slots_per_caller, max_waiting, max_per_caller, 1.0)
        )
        self.inside = []
        self._doors = {}
        self.tasks = {}

    async def come(self, *names):
        """Let callers come; the first letter of a name is the caller."""
        for name in names:
            self._doors[name] = asyncio.Event()
            self.tasks[name] = asyncio.create_task(self._stay(name))
            await settle()

    async def leave(self, name):
        self._doors[name].set()
        await self.tasks[name]
        await settle()

    async def _stay(self, name):
        async with self._slots.take(name[0]):
            self.inside.append(name)
            try:
                await self._doors[name].wait()
            finally:
                self.inside.remove(name)


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_caller_has_at_most_its_share():
    """What is free stays free for others."""
    crowd = Crowd()
    await crowd.come("a1", "a2")
    assert crowd.inside == ["a1"]
    await crowd.come("b1")
    assert crowd.inside == ["a1", "b1"]


async def test_callers_take_turns():
    """One who came with many is served as often as one who came with few."""
    crowd = Crowd(num_slots=1)
    await crowd.come("a1", "a2", "a3", "b1", "b2")
    served = []
    while crowd.inside:
        served += crowd.inside
        await crowd.leave(crowd.inside[0])
    assert served == ["a1", "a2", "b1", "a3", "b2"]


async def test_too_many_are_refused():
    """In all, and of one caller."""
    crowd = Crowd(num_slots=1, max_waiting=3, max_per_caller=2)
    await crowd.come("a1", "a2", "a3", "a4", "b1", "c1")
    refused = [name for name, task in crowd.tasks.items() if task.done()]
    assert refused == ["a4", "c1"]
    for name in refused:
        with pytest.raises(OverloadedError):
            await crowd.tasks[name]


async def test_one_who_gives_up_makes_room():
    """In the queue, and in the moment in which a place comes free."""
    crowd = Crowd(num_slots=1)
    await crowd.come("a1", "b1", "c1", "d1")
    crowd.tasks["b1"].cancel()
    await settle()
    crowd._doors["a1"].set()
    await crowd.tasks["a1"]
    crowd.tasks["c1"].cancel()
    await settle()
    assert crowd.inside == ["d1"]
    await crowd.leave("d1")
    await crowd.come("e1")
    assert crowd.inside == ["e1"]


async def test_one_who_fails_inside_gives_the_place_back():
    """Whatever happens there."""
    crowd = Crowd(num_slots=1)
    await crowd.come("a1", "b1")
    crowd.tasks["a1"].cancel()
    await settle()
    assert crowd.inside == ["b1"]
