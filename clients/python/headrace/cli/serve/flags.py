"""The flags of `headrace serve` in one table; each is passed on to the programs that know it."""

from __future__ import annotations

import re
from argparse import SUPPRESS, ArgumentTypeError
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    from headrace.cli.flags import Parser


_KEY = re.compile(r"[!-+\--~]{1,512}")
# It has each variable of the gateway by a longer name, too, which wins.
_GATEWAY_PREFIX = "HEADRACE_GATEWAY_"


class Program(Enum):
    """A program that is started; the value is its package."""

    SERVER = "headrace_server"
    GATEWAY = "headrace_gateway"


@dataclass(frozen=True, slots=True)
class PassedFlag:
    """A flag that is passed on. The programs know its default.

    Args:
        flag: with its dashes.
        programs: the programs that know it, with the name that it has there.
        metavar: what stands for the value in the help; None for a switch.
        help: what it is for.
        default: in words.
        is_list: it takes several values.
        read: checks the value before anything is started; the programs check the others.
        is_secret: it is passed on by its variable, for command lines can be seen by everybody. It
            is given once for each value, so that nothing that follows is taken for one.
    """

    flag: str
    programs: Mapping[Program, str]
    metavar: str | None
    help: str
    default: str
    is_list: bool = False
    read: Callable[[str], str] = str
    is_secret: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that stands for it."""
        return f"HEADRACE_{self.key.upper()}"

    @property
    def key(self) -> str:
        """The name as an identifier."""
        return self.flag.removeprefix("--").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Launch:
    """How a program is started.

    Args:
        program: which.
        arguments: of its command line.
        environment: all of it.
    """

    program: Program
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)  # it may have keys

    def adding(self, *arguments: str) -> Launch:
        """Return the same with more arguments."""
        return replace(self, arguments=(*self.arguments, *arguments))


def port(text: str) -> str:
    """Check a port, for argparse."""
    if not (text.isdecimal() and len(text) <= 5 and int(text) <= 65_535):
        raise ArgumentTypeError(f"{text!r} must be a port from 0 to 65535")
    return text


def api_key(text: str) -> str:
    """Check a key, for argparse, without telling it."""
    if not _KEY.fullmatch(text):
        raise ArgumentTypeError(
            "a key must be 1 to 512 visible ASCII characters without spaces and commas"
        )
    return text


def _server(
    flag: str, metavar: str | None, text: str, default: str, *, is_list: bool = False
) -> PassedFlag:
    return PassedFlag(flag, {Program.SERVER: flag}, metavar, text, default, is_list)


def _gateway(flag: str, metavar: str | None, text: str, default: str) -> PassedFlag:
    return PassedFlag(flag, {Program.GATEWAY: flag}, metavar, text, default)


def _both(flag: str, metavar: str, text: str, default: str) -> PassedFlag:
    return PassedFlag(flag, dict.fromkeys(Program, flag), metavar, text, default)


FLAGS: Mapping[str, tuple[PassedFlag, ...]] = {
    "model": (
        _server(
            "--model",
            "MODEL",
            "a model directory, a GGUF file or a Hub id",
            "SmolLM2-135M-Instruct, which is built in",
        ),
        _server(
            "--served-model-name",
            "NAME",
            "the names that requests may use for it; the first is its name",
            "after the model",
            is_list=True,
        ),
        _server("--max-model-len", "N", "caps the context, in tokens", "the model's own"),
        _server(
            "--seed",
            "N",
            "the same requests in the same order get the same answers",
            "none, answers vary",
        ),
        _server("--chat-template", "FILE", "a Jinja file in place of its own", "the model's own"),
        _server(
            "--tool-call-parser",
            "FORM",
            "the form in which the model calls tools: hermes, llama3_json or mistral; auto goes by "
            "its chat template",
            "auto",
        ),
    ),
    "endpoints": (
        _both(
            "--host",
            "ADDRESS",
            "the address to listen on; 0.0.0.0 opens both ports to the network, where anyone may "
            "use them without --api-key, and read along without --ssl-certfile",
            "127.0.0.1",
        ),
        PassedFlag(
            "--port",
            {Program.GATEWAY: "--port"},
            "N",
            "the port of HTTP; 0 chooses a free one",
            "1919",
            read=port,
        ),
        PassedFlag(
            "--grpc-port",
            {Program.SERVER: "--port"},
            "N",
            "the port of gRPC; 0 chooses a free one",
            "1920",
            read=port,
        ),
        PassedFlag(
            "--grpc-host",
            {Program.SERVER: "--host"},
            "ADDRESS",
            "the address of gRPC, where it is another",
            "that of --host",
        ),
        _server(
            "--unix-socket",
            "PATH",
            "a socket on which gRPC listens, too, without TLS, for this user alone",
            "none",
        ),
        _gateway(
            "--cors-origins",
            "ORIGINS",
            "the web pages that may use the API: localhost, none, *, or origins with commas",
            "localhost",
        ),
        _gateway("--no-ui", None, "do not serve the pages at / and /docs", "off"),
        _server(
            "--metrics-port",
            "N",
            "the port of the server's metrics for Prometheus; 0 chooses a free one",
            "none, metrics are off",
        ),
        _server("--metrics-host", "ADDRESS", "the address that they listen on", "127.0.0.1"),
    ),
    "security": (
        PassedFlag(
            "--api-key",
            dict.fromkeys(Program, "--api-key"),
            "KEY",
            "a key that callers need; it can be given several times; a file or the variable shows "
            "keys to fewer eyes",
            "none, callers need no key",
            read=api_key,
            is_secret=True,
        ),
        _both(
            "--api-key-file",
            "FILE",
            "a file of keys, with a line such as: alice KEY for each; it is read again when it "
            "changes",
            "none",
        ),
        _both(
            "--ssl-certfile",
            "FILE",
            "the certificate of both ports, in PEM, which turns TLS on; it is read again when it "
            "changes",
            "none, there is no TLS",
        ),
        _both("--ssl-keyfile", "FILE", "the private key of the certificate, in PEM", "none"),
        _both(
            "--ssl-ca-certs",
            "FILE",
            "the authorities, one of which must have signed the certificate of each client",
            "none, clients need no certificate",
        ),
    ),
    "engine": (
        _server(
            "--device",
            "DEVICE",
            "where the model runs: cpu, cuda or cuda:N; auto takes the GPU",
            "auto",
        ),
        _server(
            "--dtype",
            "TYPE",
            "auto, float32, bfloat16 or float16; auto takes fp16 on a CPU and bf16 on a GPU",
            "auto",
        ),
        _server(
            "--quantization",
            "FORMAT",
            "how weights are kept on a CPU: auto, none, fp16, int8 or q4; auto takes fp16, unless "
            "--dtype says otherwise",
            "auto",
        ),
        _server("--num-threads", "N", "threads of the model", "one per core"),
    ),
    "memory": (
        _server(
            "--kv-cache-bytes",
            "SIZE",
            "memory for the context of running requests, such as 2GiB",
            "12,288 tokens or one context on a CPU, 90% of what is free on a GPU",
        ),
        _server("--prefix-cache", "on|off", "compute prompts that begin alike once", "on"),
    ),
    "limits": (
        _server("--max-num-seqs", "N", "requests that run together", "64"),
        _server(
            "--max-num-batched-tokens",
            "N",
            "tokens of all requests in one step",
            "256 on a CPU, 8192 on a GPU",
        ),
        _server(
            "--max-queued-requests",
            "N",
            "requests that may wait; more are refused at once",
            "256",
        ),
        _server("--max-queued-tokens", "N", "prompt tokens of all requests that wait", "262144"),
        _gateway("--max-connections", "N", "HTTP connections; more are refused", "1000"),
        _gateway("--max-body-bytes", "BYTES", "largest HTTP request body", "8388608"),
    ),
    "times": (
        _both(
            "--shutdown-timeout",
            "SECONDS",
            "how long the end waits for running answers",
            "30",
        ),
        _server(
            "--lame-duck", "SECONDS", "tell new callers to go elsewhere for at least this long", "0"
        ),
        _server(
            "--engine-heartbeat-timeout",
            "SECONDS",
            "an engine at work that is silent for this long is started again",
            "60",
        ),
        _server("--stall-timeout", "SECONDS", "a gRPC client that reads nothing is dropped", "30"),
        _gateway(
            "--write-timeout", "SECONDS", "an HTTP client that reads nothing is dropped", "30"
        ),
        _gateway("--body-timeout", "SECONDS", "the longest wait for a request body", "60"),
        _gateway("--request-timeout", "SECONDS", "the longest time for an HTTP answer", "none"),
        _gateway(
            "--keep-alive-interval", "SECONDS", "a comment is sent in a silent HTTP stream", "15"
        ),
    ),
    "logs": (
        _both("--log-level", "LEVEL", "debug, info, warning or error, on stderr", "info"),
        _both("--log-format", "FORMAT", "auto, text or json; auto is text on a terminal", "auto"),
    ),
    "configuration": (
        _both(
            "--config",
            "FILE",
            "a TOML or YAML file with these flags, such as max-num-seqs: 32; flags and variables "
            "win over it",
            "none",
        ),
    ),
    "simulation, an engine without a model for tests": (
        _server("--backend", "NAME", "native or simulated", "native"),
        _server("--simulated-step-seconds", "SECONDS", "how long a step takes", "0"),
        _server("--simulated-load-seconds", "SECONDS", "how long loading takes", "0"),
        _server("--simulated-faults", None, "let the fault tokens of its vocabulary act", "off"),
    ),
}


def add_flags(parser: Parser) -> None:
    """Add all flags to a parser; those that are not given are not in its namespace."""
    for title, flags in FLAGS.items():
        group = parser.add_argument_group(title)
        if title == "model":
            group.add_argument(
                "model_argument", nargs="?", metavar="MODEL", help="the same as --model MODEL"
            )
        for flag in flags:
            text = f"{flag.help} (default: {flag.default})".replace("%", "%%")
            common: dict[str, Any] = {"default": SUPPRESS, "help": text}
            if flag.metavar is None:
                group.add_argument(flag.flag, action="store_true", **common)
                continue
            common |= {"type": flag.read, "metavar": flag.metavar}
            if flag.is_secret:
                group.add_argument(flag.flag, action="append", **common)
            else:
                group.add_argument(flag.flag, nargs="+" if flag.is_list else None, **common)


def launch_of(
    program: Program, given: argparse.Namespace, environment: Mapping[str, str]
) -> Launch:
    """Return how a program is started: with the flags that were given and that it knows.

    Args:
        program: which.
        given: the command line.
        environment: of this process.
    """
    variables = dict(environment)
    for flag in (flag for flags in FLAGS.values() for flag in flags if flag.is_secret):
        if program in flag.programs and (values := getattr(given, flag.key, None)):
            variables.pop(_GATEWAY_PREFIX + flag.key.upper(), None)  # the flag wins over it
            variables[flag.variable] = ",".join(values)
    return Launch(program, tuple(_arguments(program, given)), variables)


def _arguments(program: Program, given: argparse.Namespace) -> list[str]:
    arguments: list[str] = []
    for flag in (flag for flags in FLAGS.values() for flag in flags):
        name = flag.programs.get(program)
        value = getattr(given, flag.key, None)
        if name is None or value is None or flag.is_secret:
            continue
        match value:
            case bool():
                arguments.append(name)
            case list():
                arguments += [name, *value]
            case _:
                # One word, so that a value that begins with a dash stays a value.
                arguments.append(f"{name}={value}")
    return arguments
