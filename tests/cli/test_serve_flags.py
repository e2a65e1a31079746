"""The flags of headrace serve are those of the programs that it starts."""

import os
import re
import subprocess
import sys
from argparse import ArgumentParser, Namespace

import pytest

from headrace.cli.serve.flags import FLAGS, Program, add_flags, launch_of

ALL_FLAGS = [flag for flags in FLAGS.values() for flag in flags]
# What the command itself gives to the gateway.
OWN = {
    Program.SERVER: set(),
    Program.GATEWAY: {
        "--upstream",
        *(f"--upstream-ssl-{name}" for name in ("ca-certs", "certfile", "keyfile", "server-name")),
    },
}


def known_flags(program):
    """The flags of a program with their defaults, as its help tells them."""
    result = subprocess.run(
        [sys.executable, "-m", program.value, "--help"],
        capture_output=True,
        text=True,
        check=True,
        # So wide that no line is wrapped.
        env={**os.environ, "COLUMNS": "1000"},
        timeout=60,
    )
    flag = r"^  (--[\w-]+)(?:(?!^  --).)*?\(default: ([^)]*)\)$"
    flags = re.findall(flag, result.stdout, re.DOTALL | re.MULTILINE)
    return {flag: short(default.removesuffix(".0")) for flag, default in flags}


def short(default):
    """A default without what it means, for which each program has words of its own."""
    return "none" if default.startswith("none, ") else default


@pytest.mark.parametrize("program", Program)
def test_every_flag_of_a_program_is_passed_on(program):
    """The table has every flag of both programs, with the default that the program has."""
    expected = known_flags(program)
    for flag in OWN[program]:
        del expected[flag]
    passed = {
        flag.programs[program]: short(flag.default)
        for flag in ALL_FLAGS
        if program in flag.programs and flag.flag != "--grpc-host"  # the server's --host once more
    }
    assert passed == expected


def test_what_follows_a_key_is_the_model():
    """And no second key, which everybody would know."""
    parser = ArgumentParser()
    add_flags(parser)
    given = parser.parse_args(["--api-key", "one", "--api-key", "two", "tiny"])
    assert (given.api_key, given.model_argument) == (["one", "two"], "tiny")


def arguments_for(program, given):
    return list(launch_of(program, given, {}).arguments)


@pytest.mark.parametrize("program", Program)
def test_keys_go_to_the_programs_by_the_environment(program):
    """A command line can be seen by everybody, so that keys are not on it; the flag wins."""
    given = Namespace(api_key=["first", "second"], api_key_file="keys.txt")
    environment = {"HEADRACE_API_KEY": "old", "HEADRACE_GATEWAY_API_KEY": "old", "HOME": "here"}
    launch = launch_of(program, given, environment)
    assert launch.arguments == ("--api-key-file=keys.txt",)
    assert launch.environment["HEADRACE_API_KEY"] == "first,second"
    assert launch.environment["HOME"] == "here"
    assert "HEADRACE_GATEWAY_API_KEY" not in launch.environment
    assert "first" not in repr(launch)
    assert environment["HEADRACE_API_KEY"] == "old"


def test_without_the_flag_the_environment_is_that_of_the_command():
    """Keys of variables are left to the programs."""
    environment = {"HEADRACE_API_KEY": "one", "HEADRACE_GATEWAY_API_KEY": "two"}
    for program in Program:
        assert launch_of(program, Namespace(), environment).environment == environment


def test_flags_go_to_the_programs_that_know_them():
    """A flag goes to the programs that know it, under the names that it has there."""
    given = Namespace(
        model="-odd-",
        served_model_name=["tiny", "small"],
        host="0.0.0.0",
        port="80",
        grpc_port="81",
        simulated_faults=True,
        other="not passed on",
    )
    assert arguments_for(Program.SERVER, given) == [
        "--model=-odd-",
        "--served-model-name",
        "tiny",
        "small",
        "--host=0.0.0.0",
        "--port=81",
        "--simulated-faults",
    ]
    assert arguments_for(Program.GATEWAY, given) == ["--host=0.0.0.0", "--port=80"]


def test_grpc_may_have_an_address_of_its_own():
    """The server is told both addresses; the last one, that of gRPC alone, holds."""
    given = Namespace(host="0.0.0.0", grpc_host="127.0.0.2")
    assert arguments_for(Program.SERVER, given) == ["--host=0.0.0.0", "--host=127.0.0.2"]
    assert arguments_for(Program.GATEWAY, given) == ["--host=0.0.0.0"]


def test_flags_that_are_not_given_are_not_passed_on():
    """What is not given is left to the programs, with their environment and defaults."""
    assert arguments_for(Program.SERVER, Namespace()) == []
