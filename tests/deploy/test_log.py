"""Each request has a line of JSON in Envoy's log, with the status that the client saw."""

import json

import grpc

from tests.deploy.service import http_session, running_service
from tests.server.running_server import collect, failure, first

STEP = ("--simulated-step-seconds", 0.01)
PATH = "/headrace.v1.InferenceService/" + "p" * 3000
PROMPT = "a secret that nobody may log"


async def line_of(service, call, kind):
    request_id = dict(await call.initial_metadata() or await call.trailing_metadata())[
        "x-request-id"
    ]
    return await service.envoy.wait_for_log(
        lambda line: line.get("kind") == kind and line["request_id"] == request_id
    )


async def test_statuses_are_those_of_grpc():
    """OK, a refusal and a cancel are told apart; who has answered is told, and no text."""
    async with running_service(*STEP, num_replicas=1) as service:
        replica = service.replicas[0].address
        whole = service.generate(text=PROMPT, stopping={"max_output_tokens": 2})
        await collect(whole)
        line = await line_of(service, whole, "request")
        assert (line["grpc"], line["http"], line["route"]) == ("OK", 200, "generate")
        assert (line["replica"], line["tries"], line["flags"]) == (replica, 1, "-")
        assert line["path"] == "/headrace.v1.InferenceService/Generate"
        refused = service.generate(text=PROMPT, sampling={"temperature": -1})
        assert (await failure(refused)).code is grpc.StatusCode.INVALID_ARGUMENT
        for kind in ("request", "upstream"):
            assert (await line_of(service, refused, kind))["grpc"] == "INVALID_ARGUMENT"
        left = service.generate(text=PROMPT)
        await first(left)
        left.cancel()
        line = await line_of(service, left, "request")
        assert line["flags"] == "DR"  # the client reset its stream
        assert "secret" not in json.dumps(service.envoy.log)


async def test_a_client_makes_no_line_as_long_as_it_likes():
    """Of its id and its path the beginning is in the log, and of others' words nothing is."""
    async with running_service(num_replicas=1) as service, http_session(service.url) as client:
        headers = {"X-Request-Id": "i" * 3000, "X-Envoy-Original-Path": "/another"}
        async with client.post(PATH, json={}, headers=headers) as response:
            assert response.status == 404
        line = await service.envoy.wait_for_log(lambda line: line.get("kind") == "request")
        assert line["request_id"] == "i" * 128
        assert line["path"] == PATH[:256]


async def test_replicas_know_callers_apart():
    """Without keys replicas share their turns between callers: Envoy tells them who calls."""
    flags = (*STEP, "--log-level", "info", "--log-format", "json")
    async with running_service(*flags, num_replicas=1) as service:
        call = service.generate(
            stopping={"max_output_tokens": 1}, metadata=[("x-headrace-caller", "somebody else")]
        )
        await collect(call)
        stderr = service.replicas[0].process.stderr
        line = {}
        while line.get("method") != "InferenceService/Generate":
            line = json.loads(await stderr.readline())
    assert line["caller"].endswith("/127.0.0.1")


async def test_health_is_told_when_it_is_not_well():
    """Gateways ask each second: only the answers that somebody should see are in the log."""

    def is_health(line):
        return line.get("kind") == "internal" and "Health" in line["path"]

    async with (
        running_service(*STEP, num_replicas=1, num_gateways=1) as service,
        http_session(service.url) as client,
    ):
        body = {"prompt": "Once", "max_tokens": 1}
        headers = {"X-Request-Id": "mine"}
        async with client.post("/v1/completions", json=body, headers=headers) as response:
            assert response.status == 200
        await service.envoy.wait_for_log(
            lambda line: (line.get("kind"), line.get("request_id")) == ("internal", "mine")
        )
        assert not any(map(is_health, service.envoy.log))  # though the gateway is known as ready
        service.replicas[0].process.kill()
        assert (await service.envoy.wait_for_log(is_health))["grpc"] == "UNAVAILABLE"
