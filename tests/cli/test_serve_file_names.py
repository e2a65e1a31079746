"""One file serves both programs: each takes its names and passes over those of the other."""

import headrace_gateway.config_file
import headrace_server.config_file
from headrace.cli.serve.flags import FLAGS
from headrace_gateway.settings import SETTINGS
from headrace_server.flags import FLAGS as SERVER_FLAGS

SERVER = {name for flags in SERVER_FLAGS.values() for flag in flags for name in flag.names_in_file}
GATEWAY = {setting.name_in_file for settings in SETTINGS.values() for setting in settings}


def test_each_program_passes_over_what_only_the_other_takes():
    """The lists of the other's names are complete and have nothing more."""
    assert headrace_server.config_file.GATEWAY_NAMES == GATEWAY - SERVER
    assert headrace_gateway.config_file.SERVER_NAMES == SERVER - GATEWAY


def test_the_names_of_a_file_are_the_flags_of_headrace_serve():
    """Every flag may stand in a file under its name; the gateway alone is told its server."""
    flags = {flag.flag.removeprefix("--") for group in FLAGS.values() for flag in group}
    own = {name for name in GATEWAY if name.startswith("upstream")}
    assert flags | own == SERVER | GATEWAY
