"""A file holds flags that the command line and the environment do not give."""

import pytest

from headrace_server.config import read_config
from headrace_server.config_file import GATEWAY_NAMES
from headrace_server.flags import FLAGS
from tests.server.test_config import refusal

TOML = """\
max-num-seqs = 32
max_queued_requests = 7
kv-cache-bytes = "1GiB"
prefix-cache = false
served-model-name = ["tiny", "small"]
shutdown-timeout = 2.5
backend = "simulated"
simulated-faults = true
host = "0.0.0.0"
port = 80
grpc-port = 81
no-ui = true
"""
YAML = """\
# The same.
max-num-seqs: 32
max_queued_requests: 7
kv-cache-bytes: 1GiB
prefix-cache: off
served-model-name: [tiny, small]
shutdown-timeout: 2.5
backend: simulated
simulated-faults: yes
host: 0.0.0.0
port: 80
grpc-port: 81
no-ui: on
"""


@pytest.fixture
def write(tmp_path):
    def write(text, name="headrace.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("text", "name"), [(TOML, "a.toml"), (YAML, "a.yaml"), (YAML, "a.yml")], ids=lambda text: text
)
def test_both_languages_say_the_same(write, text, name):
    """TOML and YAML give numbers, words, lists and switches; what the gateway takes is left."""
    config = read_config(["--config", str(write(text, name))], {})
    engine = config.engine
    assert (engine.max_num_sequences, config.admission.max_queued_requests) == (32, 7)
    assert (engine.kv_cache_bytes, engine.prefix_cache) == (1024**3, False)
    assert config.served_names == ("tiny", "small")
    assert config.shutdown.timeout_seconds == 2.5
    assert (engine.runner, engine.simulated.faults) == ("simulated", True)
    assert (config.rpc.host, config.rpc.port) == ("0.0.0.0", 81)


def test_flags_win_over_variables_and_those_over_the_file(write):
    """The nearer to the start, the stronger."""
    path = write("max-num-seqs: 1\nmax-queued-requests: 1\nmax-queued-tokens: 1")
    environment = {
        "HEADRACE_CONFIG": str(path),
        "HEADRACE_MAX_NUM_SEQS": "2",
        "HEADRACE_MAX_QUEUED_REQUESTS": "2",
    }
    config = read_config(["--max-num-seqs", "3"], environment)
    assert config.engine.max_num_sequences == 3
    assert config.admission.max_queued_requests == 2
    assert config.admission.max_queued_tokens == 1


def test_grpc_may_listen_elsewhere_than_http(write):
    """In a file `grpc-host` is for gRPC alone and `host` for both."""
    path = write("host: 0.0.0.0\ngrpc-host: 127.0.0.2")
    assert read_config(["--config", str(path)], {}).rpc.host == "127.0.0.2"


def test_an_empty_file_changes_nothing(write):
    """A file with comments alone gives the defaults."""
    assert read_config(["--config", str(write("# nothing"))], {}) == read_config([], {})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max-num-seq: 3", "there is no setting max-num-seq; did you mean max-num-seqs?"),
        ("zzz: 3", "there is no setting zzz; docs/flags.md lists them"),
        ("config: a.toml", "there is no setting config;"),
        ("server: {seed: 1}", "there is no setting server; a file has no sections, so write"),
        ("max-num-seqs: many", "max-num-seqs: 'many' must be from 1 to 4096"),
        ("max_num_seqs: 0", "max-num-seqs: '0' must be from 1 to 4096"),
        ("max-num-seqs: true", "max-num-seqs: 'true' must be from 1 to 4096"),
        ("max-num-seqs: [1, 2]", "max-num-seqs: takes one value, not a list"),
        ("max-num-seqs: 1\nmax-num-seqs: 2", "max-num-seqs is there twice; remove one of them"),
        ("max-num-seqs: 1\nmax_num_seqs: 2", "max-num-seqs is there twice; remove one of them"),
        ("max-num-seqs:", "max-num-seqs has no value; give one or remove it"),
        ("served-model-name: []", "served-model-name has an empty list; give a value or remove it"),
        ("model: {name: x}", "model must be text, a number, true, false or a list of them"),
        ("lame-duck: 2026-01-01", "lame-duck must be text, a number, true, false or a list"),
        ("backend: simulated\ndevice: cpu", "device has no effect with --backend simulated"),
        ("- max-num-seqs", "must have lines such as: max-num-seqs: 32"),
        ("max-num-seqs: [", "is not YAML in line 1: "),
        ("a: &a [*a]", "is not YAML in line 1"),
        ("lame-duck: 2026-13-41", "is not YAML: "),
        (b"\xff", "is not text in UTF-8; save it as such"),
    ],
)
def test_a_bad_file_is_one_sentence(write, capsys, text, words):
    """What is unknown, given twice or malformed is told with the file and the name."""
    path = write(text)
    error = refusal(capsys, "--config", str(path))
    assert error.startswith(f"headrace-server: {path}")
    assert words in error


def test_bad_toml_is_told_with_its_line(write, capsys):
    """TOML that cannot be read is told with its place."""
    error = refusal(capsys, "--config", str(write("max-num-seqs 3", "a.toml")))
    assert "a.toml is not TOML: " in error
    assert "line 1" in error


def test_a_bad_value_is_told_even_where_a_flag_wins(write, capsys):
    """A file is right or wrong by itself."""
    path = write("max-num-seqs: many")
    assert "'many' must be" in refusal(capsys, "--config", str(path), "--max-num-seqs", "3")


@pytest.mark.parametrize(
    ("name", "words"),
    [("nowhere.toml", "there is no file"), ("x.json", "must end in .toml, .yaml or .yml")],
)
def test_a_missing_file_stops_the_start(capsys, name, words):
    """A file that is not there, or of another kind, is told with what to do."""
    assert words in refusal(capsys, "--config", name)


def test_nothing_is_passed_over_that_the_server_takes():
    """A name is the server's or only the gateway's."""
    names = {name for flags in FLAGS.values() for flag in flags for name in flag.names_in_file}
    assert names & GATEWAY_NAMES == set()
