"""Flags and variables become a frozen configuration, or one sentence."""

import pytest

from headrace_server.api_keys import to_api_key
from headrace_server.backends.native import AdmissionLimits, SupervisionLimits
from headrace_server.certificates import TlsConfig
from headrace_server.config import AccessConfig, ShutdownConfig, read_config
from headrace_server.engine.settings import SimulatedSettings
from headrace_server.flags import FLAGS
from headrace_server.metrics import MetricsConfig
from headrace_server.text.parsing.formats import ToolCallFormat


def refusal(capsys, *arguments, **environment):
    """What is said about these flags, which must be wrong."""
    with pytest.raises(SystemExit) as caught:
        read_config(arguments, environment)
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_without_flags_the_defaults_hold():
    """The default is the built-in model on loopback."""
    config = read_config([], {})
    assert config.served_names == ("smollm2-135m-instruct",)
    assert (config.rpc.host, config.rpc.port) == ("127.0.0.1", 1920)
    assert (config.engine.runner, config.engine.model) == ("torch", "default")
    assert config.admission == AdmissionLimits()
    assert config.supervision == SupervisionLimits()
    assert config.shutdown == ShutdownConfig(0, 30)
    assert config.metrics is None


def test_metrics_are_served_on_loopback_unless_told_otherwise(capsys):
    """The port alone is enough; the address alone would have no effect and is refused."""
    assert read_config(["--metrics-port", "9"], {}).metrics == MetricsConfig("127.0.0.1", 9)
    assert refusal(capsys, "--metrics-host", "0.0.0.0") == (
        "headrace-server: --metrics-host has no effect without --metrics-port; add that\n"
    )


def test_without_flags_there_are_no_keys_no_tls_and_no_socket():
    """They are asked for."""
    config = read_config([], {})
    assert config.access == AccessConfig((), None)
    assert not config.access.has_keys
    assert (config.rpc.tls, config.rpc.unix_socket) == (None, None)
    assert not config.rpc.asks_for_certificates


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("--api-key", "one", "--api-key", "two"), {}),
        ((), {"HEADRACE_API_KEY": "one, two"}),
        (("--api-key", "one", "--api-key", "two"), {"HEADRACE_API_KEY": "three"}),
    ],
)
def test_keys_are_kept_as_their_digests(arguments, environment):
    """Nothing that shows the configuration shows a key."""
    config = read_config(arguments, environment)
    assert config.access.api_keys == (to_api_key("one"), to_api_key("two"))
    assert config.access.has_keys
    assert "'one'" not in repr(config)


@pytest.mark.parametrize("key", ["", "ä", "a b", "SECRET\n", "x" * 513])
def test_a_bad_key_is_refused_without_being_told(capsys, key):
    """Terminals and logs of services keep what is written to them."""
    error = refusal(capsys, "--api-key", "SECRET", "--api-key", key)
    assert error == (
        "headrace-server: --api-key: a key must have 1 to 512 visible characters in ASCII, "
        "and no comma\n"
    )


def test_what_follows_a_key_is_not_another(capsys):
    """The name of a model, say, which everybody knows, must not become a key."""
    assert "tiny" in refusal(capsys, "--api-key", "one", "tiny")


def test_parts_of_tls_are_refused(capsys, tmp_path):
    """Half of it would leave the server open, which nobody has asked for."""
    file = tmp_path / "some.pem"
    file.write_text("")
    for flags, error in [
        (("--ssl-certfile",), "--ssl-certfile has no effect without --ssl-keyfile; add that"),
        (("--ssl-keyfile",), "--ssl-keyfile has no effect without --ssl-certfile; add that"),
        (
            ("--ssl-ca-certs",),
            "--ssl-ca-certs has no effect without --ssl-certfile and --ssl-keyfile; add that",
        ),
        (
            ("--ssl-ca-certs", "--ssl-certfile"),
            "--ssl-certfile has no effect without --ssl-keyfile; add that",
        ),
    ]:
        arguments = [part for flag in flags for part in (flag, str(file))]
        assert refusal(capsys, *arguments) == f"headrace-server: {error}\n"
    assert refusal(capsys, HEADRACE_SSL_KEYFILE=str(file)) == (
        "headrace-server: HEADRACE_SSL_KEYFILE has no effect without --ssl-certfile; add that\n"
    )


