"""The gateway in front of the server with its simulated engine, all in their own processes."""

import asyncio
import contextlib
import json
import signal
import socket

import aiohttp
import psutil
import pytest

from tests.gateway.conftest import events_of
from tests.gateway.service import MODEL, running, serving

BOUND_SECONDS = 20.0
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ENDLESS = {"prompt": "Once", "max_tokens": 8000, "ignore_eos": True}
FAULT_EXIT = 259  # the simulated engine ends as if it was killed when it reads this token


def open_session(service):
    return aiohttp.ClientSession(service.url, timeout=aiohttp.ClientTimeout(total=BOUND_SECONDS))


async def post(session, path, body):
    async with session.post(path, json=body) as response:
        return response.status, await response.text()


async def stream_until_text(session, body):
    """Open a stream and return its response once the first text has come."""
    response = await session.post(TEXT, json={**body, "stream": True})
    assert response.status == 200
    await response.content.readuntil(b"\n\n")
    return response


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_a_stream_joins_to_the_whole_answer(service, path, seed):
    """Pieces are whole characters, and together they are what a blocking caller gets."""
    body = {
        "messages": [{"role": "user", "content": "Tell me"}],
        "prompt": "Tell me",
        "max_tokens": 300,
        "ignore_eos": True,
        "seed": seed,
        "temperature": 1,
    }
    async with open_session(service) as session:
        _, whole = await post(session, path, body)
        options = {"stream": True, "stream_options": {"include_usage": True}}
        _, stream = await post(session, path, {**body, **options})
    *chunks, last, _ = events_of(stream)
    choices = [chunk["choices"][0] for chunk in chunks]
    text = "".join(c["delta"].get("content", "") if path == CHAT else c["text"] for c in choices)
    [choice] = json.loads(whole)["choices"]
    assert text == (choice["message"]["content"] if path == CHAT else choice["text"])
    assert not text.isascii()
    assert "\ufffd" not in text[:-1]  # the last character may have been cut by the length
    assert counts_of(last) == counts_of(json.loads(whole))


def counts_of(answer):
    """The token counts without those of the cache, which grow from one call to the next."""
    return {name: count for name, count in answer["usage"].items() if isinstance(count, int)}


async def test_usage_is_opt_in(service):
    """No options, empty ones and false give no usage; true gives one chunk before the end."""
    body = {"messages": [{"role": "user", "content": "Hey"}], "max_tokens": 4, "stream": True}
    async with open_session(service) as session:
        for options in (None, {}, {"include_usage": False}):
            _, text = await post(session, CHAT, {**body, "stream_options": options})
            assert all("usage" not in event for event in events_of(text)[:-1])
        _, text = await post(session, CHAT, {**body, "stream_options": {"include_usage": True}})
    *chunks, last, _ = events_of(text)
    assert [chunk["usage"] for chunk in chunks] == [None] * len(chunks)
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 4)


