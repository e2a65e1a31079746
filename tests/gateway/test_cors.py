"""Which web pages may use the API."""

import pytest

from headrace_gateway.cors import CorsPolicy, is_own_page

LOCAL = [
    "http://localhost",
    "http://localhost:3000",
    "https://localhost:8443",
    "http://127.0.0.1:5173",
    "http://[::1]:3000",
    "http://app.localhost:3000",
]
FOREIGN = [
    "https://evil.example",
    "http://localhost.evil.example",
    "http://evil.example:1919",
    "file://localhost",
    "null",
    "http://[::1",
    "localhost",
]


@pytest.mark.parametrize(
    ("origins", "allowed", "refused"),
    [
        (("localhost",), LOCAL, FOREIGN),
        (("none",), [], LOCAL + FOREIGN),
        (("*",), LOCAL + FOREIGN, []),
        (("https://evil.example", "app://x"), ["https://evil.example", "app://x"], LOCAL),
    ],
)
def test_an_origin_is_allowed_by_the_setting_alone(origins, allowed, refused):
    """Each setting allows what it says and nothing else."""
    policy = CorsPolicy(origins)
    assert [o for o in allowed + refused if policy.allows(o)] == allowed


@pytest.mark.parametrize(
    ("origin", "host", "is_own"),
    [
        ("http://192.168.1.5:1919", "192.168.1.5:1919", True),
        ("https://192.168.1.5", "192.168.1.5", True),
        ("http://[fd00::5]:1919", "[fd00::5]:1919", True),
        ("http://localhost:1919", "localhost:1919", True),
        ("http://192.168.1.5:80", "192.168.1.5:1919", False),
        ("http://192.168.1.6:1919", "192.168.1.5:1919", False),
        ("http://evil.example:1919", "evil.example:1919", False),
        ("http://192.168.1.5.evil.example", "192.168.1.5.evil.example", False),
        ("null", "null", False),
        ("", "", False),
        ("http://[::1", "[::1", False),
    ],
)
def test_a_page_is_the_gateways_own_by_its_address_alone(origin, host, is_own):
    """A name could have been made to point here; an address and a port cannot."""
    assert is_own_page(origin, host) is is_own


def test_only_an_allowed_origin_is_told_so():
    """Every response varies with the origin; only allowed ones see themselves in it."""
    policy = CorsPolicy(("localhost",))
    assert policy.response_headers("http://localhost:3000") == {
        "Vary": "Origin",
        "Access-Control-Allow-Origin": "http://localhost:3000",
        "Access-Control-Expose-Headers": (
            "request-id, x-request-id, openai-processing-ms, retry-after, retry-after-ms"
        ),
    }
    assert policy.response_headers("https://evil.example") == {"Vary": "Origin"}
    assert policy.response_headers(None) == {"Vary": "Origin"}


def test_a_preflight_gets_what_it_asks_for():
    """The headers that a page wants to send are allowed to an allowed page only."""
    policy = CorsPolicy(("localhost",))
    asked = {"Access-Control-Request-Headers": "authorization,content-type"}
    assert policy.preflight_headers({"Origin": "http://localhost", **asked}) == {
        "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
        "Access-Control-Allow-Headers": "authorization,content-type",
        "Access-Control-Max-Age": "600",
    }
    assert policy.preflight_headers({"Origin": "https://evil.example", **asked}) == {}
