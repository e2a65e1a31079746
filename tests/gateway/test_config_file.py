"""A file holds settings that the command line and the environment do not give."""

from dataclasses import replace

import pytest

from headrace_gateway.api_keys import to_api_key
from headrace_gateway.config import ConfigError, GatewayConfig, read_config

FILES = {
    "a.toml": """
host = "0.0.0.0"
port = 80
max_body_bytes = 2048
cors-origins = ["https://a.example", "localhost"]
request-timeout = 2.5
no-ui = true
max-num-seqs = 3
grpc-port = 81
""",
    "a.yaml": """
host: 0.0.0.0
port: 80
max_body_bytes: 2048
cors-origins: [https://a.example, localhost]
request-timeout: 2.5
no-ui: yes
max-num-seqs: 3
grpc-port: 81
""",
}


@pytest.fixture
def write(tmp_path):
    def write(text, name="headrace.yaml"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("name", FILES)
def test_both_languages_say_the_same(write, name):
    """TOML and YAML give numbers, words, lists and switches; what the server takes is left."""
    path = write(FILES[name], name)
    assert read_config(["--config", str(path)], {}) == GatewayConfig(
        host="0.0.0.0",
        port=80,
        max_body_bytes=2048,
        cors_origins=("https://a.example", "localhost"),
        request_timeout_seconds=2.5,
        no_ui=True,
        config=path,
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "api-key: [one, two]\nunix-socket: /run/headrace.sock"),
        ("a.toml", 'api_key = ["one", "two"]'),
    ],
)
def test_a_file_may_have_keys(write, name, text):
    """Several are a list."""
    config = read_config(["--config", str(write(text, name))], {})
    assert config.api_keys == (to_api_key("one"), to_api_key("two"))


def test_flags_win_over_variables_and_those_over_the_file(write):
    """The nearer to the start, the stronger."""
    path = write("port: 1\nmax-connections: 1\nbody-timeout: 1\nno-ui: true")
    environment = {
        "HEADRACE_CONFIG": str(path),
        "HEADRACE_PORT": "2",
        "HEADRACE_MAX_CONNECTIONS": "2",
        "HEADRACE_NO_UI": "off",
    }
    assert read_config(["--port", "3"], environment) == replace(
        GatewayConfig(), port=3, max_connections=2, body_timeout_seconds=1.0, config=path
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("prot: 3", ": there is no setting prot; did you mean port?"),
        ("config: a.toml", ": there is no setting config; "),
        ("http: {port: 1}", ": there is no setting http; a file has no sections, so write"),
        ("port: many", ": port: 'many' must be from 0 to 65535"),
        ("port: [1, 2]", ": port: takes one value, not a list"),
        ("port: 1\nport: 2", ": port is there twice; remove one of them"),
        ("cors-origins: [a]", ": cors-origins: 'a' must be localhost, none, *"),
        ("api-key: [one, a b]", ": api-key: a key must have 1 to 512 visible characters"),
        ("port:", ": port has no value; give one or remove it"),
        ("host: {a: b}", ": host must be text, a number, true, false or a list of them"),
        ("- port", " must have lines such as: "),
        ("port: [", " is not YAML in line 1: "),
    ],
)
def test_a_bad_file_is_one_sentence(write, text, words):
    """What is unknown, given twice or malformed is told with the file and the name."""
    path = write(text)
    with pytest.raises(ConfigError) as caught:
        read_config(["--config", str(path)], {})
    assert str(caught.value).startswith(f"{path}{words}")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere.toml", "there is no file 'nowhere.toml'; give the path of a TOML or YAML file"),
        ("x.json", "'x.json' must end in .toml, .yaml or .yml"),
    ],
)
def test_a_missing_file_stops_the_start(name, words):
    """A file that is not there, or of another kind, is told with what to do."""
    with pytest.raises(ConfigError) as caught:
        read_config(["--config", name], {})
    assert str(caught.value) == f"--config: {words}"
