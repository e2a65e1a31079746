"""The settings."""

import pytest

from headrace_gateway.api_keys import to_api_key
from headrace_gateway.certificates import KeyPair
from headrace_gateway.config import (
    ConfigError,
    GatewayConfig,
    ListeningTls,
    UpstreamTls,
    read_config,
)

TLS_FILES = ("ssl-certfile", "ssl-keyfile", "ssl-ca-certs")
FILES = ("api-key-file", *TLS_FILES, *(f"upstream-{name}" for name in TLS_FILES))


@pytest.fixture
def files(tmp_path):
    """A file for each flag that names one, with the flag."""
    paths = {name: tmp_path / name for name in FILES}
    for path in paths.values():
        path.touch()
    return paths


def test_without_flags_the_gateway_is_on_loopback():
    """The defaults serve this machine alone."""
    config = read_config([], {})
    assert config == GatewayConfig()
    assert (config.host, config.port, config.upstream) == ("127.0.0.1", 1919, "127.0.0.1:1920")
    assert config.cors_origins == ("localhost",)
    assert config.request_timeout_seconds is None


def test_every_flag_has_its_place():
    """Each flag sets the field that it is named after."""
    flags = (
        "--host ::1 --port 0 --upstream [::1]:5 --max-body-bytes 2048 --max-connections 7 "
        "--body-timeout 1 --write-timeout 2 --keep-alive-interval 3 --request-timeout 4 "
        "--shutdown-timeout 0 --cors-origins https://a.example/,app://x --no-ui --log-level debug "
        "--log-format json"
    )
    config = read_config(flags.split(), {})
    assert config == GatewayConfig(
        host="::1",
        port=0,
        upstream="[::1]:5",
        max_body_bytes=2048,
        max_connections=7,
        body_timeout_seconds=1.0,
        write_timeout_seconds=2.0,
        keep_alive_interval_seconds=3.0,
        request_timeout_seconds=4.0,
        shutdown_timeout_seconds=0.0,
        cors_origins=("https://a.example", "app://x"),
        no_ui=True,
        log_level="debug",
        log_format="json",
    )


def test_every_file_has_its_place(files):
    """The flags of keys and certificates set the fields that they are named after."""
    flags = [text for name, path in files.items() for text in (f"--{name}", str(path))]
    config = read_config([*flags, "--upstream-ssl-server-name", "headrace"], {})
    assert config == GatewayConfig(
        **{name.replace("-", "_"): path for name, path in files.items()},
        upstream_ssl_server_name="headrace",
    )
    assert config.has_keys
    assert config.tls == ListeningTls(
        KeyPair(files["ssl-certfile"], files["ssl-keyfile"]), files["ssl-ca-certs"]
    )
    assert config.upstream_tls == UpstreamTls(
        files["upstream-ssl-ca-certs"],
        KeyPair(files["upstream-ssl-certfile"], files["upstream-ssl-keyfile"]),
        "headrace",
    )


def test_without_them_there_are_no_keys_and_no_encryption():
    """What is not asked for is not there; the roots of the system are asked for by a word."""
    config = GatewayConfig()
    assert (config.has_keys, config.tls, config.upstream_tls) == (False, None, None)
    config = read_config(["--upstream-ssl-ca-certs", "system"], {})
    assert config.upstream_tls == UpstreamTls("system")


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (["--api-key", "sk-1", "--api-key", "sk-2"], {"HEADRACE_API_KEY": "three"}),
        ([], {"HEADRACE_API_KEY": "sk-1, sk-2"}),
        ([], {"HEADRACE_GATEWAY_API_KEY": "sk-1,sk-2", "HEADRACE_API_KEY": "three"}),
    ],
)
def test_keys_are_kept_as_digests(arguments, environment):
    """Several may be given, with commas in a variable; nothing shows them."""
    config = read_config(arguments, environment)
    assert config.api_keys == (to_api_key("sk-1"), to_api_key("sk-2"))
    assert "sk-" not in repr(config)


@pytest.mark.parametrize("address", ["[::1]:5", "a.example:65535", "unix:/run/headrace.sock"])
def test_the_server_is_at_an_address_or_a_socket(address):
    """Both are given to gRPC as they are."""
    assert read_config(["--upstream", address], {}).upstream == address


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        (("ssl-certfile",), "--ssl-certfile has no effect without --ssl-keyfile"),
        (("ssl-keyfile",), "--ssl-keyfile has no effect without --ssl-certfile"),
        (("ssl-ca-certs",), "--ssl-ca-certs has no effect without --ssl-certfile"),
        (
            ("upstream-ssl-ca-certs", "upstream-ssl-keyfile"),
            "--upstream-ssl-keyfile has no effect without --upstream-ssl-certfile",
        ),
        (
            ("upstream-ssl-ca-certs", "upstream-ssl-certfile"),
            "--upstream-ssl-certfile has no effect without --upstream-ssl-keyfile",
        ),
        (
            ("upstream-ssl-certfile", "upstream-ssl-keyfile"),
            "--upstream-ssl-certfile has no effect without --upstream-ssl-ca-certs",
        ),
    ],
)
def test_a_file_without_effect_is_refused(files, given, missing):
    """Nobody is left to believe that a certificate is used."""
    flags = [text for name in given for text in (f"--{name}", str(files[name]))]
    with pytest.raises(ConfigError) as refusal:
        read_config(flags, {})
    assert str(refusal.value) == f"{missing}; add that"


