"""docs/flags.md says what the programs do."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from headrace.cli.serve.flags import FLAGS, Program
from headrace_gateway.config import read_config as read_gateway_config
from headrace_gateway.settings import SETTINGS
from headrace_server.config import read_config
from headrace_server.flags import FLAGS as SERVER_FLAGS

PAGE = (Path(__file__).parents[2] / "docs" / "flags.md").read_text()
ALL_FLAGS = [flag for flags in FLAGS.values() for flag in flags]
SERVER_VARIABLES = {flag.name: flag.variable for flags in SERVER_FLAGS.values() for flag in flags}
GATEWAY_VARIABLES = {
    setting.flag: setting.variables[1] for settings in SETTINGS.values() for setting in settings
}
READERS = {
    frozenset({Program.SERVER}): "server",
    frozenset({Program.GATEWAY}): "gateway",
    frozenset(Program): "both",
}


def rows_of(heading):
    """Return the cells of the table below a heading, without its head."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def block_of(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)[1]


def test_the_headings_are_the_groups_of_the_help():
    """The page has a table for each group, in the same order."""
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    groups = [title.partition(",")[0].capitalize() for title in FLAGS]
    assert headings[: len(groups)] == groups


@pytest.mark.parametrize("title", FLAGS)
def test_a_table_has_every_flag_of_its_group(title):
    """Flag, variable, default and the programs that read it are told for each, in order."""
    expected = []
    for flag in FLAGS[title]:
        value = "" if flag.metavar is None else f" {flag.metavar}{' …' if flag.is_list else ''}"
        name = (flag.flag + value).replace("|", "\\|")
        variable = f"HEADRACE_{flag.flag[2:].replace('-', '_').upper()}"
        reader = READERS[frozenset(flag.programs)]
        expected.append([f"`{name}`", f"`{variable}`", flag.default, reader])
    rows = rows_of(title.partition(",")[0].capitalize())
    assert [[*cells[:3], cells[4]] for cells in rows] == expected
    assert all(cells[3] for cells in rows)


def test_the_programs_read_these_variables():
    """Each flag's variable is its name in capitals, but that of --host is read by HTTP alone."""
    for flag in ALL_FLAGS:
        variable = f"HEADRACE_{flag.flag[2:].replace('-', '_').upper()}"
        read = {
            {Program.SERVER: SERVER_VARIABLES, Program.GATEWAY: GATEWAY_VARIABLES}[program][name]
            for program, name in flag.programs.items()
        }
        expected = {variable, "HEADRACE_GRPC_HOST"} if flag.flag == "--host" else {variable}
        assert read == expected


def test_the_two_files_say_the_same():
    """The example in TOML is that in YAML."""
    assert tomllib.loads(block_of("toml")) == yaml.safe_load(block_of("yaml"))


@pytest.mark.parametrize("language", ["yaml", "toml"])
def test_the_files_can_be_used(tmp_path, language):
    """Both programs take the examples."""
    file = tmp_path / f"headrace.{language}"
    file.write_text(block_of(language))
    server = read_config(["--config", str(file)], {})
    assert server.served_names == ("small", "smollm2")
    assert (server.rpc.host, server.engine.max_num_sequences) == ("127.0.0.1", 32)
    http = read_gateway_config(["--config", str(file)], {})
    assert (http.host, http.no_ui) == ("0.0.0.0", True)
