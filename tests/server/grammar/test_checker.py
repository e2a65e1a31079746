"""Constraints are checked in a process that nothing a caller sends can hold."""

import asyncio
import os
import signal
import sys

import psutil
import pytest

from headrace_server.engine.messages import Constraint
from headrace_server.errors import (
    EngineUnavailableError,
    InvalidConstraintError,
    OverloadedError,
)
from headrace_server.grammar import checker as checker_module
from headrace_server.grammar.checker import SLOTS, GrammarChecker
from headrace_server.grammar.fair_slots import SlotLimits
from headrace_server.grammar.spec import ChoicesConstraint, JsonObjectConstraint, RegexConstraint
from tests.server.backends.native.simulated_backend import wait_until
from tests.server.grammar.conftest import SIMULATED_MODEL, SIMULATED_VOCABULARY_SIZE
from tests.server.grammar.constraints import BOMBS, SLOW

# More than a check with its worker takes on any machine; nothing waits for it.
NEVER_SECONDS = 60.0

FIELD = "output.regex"


@pytest.fixture
async def checker():
    async with open_checker() as checker:
        yield checker


def open_checker(**options):
    checker = GrammarChecker(**options)
    checker.use_model(SIMULATED_MODEL, SIMULATED_VOCABULARY_SIZE)
    return checker


async def refusal(checker, spec, **options):
    """The message with which a constraint is refused."""
    with pytest.raises(InvalidConstraintError) as caught:
        await checker.compile(spec, FIELD, **options)
    assert caught.value.field == FIELD
    return caught.value.message


async def test_a_sound_constraint_becomes_a_grammar(checker):
    """The worker starts with the first one."""
    assert checker.worker_pid is None
    constraint = await checker.compile(RegexConstraint("a+"), FIELD)
    assert isinstance(constraint, Constraint)
    assert "a+" in constraint.grammar
    assert checker.worker_pid is not None


async def test_the_same_again_needs_no_worker(checker):
    """What was found is kept, for good constraints and for bad ones."""
    good, bad = RegexConstraint("a"), RegexConstraint("(")
    constraint = await checker.compile(good, FIELD)
    message = await refusal(checker, bad)
    os.kill(checker.worker_pid, signal.SIGSTOP)
    assert await checker.compile(good, "other") == constraint
    assert await refusal(checker, bad) == message


async def test_at_the_same_time_one_check_serves_all(checker):
    """Many requests with one constraint are one check, and one that is given up costs no other."""
    os.kill(await running_worker(checker), signal.SIGSTOP)
    calls = [
        asyncio.create_task(checker.compile(JsonObjectConstraint(), FIELD)) for _ in range(100)
    ]
    await asyncio.sleep(0)
    calls[0].cancel()
    os.kill(checker.worker_pid, signal.SIGCONT)
    first, *others = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert len({constraint.grammar for constraint in others}) == 1


@pytest.mark.parametrize("name", BOMBS)
async def test_what_takes_too_much_is_refused_in_bounded_time(name):
    """Of time, memory or stack; the worker survives it and serves the next."""
    async with open_checker(check_seconds=5.0) as checker:
        async with asyncio.timeout(NEVER_SECONDS):
            message = await refusal(checker, BOMBS[name])
        pid = checker.worker_pid
        await checker.compile(RegexConstraint("a"), FIELD)
        assert message.endswith("; simplify it.")
        assert checker.worker_pid == pid


async def test_what_takes_too_long_is_told_so_and_tried_again_another_time(checker):
    """A machine may have been busy, so that this verdict is not kept."""
    async with open_checker(check_seconds=0.2) as checker:
        message = await refusal(checker, SLOW)
        assert message == "The JSON schema takes too long to compile; simplify it."
        os.kill(checker.worker_pid, signal.SIGSTOP)
        again = asyncio.create_task(checker.compile(SLOW, FIELD))
        await asyncio.sleep(0)
        assert not again.done()
        again.cancel()


async def test_a_check_that_takes_long_stands_back():
    """The answers that are being made come first."""
    async with open_checker(check_seconds=NEVER_SECONDS) as checker:
        worker = psutil.Process(await running_worker(checker))
        call = asyncio.create_task(checker.compile(SLOW, FIELD))
        await wait_until(worker.children)
        [fork] = worker.children()
        await wait_until(lambda: not fork.is_running() or fork.nice() > worker.nice())
        assert fork.is_running()
        call.cancel()


