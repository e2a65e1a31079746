"""The commands of docs/command-line.md do what it says, on a service as people start it."""

import os
import re
import signal

import pytest

from tests.command_line.expectations import EXPECTED
from tests.command_line.page import CHECKOUT, TEXT, examples
from tests.command_line.serving import BOUND_SECONDS, NATIVE

EXAMPLES = examples()


def test_no_example_is_left_out():
    """Each block has what it must do, and what must be done is on the page."""
    assert sorted(example.place for example in EXAMPLES) == sorted(EXPECTED)


def test_all_code_is_in_blocks_that_run():
    """There are no fences of another language, and no code that is only indented."""
    assert re.findall(r"^```(?!sh$)\S+", TEXT, re.MULTILINE) == []
    outside = re.sub(r"^```sh\n.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^(?: {4}|\t).*", outside, re.MULTILINE) == []
    assert "```" not in outside


def test_links_lead_somewhere():
    """Files beside the page, with the headings that are named."""
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        name, _, heading = target.partition("#")
        path = CHECKOUT / "docs" / name
        assert path.exists()
        if heading:
            headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            assert heading in [found.lower().replace(" ", "-") for found in headings]


@pytest.mark.parametrize(
    ("example", "service"),
    [pytest.param(example, example.flags, id=example.place) for example in EXAMPLES],
    indirect=["service"],
)
def test_it_does_what_the_page_says(example, service):
    """The exit status, the output, and what the server's log tells of it."""
    expected = EXPECTED[example.place]
    process = service.start(example.script)
    try:
        begin = act(process, expected, service)
        rest, _ = process.communicate(timeout=BOUND_SECONDS)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    output = begin + rest.decode(errors="replace")
    assert as_a_shell_tells(process.returncode) == expected.status, output
    for pattern in expected.says:
        assert re.search(pattern, output, re.MULTILINE), output
    if expected.logged and not expected.held_at:
        service.wait_for_call(expected.logged)


@pytest.mark.model
@pytest.mark.timeout(300)
def test_the_default_model_says_what_the_page_promises(serve):
    """By all tools of the section."""
    asked = [example for example in EXAMPLES if example.place.startswith("Chat ")]
    service = serve(*NATIVE)
    for example in asked:
        out, _ = service.start(example.script).communicate(timeout=BOUND_SECONDS)
        assert "The capital of France is Paris." in out.decode()


def act(process, expected, service):
    """Do what the reader or the machine does while a command runs, and return what it printed."""
    output = ""
    if expected.interrupted:
        output = read_until(process, expected.says)
        os.killpg(process.pid, signal.SIGINT)
    if expected.held_at:
        output = read_until(process, [expected.held_at])
        os.killpg(process.pid, signal.SIGSTOP)
        service.wait_for_call(expected.logged)
        os.killpg(process.pid, signal.SIGCONT)
    return output


def read_until(process, patterns):
    """Return what is printed until all patterns are there."""
    output = ""
    while not all(re.search(pattern, output, re.MULTILINE) for pattern in patterns):
        piece = os.read(process.stdout.fileno(), 65536)
        assert piece, output
        output += piece.decode(errors="replace")
    return output


def as_a_shell_tells(returncode):
    """The exit status as `$?` has it."""
    return 128 - returncode if returncode < 0 else returncode
