"""What holds for every command: help, versions, mistakes, and how fast it starts."""

import socket
import subprocess
import sys
from importlib.metadata import version

import pytest

COMMANDS = ["serve", "chat", "generate", "models", "health", "bench", "version"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(run, command):
    """--help explains a command and exits with 0."""
    result = run(command, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert f"usage: headrace {command}" in result.stdout


@pytest.mark.parametrize("command", [[], *([command] for command in COMMANDS)], ids=str)
def test_help_fits_a_terminal(run, command):
    """At 80 columns no line of a help is broken by the terminal."""
    lines = run(*command, "--help", COLUMNS="80").stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []


def test_help_lists_the_commands_and_the_exit_status(run):
    """The help of the program names every command and every exit status."""
    result = run("--help")
    for word in (*COMMANDS, "examples:", "exit status:", "130"):
        assert word in result.stdout


def test_without_a_command_there_is_help(run):
    """The bare program shows its help, as a mistake."""
    result = run()
    assert result.returncode == 2
    assert "examples:" in result.stdout


@pytest.mark.parametrize("arguments", [["version"], ["--version"]])
def test_the_version_is_that_of_the_package(run, arguments):
    """The version is the installed one."""
    assert run(*arguments).stdout == f"headrace {version('headrace')}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["chta"],
            "headrace: there is no command chta; the commands are serve, chat, generate, models, "
            "health, bench, version. See headrace --help.",
        ),
        (["generate", "hello", "world"], 'put the prompt in quotes, as in: headrace generate "'),
        (["models", "all"], "headrace models: there is no flag or argument all. See headrace mod"),
        (["generate", "--temperature", "hot"], "--temperature: invalid float value: 'hot'"),
        (
            ["generate", "Hi", "--tempera", "1"],
            "headrace generate: there is no flag or argument --tempera. See headrace gen",
        ),
        (["generate", "Hi", "--system", "Be brief."], "--system goes with --chat."),
        (["generate", "Hi", "--timeout", "-1"], "--timeout: invalid seconds value: '-1'"),
        (["models", "--target", "http://localhost:1919"], "such as localhost:1920"),
        (["health", "--wait", "long"], "--wait: invalid seconds value"),
        (["bench", "--streams", "0"], "--streams: '0' must be a whole number of at least 1"),
        (["bench", "--warmup", "-1"], "--warmup: '-1' must be a whole number of at least 0"),
        (
            ["models", "--api-key", "två ord"],
            "--api-key: a key is visible ASCII characters without",
        ),
        (["health", "--certfile", "a.pem"], "--certfile and --keyfile belong together; give both"),
        (["chat", "--keyfile", "a.key"], "--certfile and --keyfile belong together; give both"),
        (["models", "--ca-certs", "none.pem"], "headrace: --ca-certs: cannot read 'none.pem': No"),
        (
            ["generate", "Hi", "--certfile", "none.pem", "--keyfile", "none.key"],
            "headrace: --certfile: cannot read 'none.pem': No such file or directory",
        ),
        (["bench", "--url", "http://h/v1", "--tls"], "--tls goes with an https URL, not http://h"),
        (
            ["bench", "--url", "https://h/v1", "--ca-certs", "x"],
            "headrace: --ca-certs: cannot read",
        ),
        (["bench", "--url", "localhost:1919"], "--url: 'localhost:1919' must be a URL such as"),
    ],
)
def test_a_mistake_is_one_sentence(run, arguments, words):
    """A wrong command line is one sentence on stderr, and exits with 2."""
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [["generate", "Hi"], ["chat"], ["models"], ["health"], ["bench"]],
    ids=lambda words: words[0],
)
def test_without_a_server_there_is_one_sentence(run, arguments):
    """Where nothing answers, a command says where and what to do, and exits with 1."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # so that nobody else listens there
        target = f"127.0.0.1:{silent.getsockname()[1]}"
        result = run(*arguments, "--target", target, stdin="Hi\n")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"headrace: Nothing answers at {target} (Connection refused). "
        "Start a server with `headrace serve`, or check the address.\n"
    )


def test_the_target_may_come_from_the_environment(run, server):
    """HEADRACE_TARGET stands for --target, and the flag wins over it."""
    assert run("health", HEADRACE_TARGET=server.target).returncode == 0
    assert run("health", "--target", server.target, HEADRACE_TARGET="localhost:1").returncode == 0
    assert run("health", HEADRACE_TARGET="not an address").returncode == 2


def test_a_key_that_is_wrong_is_not_told(run):
    """Neither the flag nor the variable shows what it was given, where that is no key."""
    results = [
        run("models", "--api-key", "secret word"),
        run("models", HEADRACE_API_KEY="secret word, other"),
    ]
    for result in results:
        assert result.returncode == 2
        assert "secret" not in result.stdout + result.stderr


def test_the_key_may_come_from_the_environment(run, server):
    """The first key of HEADRACE_API_KEY stands for --api-key, which wins over it."""
    variable = {"HEADRACE_API_KEY": "first, second"}
    arguments = ["generate", "Hi", "--target", server.target]
    assert run(*arguments, **variable).returncode == 0
    assert run(*arguments, "--api-key", "third", **variable).returncode == 0
    assert run(*arguments, HEADRACE_API_KEY="").returncode == 0
    sent = [call.metadata.get("authorization") for call in server.calls]
    assert sent == ["Bearer first", "Bearer third", None]


def test_a_locale_without_a_character_is_no_obstacle(run, server):
    """Where the output cannot show a character, a question mark stands for it."""
    result = run("generate", "Hi", "--target", server.target, PYTHONIOENCODING="latin-1")
    assert (result.returncode, result.stdout) == (0, "Hello ?")


def test_help_imports_nothing_heavy():
    """Help and the package itself come without gRPC, protobuf and asyncio."""
    script = (
        "import sys, contextlib, io\n"
        "from headrace.cli import main\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    main(['--help'])\n"
        "print(sorted({'grpc', 'google.protobuf', 'asyncio'} & set(sys.modules)))\n"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert result.stdout == "[]\n", result.stderr
