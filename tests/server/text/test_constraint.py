"""The constraint of a request on its way to the backend."""

import asyncio

import pytest

from headrace_server.backends.interface import BackendFinish, Started, Tokens
from headrace_server.engine.messages import Constraint
from headrace_server.errors import InvalidConstraintError, InvalidFieldError, QueueTimeoutError
from headrace_server.grammar.spec import ChoicesConstraint, RegexConstraint
from headrace_server.text.delta import Finish, FinishReason
from headrace_server.text.generation import GenerationRequest, Stopping, TokenPrompt
from headrace_server.text.pipeline import TextPipeline
from tests.server.text.only_candidate import flatten
from tests.server.text.scripted_backend import ScriptedBackend, one_by_one
from tests.server.text.tokenizer_files import byte_level_tokenizer, write_model

NEVER_SECONDS = 30.0
SPEC = RegexConstraint("a+")
GRAMMAR = Constraint("the grammar of a+")


class FakeChecker:
    """Implements `ConstraintChecker`.

    Attributes:
        answer: what `compile` returns or raises; an `asyncio.Event` is waited for.
        asked: the arguments of each call.
        models: those that it was told to use.
    """

    def __init__(self, answer=GRAMMAR):
        self.answer = answer
        self.asked = []
        self.models = []

    def use_model(self, directory, vocabulary_size):
        self.models.append((directory, vocabulary_size))

    async def compile(self, spec, field, caller=""):
        self.asked.append((spec, field, caller))
        if isinstance(self.answer, Exception):
            raise self.answer
        if isinstance(self.answer, asyncio.Event):
            await self.answer.wait()
        return self.answer


@pytest.fixture(scope="module")
def model_facts(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"), byte_level_tokenizer())


@pytest.fixture
def backend():
    return ScriptedBackend(one_by_one([1, 2]))


async def read(model_facts, backend, checker, constraint=SPEC, **options):
    async with TextPipeline(backend, constraints=checker) as pipeline:
        await pipeline.load_model(model_facts)
        request = GenerationRequest("id", TokenPrompt((1,)), constraint=constraint, **options)
        async with pipeline.generate(request) as answer:
            return [flatten(delta) async for delta in answer]


async def test_the_backend_follows_what_was_found_sound(model_facts, backend):
    """The checker knows the model, the field and the caller."""
    checker = FakeChecker()
    await read(model_facts, backend, checker, ChoicesConstraint(("a",)), caller="me")

    assert checker.asked == [(ChoicesConstraint(("a",)), "constraint.choices.texts", "me")]
    assert checker.models == [(model_facts.directory, model_facts.vocabulary_size)]
    assert backend.requests[0].constraint == GRAMMAR


async def test_a_free_answer_needs_no_check(model_facts, backend):
    """Nobody is asked about nothing."""
    checker = FakeChecker()
    await read(model_facts, backend, checker, None)

    assert checker.asked == []
    assert backend.requests[0].constraint is None


async def test_a_bad_constraint_never_reaches_the_backend(model_facts, backend):
    """The refusal comes before the answer."""
    checker = FakeChecker(InvalidConstraintError("constraint.regex", "Bad."))
    with pytest.raises(InvalidConstraintError):
        await read(model_facts, backend, checker)
    assert backend.requests == []


async def test_without_a_checker_constraints_are_refused(model_facts, backend):
    """By their field; an answer that ignored them would be wrong."""
    with pytest.raises(InvalidFieldError) as caught:
        await read(model_facts, backend, None)
    assert caught.value.field == "constraint.regex"
    assert backend.requests == []


async def test_a_check_counts_in_the_time_of_the_answer(model_facts, backend):
    """When the time is over before it is done, the answer is empty and ends well."""
    checker = FakeChecker(asyncio.Event())
    [delta] = await read(model_facts, backend, checker, max_seconds=0.01)
    assert (delta.text, delta.finish) == ("", Finish(FinishReason.TIME_LIMIT))
    assert backend.requests == []


async def test_a_check_counts_in_the_time_of_the_queue(model_facts, backend):
    """It is a part of the wait for the first step."""
    checker = FakeChecker(asyncio.Event())
    with pytest.raises(QueueTimeoutError):
        await read(model_facts, backend, checker, max_queue_seconds=0.01, max_seconds=NEVER_SECONDS)


async def test_an_answer_that_is_complete_has_ended(model_facts):
    """Its last token is one of text, and the end is that of a text."""
    hello = byte_level_tokenizer().token_to_id("hello")
    backend = ScriptedBackend([Started(), Tokens([hello], BackendFinish.COMPLETE)])
    [delta] = await read(model_facts, backend, FakeChecker(), stopping=Stopping(9))
    assert (delta.text, delta.token_ids) == ("hello", (hello,))
    assert delta.finish == Finish(FinishReason.END_OF_TEXT)
