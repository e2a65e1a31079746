"""A variable that looks like a setting and is none stops the start."""

import pytest

from headrace_server.config import read_config
from headrace_server.variables import find_unknown_variable
from tests.server.test_config import refusal

KNOWN = {"HEADRACE_MAX_NUM_SEQS", "HEADRACE_GRPC_PORT"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("HEADRACE_MAX_NUM_SEQ", "did you mean HEADRACE_MAX_NUM_SEQS?"),
        ("HEADRACE_GPRC_PORT", "did you mean HEADRACE_GRPC_PORT?"),
        ("HEADRACE_XYZ", "remove it; docs/flags.md lists them"),
        ("HEADRACE_", "remove it; docs/flags.md lists them"),
    ],
)
def test_a_slip_is_told(name, words):
    """The sentence names the variable, and the one that is most like it."""
    sentence = find_unknown_variable({"PATH": "/", name: "3"}, KNOWN)
    assert sentence == f"{name} is no setting; {words}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADRACE_MAX_NUM_SEQS", "3"),
        ("HEADRACE_NO_UI", "true"),
        ("HEADRACE_HOST", "::1"),
        ("HEADRACE_TARGET", "localhost"),
        ("HEADRACE_CACHE_DIR", "/tmp"),
        ("HEADRACE_GATEWAY_PORT", "1"),
        ("HEADRACE_SERVICE_HOST", "10.0.0.7"),
        ("HEADRACE_SERVICE_PORT", "1919"),
        ("HEADRACE_SERVICE_PORT_HTTP", "1919"),
        ("HEADRACE_PORT_1919_TCP", "tcp://10.0.0.7:1919"),
        ("HEADRACE_PORT_1919_TCP_ADDR", "10.0.0.7"),
        ("HEADRACE_BACKEND_SERVICE_HOST", "10.0.0.7"),
        ("HEADRACE_BACKEND_PORT", "tcp://10.0.0.7:1920"),
        ("HEADRACES", "3"),
        ("headrace_xyz", "3"),
    ],
)
def test_what_others_read_or_kubernetes_sets_is_passed_over(name, value):
    """Settings of the gateway, other variables of Headrace and links of Services are no slips."""
    assert find_unknown_variable({name: value}, KNOWN) is None


def test_the_start_is_stopped(capsys):
    """A variable that nothing reads is told with status 2."""
    assert refusal(capsys, HEADRACE_SEDE="3") == (
        "headrace-server: HEADRACE_SEDE is no setting; did you mean HEADRACE_SEED?\n"
    )
    assert read_config([], {"HEADRACE_SEED": "3"}).seed == 3
