"""The programs where the client is installed alone, without what serving needs."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("program", "package"),
    [
        ("server", "uvloop"),
        ("server", "grpc_reflection"),
        ("server", "tokenizers"),
        ("gateway", "uvloop"),
        ("gateway", "aiohttp"),
    ],
)
def test_a_program_without_its_packages_says_how_to_install_them(program, package):
    """A missing package ends a program with 1 and a sentence that says how to install it."""
    script = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        f"from headrace_{program}.__main__ import main\n"
        "sys.exit(main())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"headrace-{program}: The package {package} is not installed. Install what the {program} "
        "needs, in a checkout of Headrace, with: pip install '.[server,gateway]'\n"
    )
