"""Whose turn it is, without an engine: a request costs as many tokens as its prompt has."""

from headrace_server.engine.block_names import BlockNames
from headrace_server.engine.sequence import Sequence
from headrace_server.engine.waiting_queue import WaitingQueue
from tests.server.engine.stepped_engine import add_sequence


class Line:
    """A queue whose sequences are numbered as they come."""

    def __init__(self):
        self.queue = WaitingQueue()
        self._num_sequences = 0

    def push(self, caller="", num_tokens=10, priority=0):
        request = add_sequence(
            self._num_sequences, b"x" * num_tokens, caller=caller, priority=priority
        )
        sequence = Sequence(request, self._num_sequences, BlockNames("", 4))
        self._num_sequences += 1
        self.queue.push(sequence)
        return sequence

    def admit(self):
        """Let the next one in and return its number."""
        sequence = self.queue.head
        self.queue.remove(sequence)
        sequence.admission = 0
        self.queue.charge(sequence, len(sequence.token_ids))
        return sequence.sequence_id

    def admit_all(self):
        return [self.admit() for _ in range(len(self.queue))]


def test_a_caller_is_served_in_order():
    """First come, first served, among the sequences of one caller."""
    line = Line()
    for num_tokens in (50, 1, 20):
        line.push(num_tokens=num_tokens)

    assert line.admit_all() == [0, 1, 2]


def test_a_thousand_requests_of_one_caller_hold_another_up_by_one():
    """A single request is second in line, however many are there already."""
    line = Line()
    for _ in range(1000):
        line.push("crowd")
    for _ in range(10):
        line.admit()
    single = line.push("single")

    assert single.sequence_id in [line.admit(), line.admit()]


def test_turns_are_counted_in_tokens():
    """A caller of short prompts gets more of them in than one of long prompts."""
    line = Line()
    longs = [line.push("long", num_tokens=100).sequence_id for _ in range(4)]
    for _ in range(40):
        line.push("short", num_tokens=10)
    first = [line.admit() for _ in range(22)]

    assert sum(number in longs for number in first) == 2


def test_output_counts_as_well():
    """Tokens computed for the answers of a caller put off its next turn."""
    line = Line()
    first = line.push("a")
    line.push("a")
    line.push("b")
    line.push("b")
    line.admit()
    line.admit()
    line.queue.charge(first, 100)

    assert line.admit_all() == [3, 1]


def test_a_caller_that_comes_back_is_owed_nothing():
    """Whoever was away starts level with the others, and nobody starves."""
    line = Line()
    for _ in range(10):
        line.push("busy")
    for _ in range(5):
        line.admit()
    order = []
    line.push("other")
    for _ in range(8):
        order.append(line.admit() >= 10)
        if order[-1]:
            line.push("other")

    assert order == [False, True] * 4


def test_one_that_always_has_a_long_request_waiting_starves_nobody():
    """A caller that queues the next request as soon as it can has every other turn at most."""
    line = Line()
    for _ in range(10):
        line.push("many", num_tokens=1)
    line.push("one", num_tokens=1000)
    order = []
    for _ in range(12):
        order.append(line.admit())
        if order[-1] >= 10:
            line.push("one", num_tokens=1000)

    assert sum(number < 10 for number in order) >= 6


def test_a_higher_priority_goes_first():
    """Priorities come before turns."""
    line = Line()
    for priority in (0, -5, 7, 0):
        line.push(priority=priority)

    assert line.admit_all() == [2, 0, 3, 1]


def test_what_was_in_the_batch_goes_first_in_the_order_of_its_admission():
    """A preempted sequence does not queue up again."""
    line = Line()
    line.push("a")
    first, second = line.push("b"), line.push("c")
    for sequence, admission in ((first, 5), (second, 2)):
        line.queue.remove(sequence)
        sequence.admission = admission
        line.queue.push(sequence)

    assert line.admit_all() == [2, 1, 0]


def test_one_that_has_ended_is_taken_out_wherever_it_stands():
    """Aborts in the queue change nobody's order."""
    line = Line()
    sequences = [line.push(caller) for caller in "aabba"]
    line.queue.remove(sequences[1])
    line.queue.remove(sequences[2])

    assert len(line.queue) == 3
    assert sorted(each.sequence_id for each in line.queue) == [0, 3, 4]
    assert line.admit_all() == [0, 3, 4]
    assert line.queue.head is None
