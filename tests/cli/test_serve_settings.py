"""What headrace serve reads of flags, variables and the file, as its programs do."""

from argparse import Namespace

import pytest

from headrace.cli.serve.settings import Settings, read_settings

YAML = "ssl-certfile: cert.pem\nssl_keyfile: key.pem\nunix-socket: h.sock\napi-key: [a, b]\n"
TOML = (
    'ssl-certfile = "cert.pem"\nssl_keyfile = "key.pem"\nunix-socket = "h.sock"\napi-key = ["a"]\n'
)


def test_without_settings_there_is_no_security():
    """What is not given has the defaults of the programs."""
    assert read_settings(Namespace(), {"HEADRACE_API_KEY": "", "OTHER": "x"}) == Settings()


@pytest.mark.parametrize(("name", "text"), [("h.yaml", YAML), ("h.yml", YAML), ("h.toml", TOML)])
@pytest.mark.parametrize("way", ["flag", "variable"])
def test_a_file_is_read(tmp_path, name, text, way):
    """Its lines count, with dashes or underscores, whether it is named by flag or by variable."""
    file = tmp_path / name
    file.write_text(text)
    given = Namespace(config=str(file)) if way == "flag" else Namespace()
    variables = {"HEADRACE_CONFIG": str(file)} if way == "variable" else {}
    assert read_settings(given, variables) == Settings(
        has_keys=True, certfile="cert.pem", keyfile="key.pem", unix_socket="h.sock"
    )


def test_a_flag_wins_over_a_variable_and_that_over_the_file(tmp_path):
    """The first source that has a value counts."""
    file = tmp_path / "h.yaml"
    file.write_text("log-level: debug\nlog-format: text\nssl-certfile: file.pem\n")
    given = Namespace(config=str(file), log_level="error", api_key_file="keys.txt")
    variables = {
        "HEADRACE_LOG_LEVEL": "warning",
        "HEADRACE_LOG_FORMAT": "json",
        "HEADRACE_SSL_CA_CERTS": "ca.pem",
    }
    assert read_settings(given, variables) == Settings(
        log_format="json",
        log_level="error",
        has_keys=True,
        certfile="file.pem",
        wants_certificates=True,
    )


@pytest.mark.parametrize("text", ["- a list", "a: [", "\xff", None])
def test_a_file_that_cannot_be_read_is_left_to_the_programs(tmp_path, text):
    """They say what is wrong with it."""
    file = tmp_path / "h.yaml"
    if text is not None:
        file.write_text(text, encoding="latin-1")
    assert read_settings(Namespace(config=str(file)), {}) == Settings()
