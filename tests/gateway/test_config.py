"""The settings."""

import pytest

from headrace_gateway.config import ConfigError, GatewayConfig, read_config


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
        (["--port", "70000"], {}, "--port: '70000' must be an integer from 0 to 65535"),
        (["--port", "x"], {}, "--port: 'x' must be an integer from 0 to 65535"),
        (["--prot", "5"], {}, "there is no flag --prot 5; see --help"),
        (["--po", "5"], {}, "there is no flag --po 5; see --help"),
        (["--port"], {}, "--port: expected one argument"),
        (
            ["--host", "http://a"],
            {},
            "--host: 'http://a' must be a host name or an IP address without a port",
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
        (["--max-body-bytes", "1"], {}, "--max-body-bytes: '1' must be an integer from 1024 to"),
        (
            ["--cors-origins", "evil"],
            {},
            "--cors-origins: 'evil' must be localhost, none, * or origins",
        ),
        (["--log-level", "loud"], {}, "--log-level: 'loud' must be debug, info, warning or error"),
        ([], {"HEADRACE_NO_UI": "x"}, "HEADRACE_NO_UI: 'x' must be true or false"),
        ([], {"HEADRACE_PORT": "x"}, "HEADRACE_PORT: 'x' must be an integer from 0 to 65535"),
        ([], {"HEADRACE_GATEWAY_PROT": "5"}, "HEADRACE_GATEWAY_PROT is no setting; the settings"),
    ],
)
def test_a_bad_setting_stops_the_start_with_one_sentence(arguments, environment, words):
    """A setting that is unknown or bad is named with the rule that it breaks."""
    with pytest.raises(ConfigError) as refusal:
        read_config(arguments, environment)
    assert str(refusal.value).startswith(words)
    assert "\n" not in str(refusal.value)
