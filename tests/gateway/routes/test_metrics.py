"""The metrics over HTTP, in front of a scripted server."""

import asyncio

import grpc
from prometheus_client.parser import text_string_to_metric_families

from tests.client.scripted_server import BOUND_SECONDS, Admit, Hold, Refusal, piece

COMPLETIONS = "/v1/completions"
REQUESTS = "headrace_gateway_requests_total"


async def scrape(gateway):
    """Return what reads a value by its name and labels."""
    async with gateway.request("GET", "/metrics") as response:
        assert response.status == 200
        assert response.content_type == "text/plain"
        families = list(text_string_to_metric_families(await response.text()))
    values = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }
    return lambda name, **labels: values.get((name, frozenset(labels.items())))


async def test_answers_are_counted_whole_and_streamed(gateway):
    """Both kinds count, for chats and completions, under the model's own name."""
    async with gateway.post(COMPLETIONS, {"prompt": "a"}) as response:
        await response.read()
    body = {"messages": [{"role": "user", "content": "a"}], "stream": True}
    async with gateway.post("/v1/chat/completions", body) as response:
        await response.read()
    value = await scrape(gateway)
    assert value(REQUESTS, route=COMPLETIONS, status="200") == 1
    assert value(REQUESTS, route="/v1/chat/completions", status="200") == 1
    assert value("headrace_gateway_requests_in_flight") == 1  # the one that asks
    assert value("vllm:prompt_tokens_total", model_name="tiny") == 10
    assert value("vllm:request_success_total", model_name="tiny", finished_reason="stop") == 2
    assert value("vllm:inter_token_latency_seconds_count", model_name="tiny") == 1


async def test_errors_have_their_status(gateway, server):
    """What is refused, by the gateway or by the server, counts by its status alone."""
    await gateway.post_for_error(COMPLETIONS, {"prompt": 5})
    server.script = lambda request: iter(
        [Refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "Full.", "OVERLOADED", retry_after_seconds=1)]
    )
    await gateway.post_for_error(COMPLETIONS, {"prompt": "a"})
    for path in ("/a", "/b"):
        async with gateway.request("GET", path) as response:
            assert response.status == 404
    value = await scrape(gateway)
    assert value(REQUESTS, route=COMPLETIONS, status="400") == 1
    assert value(REQUESTS, route=COMPLETIONS, status="429") == 1
    assert value(REQUESTS, route="none", status="404") == 2
    assert value("vllm:request_success_total", model_name="tiny", finished_reason="abort") is None


async def test_a_client_that_leaves_is_499_and_an_abort(gateway, server):
    """An answer whose reader is gone is no success."""
    hold = Hold()
    server.script = lambda request: iter([Admit(), piece("a", 1), hold])
    async with gateway.post(COMPLETIONS, {"prompt": "a", "stream": True}) as response:
        await response.content.readline()
        response.close()
    assert await asyncio.to_thread(server.calls[0].wait_until_cancelled)
    await gateway.running.in_flight.drain(BOUND_SECONDS)
    value = await scrape(gateway)
    assert value(REQUESTS, route=COMPLETIONS, status="499") == 1
    assert value("vllm:request_success_total", model_name="tiny", finished_reason="abort") == 1


async def test_scrapes_do_not_bury_the_log(gateway, access_log):
    """Prometheus asks again and again, and its line is for those who look for details."""
    await scrape(gateway)
    await gateway.post_for_error(COMPLETIONS, {"prompt": 5})
    assert (await access_log.next_line())["path"] == COMPLETIONS
