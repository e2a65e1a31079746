"""headrace serve with a file of settings."""

import signal

import pytest

from tests.cli.test_serve import BOUND_SECONDS, read_welcome


def test_a_file_serves_both_programs(start, tmp_path):
    """One file sets up the server and the gateway, and flags win over it."""
    file = tmp_path / "headrace.toml"
    file.write_text(
        'backend = "simulated"\nserved-model-name = ["tiny", "small"]\nmax-model-len = 100\n'
        'log-level = "warning"\nport = 0\ngrpc-port = 0\nno-ui = true\n'
    )
    process = start("serve", "--config", str(file), "--max-model-len", "200")
    welcome = read_welcome(process.stdout)
    assert "Serving tiny (also small) with 200 tokens of context.\n" in welcome
    assert "  Chat  " not in welcome
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=BOUND_SECONDS)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("max-num-seq: 4", "headrace-server: {file}: there is no setting max-num-seq; did you"),
        ("max-num-seqs: x", "headrace-server: {file}: max-num-seqs: 'x' must be from 1 to 4096"),
        ("body-timeout: x", "headrace-gateway: {file}: body-timeout: 'x' must be a number of"),
    ],
)
def test_a_wrong_file_is_one_sentence(run, tmp_path, line, words):
    """The program that reads a line says what is wrong with it, and all ends with 2."""
    file = tmp_path / "headrace.yaml"
    file.write_text(f"backend: simulated\nport: 0\ngrpc-port: 0\nlog-level: warning\n{line}\n")
    result = run("serve", HEADRACE_CONFIG=str(file))
    lines = [line for line in result.stderr.splitlines() if not line.startswith("headrace: ")]
    assert (result.returncode, result.stdout) == (2, "")
    assert len(lines) == 1
    assert lines[0].startswith(words.format(file=file))
