"""Addresses and channel options."""

import json

import pytest

from headrace import AsyncClient, Client
from headrace.channel import channel_options, parse_target


@pytest.mark.parametrize(
    ("target", "address"),
    [
        ("localhost", "localhost:1920"),
        ("localhost:50051", "localhost:50051"),
        ("10.0.0.1:80", "10.0.0.1:80"),
        ("::1", "[::1]:1920"),
        ("[::1]", "[::1]:1920"),
        ("[2001:db8::1]:80", "[2001:db8::1]:80"),
        ("model-0.models.svc.cluster.local", "model-0.models.svc.cluster.local:1920"),
        ("dns:///models:1920", "dns:///models:1920"),
        ("unix:/run/headrace.sock", "unix:/run/headrace.sock"),
    ],
)
def test_a_target_gets_the_default_port(target, address):
    """A target without a port has the default one; names of gRPC are left alone."""
    assert parse_target(target) == address


@pytest.mark.parametrize(
    "target",
    ["", ":1920", "http://localhost:1919", "localhost:", "localhost:http", "a b", "host:70000"],
)
@pytest.mark.parametrize("client_class", [Client, AsyncClient])
def test_what_is_no_address_is_refused(target, client_class):
    """A target that is not an address is refused when the client is made, with an example."""
    with pytest.raises(ValueError, match="such as localhost:1920"):
        client_class(target)


@pytest.mark.parametrize("max_attempts", [0, 6])
def test_attempts_have_bounds(max_attempts):
    """A number of attempts that gRPC would silently change is refused."""
    with pytest.raises(ValueError, match="from 1 to 5"):
        Client("localhost", max_attempts=max_attempts)


@pytest.mark.parametrize(
    ("address", "uses_proxy"),
    [
        ("localhost:1920", 0),
        ("127.0.0.1:1920", 0),
        ("[::1]:1920", 0),
        ("unix:/run/headrace.sock", 0),
        ("models:1920", 1),
        ("unixes.example:1920", 1),
    ],
)
def test_the_loopback_is_reached_without_a_proxy(address, uses_proxy):
    """A proxy of the environment is not asked for an address of this machine."""
    assert dict(channel_options(address, 3))["grpc.enable_http_proxy"] == uses_proxy


def test_health_is_not_retried():
    """Only calls that a refusal leaves without effect are retried; health wants the truth."""
    options = dict(channel_options("localhost:1920", 3))
    (method_config,) = json.loads(options["grpc.service_config"])["methodConfig"]
    names = [name["service"] for name in method_config["name"]]
    assert names == ["headrace.v1.InferenceService", "headrace.v1.ModelService"]
