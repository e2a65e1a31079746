"""Gateway and server share nothing but the wire; what both need stands in each, word for word."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
GATEWAY, SERVER = ROOT / "gateway/headrace_gateway", ROOT / "server/headrace_server"


@pytest.mark.parametrize("name", ["api_keys.py", "stop_signals.py", "telemetry.py"])
def test_a_file_of_both_is_the_same(name):
    """A mend of one is a mend of the other."""
    assert (GATEWAY / name).read_text() == (SERVER / name).read_text()


def test_both_read_a_file_of_settings_alike():
    """They differ in which settings of the other one they pass over, and in nothing behind that."""
    gateway, server = ((each / "config_file.py").read_text() for each in (GATEWAY, SERVER))

    def behind_the_names(text):
        return re.sub(r"\b(SERVER|GATEWAY)_NAMES\b", "NAMES", text[text.index("class ") :])

    assert behind_the_names(gateway) == behind_the_names(server)