async def test_a_caller_with_slow_constraints_holds_up_itself_alone():
    """Others are served while all places that one caller may have are taken."""
    async with open_checker(check_seconds=NEVER_SECONDS) as checker:
        worker = psutil.Process(await running_worker(checker))
        slow = [
            asyncio.create_task(checker.compile(spec, FIELD, caller="one"))
            for spec in _slow_constraints(10)
        ]
        await wait_until(lambda: len(worker.children()) == SLOTS.num_slots_per_caller)
        for fork in worker.children():
            fork.suspend()  # slower than any
        for index in range(20):
            await checker.compile(RegexConstraint(f"a{index}"), FIELD, caller="other")
        assert [task.done() for task in slow] == [False] * 10
        for task in slow:
            task.cancel()


async def test_too_many_that_wait_are_refused_at_once(monkeypatch):
    """The queue is bounded, and who is refused is told when to try again."""
    limits = SlotLimits(1, 1, 2, 2, retry_after_seconds=3.0)
    monkeypatch.setattr(checker_module, "SLOTS", limits)
    async with open_checker(check_seconds=NEVER_SECONDS) as checker:
        os.kill(await running_worker(checker), signal.SIGSTOP)
        tasks = [
            asyncio.create_task(checker.compile(RegexConstraint(f"b{index}"), FIELD))
            for index in range(3)
        ]
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError) as caught:
            await checker.compile(RegexConstraint("c"), FIELD)
        os.kill(checker.worker_pid, signal.SIGCONT)
        assert caught.value.retry_after_seconds == 3.0
        assert len(await asyncio.gather(*tasks)) == 3


async def test_a_worker_that_is_killed_is_replaced(checker):
    """Between two checks, and in the middle of one."""
    first = await running_worker(checker)
    kill_and_wait(first)
    second = await running_worker(checker, "b")
    os.kill(second, signal.SIGSTOP)
    constraint = asyncio.create_task(checker.compile(RegexConstraint("c"), FIELD))
    await asyncio.sleep(0)
    kill_and_wait(second)
    assert isinstance(await constraint, Constraint)
    assert len({first, second, checker.worker_pid}) == 3


async def test_a_worker_that_cannot_be_started_is_tried_again_with_the_next_constraint(
    checker, monkeypatch
):
    """The request is refused, and nothing else happens."""
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/nowhere/python")
        with pytest.raises(OverloadedError):
            await checker.compile(RegexConstraint("a"), FIELD)
    assert isinstance(await checker.compile(RegexConstraint("a"), FIELD), Constraint)


async def test_its_worker_and_the_checks_end_with_it():
    """Nothing is left behind, even of a check that would run for minutes."""
    async with open_checker(check_seconds=NEVER_SECONDS) as checker:
        worker = psutil.Process(await running_worker(checker))
        call = asyncio.create_task(checker.compile(SLOW, FIELD))
        await wait_until(worker.children)
        forks = worker.children()
    assert psutil.wait_procs([worker, *forks], timeout=NEVER_SECONDS)[1] == []
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_without_a_model_there_is_nothing_to_check_for():
    """The caller is told to come back, but for what is wrong with any model."""
    async with GrammarChecker() as checker:
        with pytest.raises(EngineUnavailableError):
            await checker.compile(RegexConstraint("a"), FIELD)
        assert await refusal(checker, ChoicesConstraint(())) == (
            "There are no choices; give at least one."
        )


async def test_a_tokenizer_that_cannot_be_used_refuses_constraints(tmp_path):
    """The server goes on without them."""
    (tmp_path / "tokenizer.json").write_text("{}")
    async with GrammarChecker() as checker:
        checker.use_model(tmp_path, SIMULATED_VOCABULARY_SIZE)
        assert await refusal(checker, RegexConstraint("a")) == (
            "The tokenizer of the model cannot be used with constraints."
        )
        checker.use_model(SIMULATED_MODEL, SIMULATED_VOCABULARY_SIZE)
        assert isinstance(await checker.compile(RegexConstraint("a"), FIELD), Constraint)


async def running_worker(checker, pattern="a"):
    await checker.compile(RegexConstraint(pattern), FIELD)
    return checker.worker_pid


def kill_and_wait(pid):
    process = psutil.Process(pid)
    process.kill()
    psutil.wait_procs([process], timeout=NEVER_SECONDS)


def _slow_constraints(number):
    """So many that differ."""
    return [
        type(SLOW)(SLOW.schema_json.replace("9999991", str(9_999_991 + index)))
        for index in range(number)
    ]
