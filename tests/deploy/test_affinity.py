"""Turns of a conversation go to one replica, where the beginning of their prompt is cached."""

import asyncio
import uuid

import aiohttp
import grpc
from grpc import aio

from tests.deploy.service import running_service

NUM_CONVERSATIONS, NUM_TURNS = 10, 5
LEAST_HITS = 0.95
STOPPING = {"max_output_tokens": 24, "ignore_end_of_text": True}
# More than a KV block, so that there is something to find from the second turn on; a letter
# is a token.
QUESTION = "What comes after the {}th turn of the wheel in the {}th channel? "


async def converse(service, number, header):
    """Hold a conversation; return for each later turn what was known of what could have been."""
    history, shares = f"{number}: ", []
    metadata = [(header, f"conversation-{number}")]
    for turn in range(NUM_TURNS):
        num_known = len(history.encode())
        prompt = history + QUESTION.format(turn, number)
        call = service.generate(text=prompt, stopping=STOPPING, metadata=metadata)
        responses = [response async for response in call]
        if turn:
            shares.append(responses[0].prompt.cached_token_count / num_known)
        history = prompt + "".join(d.text for r in responses for d in r.deltas)
    return shares


async def hits(header):
    """Hold all conversations at once on two fresh replicas."""
    async with running_service("--simulated-step-seconds", 0.002) as service:
        conversations = (converse(service, n, header) for n in range(NUM_CONVERSATIONS))
        shares = [share for each in await asyncio.gather(*conversations) for share in each]
        lines = [line for line in service.envoy.log if line.get("kind") == "request"]
        assert {line["replica"] for line in lines} == {r.address for r in service.replicas}
    whole = sum(share > 0.7 for share in shares) / len(shares)
    any_at_all = sum(share > 0 for share in shares) / len(shares)
    tokens = sum(shares) / len(shares)
    print(
        f"{header}: {any_at_all:.0%} of later turns hit the cache, {whole:.0%} with their last "
        f"turn in it, {tokens:.0%} of the tokens that were known"
    )
    return any_at_all, whole


async def test_later_turns_hit_the_cache():
    """With the header they do, on either replica; without it chance decides."""
    any_with, whole_with = await hits("x-headrace-affinity")
    _, whole_without = await hits("x-other")
    assert any_with >= LEAST_HITS
    assert whole_with >= LEAST_HITS
    assert whole_without < whole_with


async def test_another_replica_takes_over():
    """When its replica is gone, a conversation goes on elsewhere, and its calls do not fail."""
    async with running_service() as service:
        metadata = [("x-headrace-affinity", "mine")]

        async def replica():
            call = service.generate(text="Once", stopping=STOPPING, metadata=metadata)
            while await call.read() is not aio.EOF:
                pass
            assert await call.code() is grpc.StatusCode.OK
            return await service.replica_of(call)

        home = await replica()
        assert {await replica() for _ in range(4)} == {home}
        home.process.kill()
        (other,) = set(service.replicas) - {home}
        assert {await replica() for _ in range(4)} == {other}


async def test_the_header_of_http_goes_through_gateways():
    """Chats with the same one meet one replica, whichever gateway takes them."""
    async with running_service(num_gateways=2) as service, aiohttp.ClientSession() as session:
        body = {"messages": [{"role": "user", "content": "Hey"}], "max_tokens": 2}

        async def replica(word):
            headers = {"X-Headrace-Affinity": word, "X-Request-Id": f"{word}-{uuid.uuid4().hex}"}
            url = f"{service.url}/v1/chat/completions"
            async with session.post(url, json=body, headers=headers) as response:
                assert response.status == 200, await response.text()
            request_id = headers["X-Request-Id"]
            line = await service.envoy.wait_for_log(
                lambda line: (line.get("kind"), line.get("request_id")) == ("internal", request_id)
            )
            return line["replica"]

        homes = {word: {await replica(word) for _ in range(4)} for word in map(str, range(12))}
        assert {len(home) for home in homes.values()} == {1}
        assert set().union(*homes.values()) == {each.address for each in service.replicas}
