"""What is counted of answers, from the messages of the contract."""

from prometheus_client import CollectorRegistry

from headrace.v1 import inference_service_pb2 as pb
from headrace.v1 import stopping_pb2
from headrace_gateway.metrics.generations import GenerationMeter, GenerationMetrics
from tests.client.scripted_server import end, piece

MODEL = {"model_name": "m"}


class Clock:
    def __init__(self, *times):
        self._times = iter(times)

    def __call__(self):
        return next(self._times)


class Under:
    """Metrics with their registry."""

    def __init__(self, *times):
        self.registry = CollectorRegistry()
        self.metrics = GenerationMetrics(self.registry, Clock(*times))

    def meter(self, *, is_streamed=False):
        return GenerationMeter(self.metrics, is_streamed=is_streamed)

    def value(self, name, **labels):
        return self.registry.get_sample_value(name, {**MODEL, **labels})


def run(meter, *responses):
    meter.admit("m")
    for response in responses:
        meter.take(response)
    meter.end()


def test_an_answer_is_counted_under_both_names():
    """Tokens, reason and times are those of the last response; vLLM's names have the same."""
    under = Under()
    run(under.meter(), pb.GenerateResponse(prompt=pb.PromptInfo(token_count=5)), end("hello", 1, 2))
    for tokens in ("headrace_gateway_prompt_tokens_total", "vllm:prompt_tokens_total"):
        assert under.value(tokens) == 5
    for tokens in ("headrace_gateway_output_tokens_total", "vllm:generation_tokens_total"):
        assert under.value(tokens) == 3
    for answers in ("headrace_gateway_answers_total", "vllm:request_success_total"):
        assert under.value(answers, finished_reason="stop") == 1
        assert under.value(answers, finished_reason="abort") is None
    sums = {
        "vllm:request_queue_time_seconds_sum": 0.01,
        "vllm:time_to_first_token_seconds_sum": 0.25,
        "vllm:request_prefill_time_seconds_sum": 0.24,
        "vllm:request_decode_time_seconds_sum": 1.25,
        "vllm:e2e_request_latency_seconds_sum": 1.5,
    }
    assert {name: under.value(name) for name in sums} == sums


def test_each_candidate_has_its_reason():
    """A request for several answers counts each, by how it ended."""
    under = Under()
    last = end(reason=stopping_pb2.FINISH_REASON_MAX_OUTPUT_TOKENS)
    other = last.deltas.add(candidate_index=1)
    other.finish.reason = stopping_pb2.FINISH_REASON_TOOL_CALLS
    run(under.meter(), last)
    assert under.value("vllm:request_success_total", finished_reason="length") == 1
    assert under.value("vllm:request_success_total", finished_reason="stop") == 1


def test_an_answer_that_breaks_off_is_aborted():
    """It has no tokens and no times, since nothing told them."""
    under = Under()
    run(under.meter(), piece("a", 1))
    assert under.value("vllm:request_success_total", finished_reason="abort") == 1
    assert under.value("vllm:generation_tokens_total") is None


def test_what_is_refused_leaves_nothing():
    """A call that was not admitted is counted by its HTTP status alone."""
    under = Under()
    under.meter().end()
    assert under.value("vllm:request_success_total", finished_reason="abort") is None


def test_pieces_of_a_stream_have_their_distances():
    """The time between two pieces is told, and not that before the first."""
    under = Under(10.0, 10.5, 12.0)
    run(under.meter(is_streamed=True), piece("a", 1), piece("b", 2), end("c", 3))
    assert under.value("vllm:inter_token_latency_seconds_sum") == 2.0
    assert under.value("vllm:inter_token_latency_seconds_count") == 2


def test_an_answer_without_a_token_has_no_first_one():
    """With nothing to generate there is neither a first token nor a part after it."""
    under = Under()
    last = end()
    last.timing.ClearField("first_token")
    run(under.meter(), last)
    assert under.value("vllm:e2e_request_latency_seconds_count") == 1
    assert under.value("vllm:time_to_first_token_seconds_count") is None
