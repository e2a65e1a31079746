"""How the scheduler waits for constraints and follows them, with a compiler that is a fake."""

from headrace_server.engine.messages import Constraint
from headrace_server.engine.model_runner import RowOutput
from tests.server.engine.fake_constraints import FakeCompiler
from tests.server.engine.stepped_engine import SteppedEngine, solo_answer


def test_the_output_follows_its_constraint_to_the_end():
    """Each token is one that the mask leaves, and a finished constraint ends the answer."""
    engine = SteppedEngine(compiler=FakeCompiler())
    engine.add(0, constraint=Constraint("spelt"))
    engine.add(1)
    engine.run()

    assert bytes(engine.answers[0][:-1]) == b"spelt"
    assert engine.finishes[0] == ["stop_token"]
    assert engine.answers[1] == solo_answer()


def test_a_sequence_waits_for_its_constraint_and_holds_nobody_up():
    """What comes later runs while a constraint is compiled, which counts as waiting."""
    compiler = FakeCompiler(is_ready=False)
    engine = SteppedEngine(compiler=compiler)
    engine.add(0, constraint=Constraint("late"))
    engine.add(1)

    assert list(engine.step()) == [1]
    assert engine.scheduler.stats.num_waiting == 1
    compiler.is_ready = True
    assert list(engine.step()) == [1, 0]


def test_a_sequence_whose_constraint_cannot_be_compiled_fails_alone():
    """The failure is told, and the neighbours go on."""
    engine = SteppedEngine(compiler=FakeCompiler())
    engine.add(0, constraint=Constraint("broken"))
    engine.add(1)
    engine.run()

    assert engine.finishes == {0: ["failed"], 1: ["max_output_tokens"]}
    assert engine.starts[0] == 0


def test_constraints_are_refused_where_nothing_compiles_them():
    """No answer is made that ignores its constraint."""
    engine = SteppedEngine()
    engine.add(0, constraint=Constraint("spelt"))
    engine.run()

    assert engine.finishes == {0: ["failed"]}


def test_an_abort_while_compiling_cancels_it():
    """The sequence is acknowledged at once, and the compiler is told."""
    compiler = FakeCompiler(is_ready=False)
    engine = SteppedEngine(compiler=compiler)
    engine.add(0, constraint=Constraint("never"))
    engine.scheduler.abort(0)
    engine.step()

    assert engine.finishes == {0: ["aborted"]}
    assert [pending.is_cancelled for pending in compiler.pending] == [True]


def test_a_token_outside_the_constraint_fails_its_sequence():
    """A model that overlooks the mask is not believed."""
    engine = SteppedEngine(compiler=FakeCompiler())
    engine.add(0, constraint=Constraint("spelt"))
    step = engine.scheduler.schedule()
    engine.scheduler.commit(step, [RowOutput(ord("z"))])
    engine.scheduler.check_integrity()

    assert [output.finish for output in engine.scheduler.take_outputs()] == [None, "failed"]


def test_a_preempted_sequence_keeps_its_place_in_the_constraint():
    """Tokens that are computed again are not accepted again."""
    texts = ["the first of two texts", "quite another text"]
    engine = SteppedEngine(num_blocks=9, compiler=FakeCompiler())
    for sequence_id, text in enumerate(texts):
        engine.add(sequence_id, constraint=Constraint(text), max_output_tokens=30)
    engine.run()

    assert engine.scheduler.stats.num_preemptions > 0
    assert [bytes(engine.answers[i][:-1]).decode() for i in range(2)] == texts