async def test_the_name_of_the_model(service):
    """The served model is listed, found, and named in answers that asked for none."""
    async with open_session(service) as session:
        async with session.get("/v1/models") as response:
            assert [entry["id"] for entry in (await response.json())["data"]] == [MODEL]
        async with session.get(f"/v1/models/{MODEL}") as response:
            assert (await response.json())["max_model_len"] == 8192
        _, text = await post(session, TEXT, {"prompt": "Hey", "max_tokens": 0})
    answer = json.loads(text)
    assert answer["model"] == MODEL
    assert answer["choices"] == [
        {"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}
    ]


async def test_a_completion_longer_than_the_context_is_refused_in_words_of_its_own(service):
    """Param and message name the field that the caller sent."""
    async with open_session(service) as session:
        status, text = await post(session, TEXT, {"prompt": "Hey", "max_tokens": 100_000})
    error = json.loads(text)["error"]
    assert (status, error["code"], error["param"]) == (
        400,
        "context_length_exceeded",
        "max_tokens",
    )
    assert error["message"].startswith("max_tokens is 100000 and the token count of the prompt is ")


async def test_a_hundred_callers_who_leave_cost_nothing(tmp_path):
    """The engine has room for two answers; each time both are left, the next starts at once."""
    flags = ("--max-num-seqs", "2", "--simulated-step-seconds", "0.005")
    with serving(tmp_path, flags) as service:
        async with open_session(service) as session:
            for _ in range(50):
                for body in (ENDLESS, {**ENDLESS, "prompt": ["a", "b"]}):
                    (await stream_until_text(session, body)).close()
            for _ in range(5):
                blocking = asyncio.ensure_future(post(session, TEXT, ENDLESS))
                response = await stream_until_text(session, ENDLESS)
                blocking.cancel()
                response.close()
                with contextlib.suppress(asyncio.CancelledError):
                    await blocking
            # Those that were left would take twice the time of the session.
            status, _ = await post(session, TEXT, {"prompt": "Hey", "max_tokens": 2})
            assert status == 200
        codes = [line["code"] for line in service.server.log_lines() if line["event"] == "call"]
        statuses = [
            line["status"] for line in service.gateway.log_lines() if line["event"] == "request"
        ]
    assert codes.count("CANCELLED") == 50 + 50 * 2 + 5 * 2
    assert codes.count("OK") == len(codes) - codes.count("CANCELLED")
    assert statuses.count(499) == 50 + 50 + 5 * 2


async def test_a_reader_who_stalls_is_cut_off(tmp_path):
    """Who does not read any more loses the answer, and the server stops to make it."""
    # It stands in each event, so that fewer of them fill the buffers of the sockets.
    name = ("--served-model-name", "x" * 256)
    with serving(tmp_path, name, ("--write-timeout", "0.2")) as service:
        body = json.dumps({**ENDLESS, "prompt": ["Once"] * 64, "stream": True}).encode()
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", service.port))
            connection.sendall(
                b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            async with asyncio.timeout(100):
                while not (ended := calls_of(service)):  # noqa: ASYNC110  # only the log tells
                    await asyncio.sleep(0.05)
        async with open_session(service) as session:
            status, _ = await post(session, TEXT, {"prompt": "Hey", "max_tokens": 2})
            assert status == 200
    assert "CANCELLED" in ended
    requests = [line for line in service.gateway.log_lines() if line["event"] == "request"]
    assert [line["status"] for line in requests if line["status"] != 200] == [499]


def calls_of(service):
    """Return the codes of the calls that did not end well."""
    lines = [line for line in service.server.log_lines() if line["event"] == "call"]
    return [line["code"] for line in lines if line["code"] != "OK"]


async def test_a_full_queue_is_429(tmp_path):
    """What the server cannot queue is refused at once, with a time to try again."""
    flags = (
        "--max-num-seqs",
        "1",
        "--max-queued-requests",
        "1",
        "--simulated-step-seconds",
        "0.01",
    )
    with serving(tmp_path, flags) as service:
        async with open_session(service) as session:
            running = await stream_until_text(session, ENDLESS)
            async with session.post(TEXT, json={**ENDLESS, "stream": True}) as queued:
                assert queued.status == 200
                async with session.post(TEXT, json=ENDLESS) as refused:
                    error = (await refused.json())["error"]
            assert (refused.status, error["code"]) == (429, "rate_limit_exceeded")
            assert int(refused.headers["Retry-After"]) >= 1
            await running.content.readuntil(b"\n\n")
            running.close()


async def test_a_silent_stream_is_kept_alive(tmp_path):
    """While a prompt is worked on, comments hold the connection."""
    flags = ("--simulated-step-seconds", "0.5")
    with serving(tmp_path, flags, ("--keep-alive-interval", "0.1")) as service:
        async with open_session(service) as session:
            body = {"prompt": "Hey", "max_tokens": 1, "stream": True}
            _, text = await post(session, TEXT, body)
    assert text.startswith(": keep-alive\n\n")
    assert text.endswith("data: [DONE]\n\n")


async def test_an_engine_that_dies_ends_every_stream_with_an_error(tmp_path):
    """No stream looks finished; health tells of the death and of the recovery."""
    flags = ("--simulated-faults", "--simulated-step-seconds", "0.05")
    flags += ("--simulated-load-seconds", "1")
    with serving(tmp_path, flags) as service:
        async with open_session(service) as session:
            streams = [await stream_until_text(session, ENDLESS) for _ in range(20)]
            status, _ = await post(session, TEXT, {"prompt": [65, FAULT_EXIT]})
            assert status == 503
            async with session.get("/health") as response:
                assert response.status == 503
            async with session.post(TEXT, json={"prompt": "Hey"}) as response:
                assert (response.status, "Retry-After" in response.headers) == (503, True)
            for stream in streams:
                last = events_of(await stream.text())[-1]
                assert last["error"]["code"] == "engine_unavailable"
            await until_healthy(session)
            status, _ = await post(session, TEXT, {"prompt": "Hey"})
            assert status == 200


async def test_the_gateway_finds_a_server_that_comes_back(tmp_path):
    """After a restart of the server nothing has to be done to the gateway."""
    with serving(tmp_path) as service:
        async with open_session(service) as session:
            service.server.popen.kill()
            service.server.popen.wait(BOUND_SECONDS)
            status, text = await post(session, TEXT, {"prompt": "Hey"})
            assert (status, json.loads(text)["error"]["code"]) == (503, "server_unavailable")
            port = service.grpc_address.rpartition(":")[2]
            flags = ("--backend", "simulated", "--port", port)
            with running(tmp_path, "headrace_server", *flags) as server:
                server.wait_for_event("ready")
                await until_healthy(session)
                status, _ = await post(session, TEXT, {"prompt": "Hey"})
                assert status == 200


async def until_healthy(session):
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            async with session.get("/readyz") as response:
                if response.status == 200:
                    return


async def test_sigterm_lets_all_streams_finish(tmp_path):
    """Twenty streams come to their ends, new requests are refused, and the exit status is 0."""
    step = ("--simulated-step-seconds", "0.01")
    with serving(tmp_path, step, ("--shutdown-timeout", "300")) as service:
        async with open_session(service) as session:
            body = {"prompt": "Hey", "max_tokens": 300, "ignore_eos": True}
            streams = [await stream_until_text(session, body) for _ in range(20)]
            service.gateway.popen.send_signal(signal.SIGTERM)
            async with asyncio.timeout(BOUND_SECONDS):
                while (await post(session, TEXT, {"prompt": "Hey"}))[0] != 503:
                    pass
            texts = [await stream.text() for stream in streams]
        assert await asyncio.to_thread(service.gateway.popen.wait, BOUND_SECONDS) == 0
    assert [text.endswith("data: [DONE]\n\n") for text in texts] == [True] * 20


async def test_a_second_signal_stops_at_once(tmp_path):
    """Who does not want to wait for the answers under way need not."""
    with serving(tmp_path, ("--simulated-step-seconds", "0.01")) as service:
        async with open_session(service) as session:
            stream = await stream_until_text(session, ENDLESS)
            service.gateway.popen.send_signal(signal.SIGTERM)
            async with asyncio.timeout(BOUND_SECONDS):
                while (await post(session, TEXT, {"prompt": "Hey"}))[0] != 503:
                    pass
            async with asyncio.timeout(BOUND_SECONDS):
                # Again and again, since one that comes too early is no second one.
                while (status := service.gateway.popen.poll()) is None:
                    service.gateway.popen.send_signal(signal.SIGTERM)
                    await asyncio.sleep(0.1)
            stream.close()
    assert status == 128 + signal.SIGTERM


async def test_nothing_is_left_of_answers_that_are_over(service):
    """After streams, errors and callers who left, the gateway has as many descriptors as before."""
    process = psutil.Process(service.gateway.popen.pid)
    async with open_session(service) as session:
        await post(session, TEXT, {"prompt": "Hey", "max_tokens": 2})
        before = process.num_fds()
        for _ in range(20):
            (await stream_until_text(session, ENDLESS)).close()
            await post(session, TEXT, {"prompt": "Hey", "max_tokens": 2})
            await post(session, TEXT, {"prompt": "Hey", "temperature": 3})
        async with asyncio.timeout(BOUND_SECONDS):
            while process.num_fds() > before:
                await post(session, TEXT, {"prompt": "Hey", "max_tokens": 2})


async def test_the_tokens_of_a_chat_are_told(service):
    """Ids are as many as counted, whole and in a stream; the prompt has its log probabilities."""
    body = {
        "messages": [{"role": "user", "content": "Tell me"}],
        "max_tokens": 12,
        "seed": 1,
        "return_token_ids": True,
    }
    async with open_session(service) as session:
        _, text = await post(session, CHAT, {**body, "prompt_logprobs": 1})
        whole = json.loads(text)
        _, text = await post(session, CHAT, {**body, "stream": True})
        *chunks, done = events_of(text)
    assert done == "[DONE]"
    [choice] = whole["choices"]
    assert len(choice["token_ids"]) == whole["usage"]["completion_tokens"]
    prompt_ids = whole["prompt_token_ids"]
    assert len(prompt_ids) == whole["usage"]["prompt_tokens"]
    first, *others = whole["prompt_logprobs"]
    assert first is None
    assert all(str(i) in told for i, told in zip(prompt_ids[1:], others, strict=True))
    assert [chunk.get("prompt_token_ids") for chunk in chunks] == [
        prompt_ids,
        *[None] * (len(chunks) - 1),
    ]
    streamed = [i for chunk in chunks for i in chunk["choices"][0].get("token_ids", [])]
    assert streamed == choice["token_ids"]