def test_the_flag_wins_over_the_own_variable_and_that_over_the_shared_one():
    """Of several sources the most specific counts; an empty variable is none."""
    environment = {
        "HEADRACE_LOG_LEVEL": "error",
        "HEADRACE_GATEWAY_LOG_LEVEL": "warning",
        "HEADRACE_PORT": "5",
        "HEADRACE_GATEWAY_HOST": "",
        "HEADRACE_MODEL": "not ours",
    }
    assert read_config(["--log-level", "debug"], environment).log_level == "debug"
    config = read_config([], environment)
    assert (config.log_level, config.port, config.host) == ("warning", 5, "127.0.0.1")


def test_links_of_a_kubernetes_service_are_passed_over():
    """A Service called headrace-gateway does not stop the gateway by its variables."""
    links = {
        "HEADRACE_GATEWAY_SERVICE_HOST": "10.0.0.7",
        "HEADRACE_GATEWAY_SERVICE_PORT_HTTP": "1919",
        "HEADRACE_GATEWAY_PORT_1919_TCP_ADDR": "10.0.0.7",
    }
    assert read_config([], links) == GatewayConfig()


@pytest.mark.parametrize(("text", "value"), [("1", True), ("True", True), ("off", False)])
def test_a_switch_has_a_variable_too(text, value):
    """The variable of a flag without a value says yes or no."""
    assert read_config([], {"HEADRACE_NO_UI": text}).no_ui is value


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        (["--port", "70000"], {}, "--port: '70000' must be from 0 to 65535"),
        (["--port", "x"], {}, "--port: 'x' must be from 0 to 65535"),
        (["--prot", "5"], {}, "there is no flag --prot 5; see --help"),
        (["--po", "5"], {}, "there is no flag --po 5; see --help"),
        (["--port"], {}, "--port: expected one argument"),
        (
            ["--host", "http://a"],
            {},
            "--host: 'http://a' must be an address such as 127.0.0.1, or 0.0.0.0 for all",
        ),
        (["--upstream", "a"], {}, "--upstream: 'a' must be an address such as 127.0.0.1:1920"),
        (["--upstream", "a:0"], {}, "--upstream: 'a:0' must be an address such as 127.0.0.1:1920"),
        (
            ["--body-timeout", "nan"],
            {},
            "--body-timeout: 'nan' must be a number of seconds from 0.001",
        ),
        (
            ["--write-timeout", "0"],
            {},
            "--write-timeout: '0' must be a number of seconds from 0.001",
        ),
        (["--max-body-bytes", "1"], {}, "--max-body-bytes: '1' must be from 1024 to"),
        (
            ["--cors-origins", "evil"],
            {},
            "--cors-origins: 'evil' must be localhost, none, * or origins",
        ),
        (
            ["--upstream", "unix:relative"],
            {},
            "--upstream: 'unix:relative' must be an address such as 127.0.0.1:1920, or a socket",
        ),
        (
            ["--upstream-ssl-server-name", "a"],
            {},
            "--upstream-ssl-server-name has no effect without --upstream-ssl-ca-certs; add that",
        ),
        (
            ["--upstream-ssl-ca-certs", "system", "--upstream", "unix:/a"],
            {},
            "--upstream-ssl-ca-certs has no effect with --upstream unix:/a; remove it",
        ),
        (["--ssl-certfile", "nowhere"], {}, "--ssl-certfile: there is no file 'nowhere'; give the"),
        (
            ["--upstream-ssl-ca-certs", "nowhere"],
            {},
            "--upstream-ssl-ca-certs: there is no file 'nowhere'; give the path of one, or system",
        ),
        (["--api-key", "a,b"], {}, "--api-key: a key must have 1 to 512 visible characters in"),
        ([], {"HEADRACE_API_KEY": "a,"}, "HEADRACE_API_KEY: a key must have 1 to 512 visible"),
        (["--log-level", "loud"], {}, "--log-level: 'loud' must be debug, info, warning or error"),
        ([], {"HEADRACE_NO_UI": "x"}, "HEADRACE_NO_UI: 'x' must be true or false"),
        ([], {"HEADRACE_PORT": "x"}, "HEADRACE_PORT: 'x' must be from 0 to 65535"),
        (
            [],
            {"HEADRACE_GATEWAY_PROT": "5"},
            "HEADRACE_GATEWAY_PROT is no setting; did you mean HEADRACE_GATEWAY_PORT?",
        ),
    ],
)
def test_a_bad_setting_stops_the_start_with_one_sentence(arguments, environment, words):
    """A setting that is unknown or bad is named with the rule that it breaks."""
    with pytest.raises(ConfigError) as refusal:
        read_config(arguments, environment)
    assert str(refusal.value).startswith(words)
    assert "\n" not in str(refusal.value)
