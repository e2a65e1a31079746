"""Admission decides at once, by requests and by tokens."""

import pytest

from headrace_server.backends.native.admission import Admission, AdmissionLimits
from headrace_server.errors import OverloadedError


def make_admission(max_queued_requests=2, max_queued_tokens=100, max_num_sequences=3):
    return Admission(AdmissionLimits(max_queued_requests, max_queued_tokens), max_num_sequences)


def refused(admission, num_prompt_tokens=1, now=0.0, num_candidates=1):
    with pytest.raises(OverloadedError) as refusal:
        admission.open(num_candidates, num_prompt_tokens, now)
    return refusal.value


def test_live_requests_are_bounded_by_the_batch_and_the_queue():
    """A place comes back only when a request has ended."""
    admission = make_admission()
    for _ in range(5):
        admission.open(1, 1, now=0.0)
    refused(admission)
    admission.leave_queue(1)
    refused(admission)
    admission.close(now=1.0)
    admission.open(1, 1, now=1.0)

    assert (admission.num_opened, admission.num_closed) == (6, 1)


def test_queued_prompts_are_bounded_by_their_tokens():
    """Tokens of prompts that have not started count, those that have do not."""
    admission = make_admission()
    admission.open(1, 60, now=0.0)
    refused(admission, 41)
    admission.open(1, 40, now=0.0)
    refused(admission, 1)
    admission.leave_queue(60)
    admission.open(1, 60, now=0.0)


def test_a_prompt_alone_in_the_queue_may_be_larger():
    """The limit of tokens never shuts a long prompt out for good."""
    admission = make_admission()
    admission.open(1, 1000, now=0.0)
    refused(admission, 1)


def test_the_retry_time_follows_the_rate_of_ended_requests():
    """It is the time that the queue takes at the present rate, within a range."""
    admission = make_admission(max_queued_requests=10)
    assert [admission.open(1, 1, now=0.0) for _ in range(13)] == [None] * 13
    unknown = refused(admission, now=0.0).retry_after_seconds
    for second in range(8):
        admission.leave_queue(1)
        admission.close(now=float(second))
        admission.open(1, 1, now=float(second))
    measured = refused(admission, now=8.0).retry_after_seconds
    stale = refused(admission, now=500.0).retry_after_seconds

    assert unknown == stale == 1.0
    assert measured == 13.0


def test_the_refusal_says_what_to_do():
    """The message names the queue and the time."""
    admission = make_admission()
    for _ in range(5):
        admission.open(1, 7, now=0.0)

    assert refused(admission).message == (
        "The queue is full (requests: 5, prompt tokens: 35); try again in 1.0 s."
    )


def test_a_request_is_taken_or_refused_with_all_its_candidates():
    """Each candidate takes a place; where one would not fit none is taken."""
    admission = make_admission()
    admission.open(3, 10, now=0.0)
    refused(admission, num_candidates=3)
    assert (admission.num_opened, admission.num_closed) == (3, 0)
    admission.open(2, 10, now=0.0)
    refused(admission)


def test_the_prompt_of_a_request_counts_once():
    """However many candidates continue a prompt, its tokens wait once."""
    admission = make_admission()
    admission.open(3, 60, now=0.0)
    admission.leave_queue(60)
    admission.open(1, 100, now=0.0)


def test_more_candidates_than_places_wait_when_they_are_alone():
    """A request is never shut out for good, and nobody comes in beside it."""
    admission = make_admission()
    admission.open(16, 1, now=0.0)
    refused(admission)