@pytest.mark.parametrize(
    "flag", ["--api-key-file", "--ssl-certfile", "--ssl-keyfile", "--ssl-ca-certs"]
)
def test_a_file_that_is_not_there_is_refused(capsys, flag):
    """By the flag that names it."""
    assert refusal(capsys, flag, "nowhere.pem") == (
        f"headrace-server: {flag}: there is no file 'nowhere.pem'; give the path of one\n"
    )


def test_every_flag_reaches_its_section(tmp_path):
    """No flag is read and forgotten."""
    template, key_file, cert, key, authorities = (tmp_path / name for name in "tkcpa")
    for path in (template, key_file, cert, key, authorities):
        path.write_text("")
    config = read_config(
        [
            *("--backend", "simulated", "--served-model-name", "a", "b"),
            *("--chat-template", str(template), "--max-model-len", "100"),
            *("--host", "0.0.0.0", "--port", "7", "--stall-timeout", "2.5"),
            *("--metrics-port", "9", "--metrics-host", "::1"),
            *("--api-key", "one", "--api-key-file", str(key_file)),
            *("--ssl-certfile", str(cert), "--ssl-keyfile", str(key)),
            *("--ssl-ca-certs", str(authorities), "--unix-socket", str(tmp_path / "s")),
            *("--kv-cache-bytes", "2GiB", "--engine-heartbeat-timeout", "3"),
            *("--prefix-cache", "off", "--tool-call-parser", "mistral"),
            *("--max-num-seqs", "5", "--max-num-batched-tokens", "50"),
            *("--max-queued-requests", "6", "--max-queued-tokens", "70"),
            *("--shutdown-timeout", "8", "--lame-duck", "1.5"),
            *("--simulated-step-seconds", "0.5", "--simulated-load-seconds", "0.25"),
            *("--simulated-faults", "--log-level", "debug", "--log-format", "json"),
        ],
        {},
    )
    engine, rpc = config.engine, config.rpc
    assert (engine.runner, engine.max_context_length) == ("simulated", 100)
    assert (engine.max_num_sequences, engine.max_num_batched_tokens) == (5, 50)
    assert (engine.kv_cache_bytes, engine.prefix_cache) == (2 * 1024**3, False)
    assert engine.simulated == SimulatedSettings(step_seconds=0.5, load_seconds=0.25, faults=True)
    assert config.served_names == ("a", "b")
    assert config.chat_template_file == template
    assert config.tool_call_format is ToolCallFormat.MISTRAL
    assert read_config([], {}).tool_call_format is None
    assert (rpc.host, rpc.port, rpc.stall_seconds) == ("0.0.0.0", 7, 2.5)
    assert rpc.tls == TlsConfig(cert, key, authorities)
    assert rpc.asks_for_certificates
    assert rpc.unix_socket == tmp_path / "s"
    assert config.access == AccessConfig((to_api_key("one"),), key_file)
    assert config.metrics == MetricsConfig("::1", 9)
    assert config.admission == AdmissionLimits(max_queued_requests=6, max_queued_tokens=70)
    assert (config.supervision.step_timeout_seconds, config.supervision.idle_timeout_seconds) == (
        3,
        3,
    )
    assert config.shutdown == ShutdownConfig(lame_duck_seconds=1.5, timeout_seconds=8)
    assert (config.log.level, config.log.form) == ("debug", "json")


def test_the_flags_of_a_real_model_reach_the_engine():
    """Device, type, threads and a Hub id go where the model is loaded."""
    config = read_config(
        [
            *("--model", "org/name", "--device", "cuda:1"),
            *("--dtype", "float32", "--num-threads", "3", "--seed=-7"),
        ],
        {},
    )
    engine = config.engine
    assert (engine.model, engine.device, engine.dtype, engine.num_threads) == (
        "org/name",
        "cuda:1",
        "float32",
        3,
    )
    assert config.served_names == ("org/name",)
    assert config.seed == -7


def test_each_flag_has_a_variable_and_the_flag_wins():
    """A variable is the same as its flag, lists have commas, and the flag is stronger."""
    environment = {
        "HEADRACE_BACKEND": "simulated",
        "HEADRACE_SERVED_MODEL_NAME": "a, b",
        "HEADRACE_GRPC_PORT": "7",
        "HEADRACE_MAX_NUM_SEQS": "9",
        "HEADRACE_SIMULATED_FAULTS": "true",
        "HEADRACE_STALL_TIMEOUT": "",
    }
    config = read_config(["--max-num-seqs", "3"], environment)
    assert config.served_names == ("a", "b")
    assert (config.rpc.port, config.rpc.stall_seconds) == (7, 30)
    assert config.engine.max_num_sequences == 3
    assert config.engine.simulated.faults


