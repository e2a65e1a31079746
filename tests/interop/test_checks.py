"""What would be wrong is found: the checks of the harness themselves."""

import copy

import pytest

from tests.interop.answers import join
from tests.interop.checks import Asked, parse, problems_of, problems_of_log, problems_of_pauses
from tests.interop.scenarios import SCENARIOS, Sees

RESPONSES = [
    {"prompt": {"tokenCount": 4}, "deltas": [{"text": "ho", "tokenIds": [104, 111]}]},
    {"deltas": [{"text": "é", "tokenIds": [195, 169], "finish": {"reason": 3}}]}
    | {"usage": {"promptTokenCount": 4, "outputTokenCount": 4}, "timing": {"total": "0.1s"}},
]
CALL = {
    "code": "OK",
    "message": "",
    "reason": None,
    "field": None,
    "retry_delay_ms": None,
    "headers": {"x-request-id": "one"},
    "trailers": {},
    "responses": RESPONSES,
    "elapsed_ms": 100.0,
}
WHOLE = Sees(
    "OK",
    answer="whole",
    ids=True,
    finish="FINISH_REASON_MAX_OUTPUT_TOKENS",
    characters="é",
    headers={"x-request-id": "{request_id}"},
)
ASKED = Asked("plain", "Generate", "one", join(parse(RESPONSES, "Generate")))
REFUSED = CALL | {
    "code": "RESOURCE_EXHAUSTED",
    "message": "The queue is full.",
    "reason": "OVERLOADED",
    "retry_delay_ms": 1000,
    "responses": [],
}


def test_what_is_right_has_no_problems():
    """An answer and a refusal as they must be."""
    assert problems_of(CALL, WHOLE, ASKED) == []
    sees = Sees("RESOURCE_EXHAUSTED", reason="OVERLOADED", retry=True)
    assert problems_of(REFUSED, sees, ASKED) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda call: call.update(code="CANCELLED"),
        lambda call: call.update(reason="INTERNAL"),
        lambda call: call.update(field="text"),
        lambda call: call.update(retry_delay_ms=5),
        lambda call: call["headers"].clear(),
        lambda call: call["responses"].pop(),
        lambda call: call["responses"].reverse(),
        lambda call: call["responses"].append(call["responses"][-1]),
        lambda call: call["responses"][0].pop("prompt"),
        lambda call: call["responses"][1].pop("usage"),
        lambda call: call["responses"][0]["deltas"].clear(),
        lambda call: call["responses"][0]["deltas"][0].update(text="hO"),
        lambda call: call["responses"][0]["deltas"][0].update(tokenIds=[104]),
        lambda call: call["responses"][0]["deltas"][0].update(candidateIndex=1),
        lambda call: call["responses"][1]["deltas"][0].pop("finish"),
        lambda call: call["responses"][1]["deltas"][0].update(finish={"reason": 1}),
        lambda call: call["responses"][0].update(noSuchField=1),
    ],
)
def test_what_is_wrong_in_an_answer_is_found(change):
    """Each of these differs in one thing."""
    call = copy.deepcopy(CALL)
    change(call)
    assert problems_of(call, WHOLE, ASKED)


@pytest.mark.parametrize(
    "change", [{"reason": None}, {"retry_delay_ms": None}, {"message": ""}, {"code": "UNKNOWN"}]
)
def test_what_is_wrong_in_a_refusal_is_found(change):
    """Its code, its reason, its text and the time to wait."""
    sees = Sees("RESOURCE_EXHAUSTED", reason="OVERLOADED", retry=True)
    assert problems_of(REFUSED | change, sees, ASKED)


def test_what_the_server_has_seen_is_compared():
    """The number of calls, their codes, their reasons, and how long they went on."""
    scenario = next(each for each in SCENARIOS if each.name == "cancel after headers")
    (step,) = scenario.steps
    line = {"code": "CANCELLED", "output_tokens": 3}
    assert problems_of_log([line], step, 1) == []
    for lines in (
        [],
        [line, line],
        [line | {"code": "OK"}],
        [line | {"reason": "INTERNAL"}],
        [line | {"output_tokens": 4000}],
    ):
        assert problems_of_log(lines, step, 1)


def test_a_pause_that_was_not_made_is_found():
    """Two responses have one pause between them."""
    assert problems_of_pauses(CALL, 100) == []
    assert problems_of_pauses(CALL, 101)
