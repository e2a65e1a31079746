"""What headrace serve shows: progress, addresses, the welcome, and what is missing."""

from importlib.metadata import PackageNotFoundError

import pytest

from headrace import Capability
from headrace.cli import main
from headrace.cli.serve import command
from headrace.cli.serve.console import program, progress_bar, reachable, welcome
from tests.client.test_client import TINY


@pytest.mark.parametrize(
    ("phase", "percentage", "shown"),
    [
        ("reading weights", "", "reading weights …"),
        ("reading weights", "0 %", "░░░░░░░░░░ 0 % reading weights"),
        ("reading weights", "50 %", "█████░░░░░ 50 % reading weights"),
        ("reading weights", "100 %", "██████████ 100 % reading weights"),
        ("reading weights", "half", "reading weights …"),
        ("x" * 100, "", "x" * 40 + " …"),
    ],
)
def test_progress_is_a_bar_where_there_is_a_percentage(phase, percentage, shown):
    """A phase with a percentage is a bar; one without is its words; none fills the line."""
    assert progress_bar(phase, percentage) == shown


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1:1919", "127.0.0.1:1919"),
        ("0.0.0.0:1919", "127.0.0.1:1919"),
        ("[::]:1919", "[::1]:1919"),
        ("10.1.2.3:80", "10.1.2.3:80"),
    ],
)
def test_all_addresses_are_reached_on_the_loopback(address, expected):
    """A port that is open on all addresses is shown with one that works on this machine."""
    assert reachable(address) == expected


@pytest.mark.parametrize(
    ("argument", "directory", "expected"),
    [
        ("env/bin/headrace", ".", "env/bin/headrace"),
        ("../env/bin/headrace", "sub", "../env/bin/headrace"),
        ("./headrace", "env/bin", "{root}/env/bin/headrace"),
        ("../../../../env/bin/headrace", "a/b/c/d", "../../../../env/bin/headrace"),
        ("env/bin/__main__.py", ".", "'my env/python3' -m headrace"),
    ],
)
def test_the_program_is_named_so_that_it_can_be_started(
    monkeypatch, tmp_path, argument, directory, expected
):
    """Without headrace on the PATH the examples name the file, as short as it can be."""
    (tmp_path / directory).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / directory)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", [argument])
    monkeypatch.setattr("sys.executable", str(tmp_path / "my env" / "python3"))
    assert program() == expected.format(root=tmp_path)


def test_a_program_on_the_path_is_named_without_it(monkeypatch, tmp_path):
    """With headrace on the PATH its name is enough."""
    (tmp_path / "headrace").touch(mode=0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program() == "headrace"


def test_a_model_without_a_chat_template_gets_other_examples():
    """The examples suit the model: a text to continue where there is no conversation."""
    model = TINY.__class__(
        **{
            **{name: getattr(TINY, name) for name in TINY.__slots__},
            "capabilities": (Capability.COMPLETION,),
        }
    )
    text = welcome(model, "127.0.0.1:1919", "0.0.0.0:1920", num_kv_tokens=64, has_page=False)
    assert 'generate "Once upon a time" --max-tokens 60\n' in text
    assert "/v1/completions" in text
    assert '{"text": "Once upon a time", "stopping": {"max_output_tokens": 60}}' in text


@pytest.mark.parametrize(
    ("has_page", "lines"), [(True, ["  Chat  http://127.0.0.1:1919/"]), (False, [])]
)
def test_the_chat_page_is_named_where_there_is_one(has_page, lines):
    """A person is shown the address to open in a browser."""
    text = welcome(TINY, "0.0.0.0:1919", "127.0.0.1:1920", num_kv_tokens=64, has_page=has_page)
    assert [line for line in text.splitlines() if line.startswith("  Chat")] == lines


def test_missing_packages_are_named_with_the_command_that_installs_them(monkeypatch, capsys):
    """Without an extra, serve names what is missing and how to install it."""

    def distribution(name):
        if name in ("torch", "aiohttp"):
            raise PackageNotFoundError(name)

    monkeypatch.setattr(command, "distribution", distribution)
    assert main(["serve"]) == 1
    assert capsys.readouterr().err == (
        "headrace: Serving needs packages that are not installed (aiohttp, torch). "
        "Install them, in a checkout of Headrace, with: pip install '.[server,gateway]'\n"
    )