def test_no_two_flags_share_a_variable():
    """Each variable means one thing."""
    variables = [flag.variable for flags in FLAGS.values() for flag in flags]
    assert len(set(variables)) == len(variables)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--nonsense"], "there is no flag --nonsense"),
        (["--por", "1"], "there is no flag --por 1"),
        (["extra"], "there is no flag extra"),
        (["--port", "65536"], "--port: '65536' must be from 0 to 65535"),
        (["--port", "1e3"], "--port: '1e3' must be"),
        (["--port"], "--port: expected one argument"),
        (["--host", "a b"], "--host: 'a b' must be"),
        (["--stall-timeout", "nan"], "--stall-timeout: 'nan' must be"),
        (["--stall-timeout", "-1"], "--stall-timeout: '-1' must be"),
        (["--shutdown-timeout", "inf"], "--shutdown-timeout: 'inf' must be"),
        (["--kv-cache-bytes", "2 gigs"], "--kv-cache-bytes: '2 gigs' must be a size"),
        (["--kv-cache-bytes", "0"], "--kv-cache-bytes: '0' must be a size"),
        (["--dtype", "int3"], "--dtype: 'int3' must be auto, float32, bfloat16 or float16"),
        (["--device", "GPU"], "--device: 'GPU' must be auto or a device"),
        (["--backend", "vllm"], "--backend: 'vllm' must be native or simulated"),
        (["--served-model-name", ""], "--served-model-name: '' must have 1 to 256"),
        (["--max-num-seqs", "0"], "--max-num-seqs: '0' must be"),
        (
            ["--max-num-seqs", "64", "--max-num-batched-tokens", "63"],
            "--max-num-batched-tokens (63) must be at least --max-num-seqs (64)",
        ),
        (["--simulated-faults"], "--simulated-faults has no effect with --backend native"),
        (["--backend", "simulated", "--num-threads", "1"], "--num-threads has no effect"),
        (["--backend", "simulated", "--model", "default"], "--model has no effect"),
        (["--chat-template", "/nowhere"], "there is no file '/nowhere'"),
        (["--tool-call-parser", "xml"], "must be auto, hermes, llama3_json or mistral"),
        (["--model", "./nowhere"], "there is no directory or file './nowhere'"),
        (["--model", "nowhere.gguf"], "there is no directory or file 'nowhere.gguf'"),
        (["--model", "gpt2"], "there is no directory or file 'gpt2'"),
        (["--model", ""], "there is no directory or file ''"),
    ],
    ids=str,
)
def test_a_wrong_flag_is_one_sentence(capsys, arguments, words):
    """What is unknown, malformed, without effect or missing is told with status 2."""
    error = refusal(capsys, *arguments)
    assert words in error


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADRACE_MAX_NUM_SEQS", "many"),
        ("HEADRACE_SIMULATED_FAULTS", "perhaps"),
        ("HEADRACE_DEVICE", "cpu"),
    ],
)
def test_a_wrong_variable_is_named(capsys, name, value):
    """An error of the environment names the variable, also one without effect."""
    assert name in refusal(capsys, "--backend", "simulated", **{name: value})


@pytest.mark.parametrize(("file_name", "served_name"), [("tiny", "tiny"), ("q4.gguf", "q4")])
def test_a_path_gives_the_model_its_name(tmp_path, file_name, served_name):
    """A directory is served under its name, a GGUF file under its name without the suffix."""
    path = tmp_path / file_name
    path.write_bytes(b"") if path.suffix else path.mkdir()
    config = read_config(["--model", str(path)], {})
    assert config.engine.model == str(path)
    assert config.served_names == (served_name,)


def test_names_are_given_once():
    """A name that is given twice is one name."""
    assert read_config(["--served-model-name", "a", "b", "a"], {}).served_names == ("a", "b")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1", 1),
        ("1000000", 10**6),
        ("512MiB", 2**29),
        ("2GiB", 2**31),
        ("3KB", 3000),
        ("1 GB", 10**9),
    ],
)
def test_sizes_have_units(text, size):
    """Binary and decimal units differ."""
    assert read_config(["--kv-cache-bytes", text], {}).engine.kv_cache_bytes == size
