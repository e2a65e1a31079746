"""The settings of the gateway, read once from flags, their environment twins and a file."""

from __future__ import annotations

import argparse
import math
import re
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace_gateway.config_file import ConfigFileError, read_config_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

OWN_PREFIX = "HEADRACE_GATEWAY_"
SHARED_PREFIX = "HEADRACE_"
"""``--log-level`` has the twins ``HEADRACE_GATEWAY_LOG_LEVEL``, for the gateway alone, and
``HEADRACE_LOG_LEVEL``. The flag wins, then the longer name, then the shorter one, then the file.
"""


# Kubernetes tells containers of each Service, and one may be called headrace-gateway:
# https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
_SERVICE_LINK = re.compile(
    r"\w+_SERVICE_(HOST|PORT(_\w+)?)|\w+_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
)


class ConfigError(Exception):
    """A setting is unknown or bad: one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The settings of the gateway; the flags of the same names describe them."""

    host: str = "127.0.0.1"
    port: int = 1919
    upstream: str = "127.0.0.1:1920"
    max_body_bytes: int = 8 * 1024 * 1024
    max_connections: int = 1000
    body_timeout_seconds: float = 60.0
    write_timeout_seconds: float = 30.0
    keep_alive_interval_seconds: float = 15.0
    request_timeout_seconds: float | None = None
    shutdown_timeout_seconds: float = 30.0
    cors_origins: tuple[str, ...] = ("localhost",)
    no_ui: bool = False
    log_level: str = "info"
    log_format: str = "auto"
    config: Path | None = None


def read_config(arguments: Sequence[str], environment: Mapping[str, str]) -> GatewayConfig:
    """Read the settings.

    Args:
        arguments: the command line without the name of the program.
        environment: of the process.

    Raises:
        ConfigError: a setting is unknown or bad.
        SystemExit: help or the version was asked for and printed.
    """
    flags = vars(_parser().parse_args(arguments))
    values: dict[str, Any] = {name: value for name, value in flags.items() if value is not None}
    for setting in _SETTINGS:
        for variable in _twins(setting):
            text = environment.get(variable)
            if text and setting.name not in values:
                values[setting.name] = _read(setting, variable, text)
    _refuse_unknown_variables(environment)
    if "config" in values:
        values = {**_read_file(values["config"]), **values}
    return GatewayConfig(**values)


def _read_file(path: Path) -> dict[str, Any]:
    settings = {setting.name_in_file: setting for setting in _SETTINGS if setting.name != "config"}
    try:
        texts = read_config_file(path, settings)
    except ConfigFileError as error:
        raise ConfigError(str(error)) from error
    values: dict[str, Any] = {}
    for name, value in texts.items():
        source, setting = f"{path}: {name}", settings[name]
        parts = (value,) if isinstance(value, str) else value
        if not (isinstance(value, str) or setting.takes_list):
            raise ConfigError(f"{source}: takes one value, not a list")
        values[setting.name] = _read(setting, source, ",".join(parts))
    return values


@dataclass(frozen=True, slots=True)
class _Setting:
    """`read` turns text into a value or raises ValueError with the rule that was broken.

    A flag without a metavar is a switch. One that takes a list has commas between its values.
    """

    name: str
    flag: str
    metavar: str | None
    read: Callable[[str], object]
    help: str
    takes_list: bool = False

    @property
    def name_in_file(self) -> str:
        return self.flag.removeprefix("--")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            message = f"there is no flag {unknown}; see --help"
        raise ConfigError(message.removeprefix("argument "))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="headrace-gateway",
        description="Serve OpenAI-style HTTP in front of a Headrace server.",
        epilog="Each flag has environment twins: --log-level is also HEADRACE_GATEWAY_LOG_LEVEL, "
        "for the gateway alone, and HEADRACE_LOG_LEVEL. The flag wins, then the longer name, then "
        "the shorter one, then the file. Once the port is open, one "
        'line of JSON on the standard output says where: {"event": "listening", …}.',
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"headrace {version('headrace')}")
    defaults = {field.name: field.default for field in fields(GatewayConfig)}
    for setting in _SETTINGS:
        text = f"{setting.help} (default: {_show(defaults[setting.name])})"
        if setting.metavar is None:
            parser.add_argument(
                setting.flag, dest=setting.name, action="store_const", const=True, help=text
            )
        else:
            parser.add_argument(
                setting.flag,
                dest=setting.name,
                metavar=setting.metavar,
                type=_argument_type(setting),
                help=text,
            )
    return parser


def _argument_type(setting: _Setting) -> Callable[[str], object]:
    def read(text: str) -> object:
        return _read(setting, setting.flag, text)

    return read


def _read(setting: _Setting, source: str, text: str) -> object:
    try:
        return setting.read(text)
    except ValueError as error:
        raise ConfigError(f"{source}: {text!r} must be {error}") from None


def _refuse_unknown_variables(environment: Mapping[str, str]) -> None:
    known = {_twins(setting)[0] for setting in _SETTINGS}
    for name in environment:
        is_own = name.startswith(OWN_PREFIX) and not _SERVICE_LINK.fullmatch(name)
        if is_own and name not in known:
            raise ConfigError(f"{name} is no setting; the settings are {', '.join(sorted(known))}")


def _twins(setting: _Setting) -> tuple[str, str]:
    name = setting.flag.removeprefix("--").replace("-", "_").upper()
    return OWN_PREFIX + name, SHARED_PREFIX + name


def _show(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _integer(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text) or not low <= int(text) <= high:
            raise ValueError(f"an integer from {low} to {high}")
        return int(text)

    return read


def _seconds(low: float, high: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        rule = f"a number of seconds from {low:g} to {high:g}"
        try:
            value = float(text)
        except ValueError:
            raise ValueError(rule) from None
        if not math.isfinite(value) or not low <= value <= high:
            raise ValueError(rule)
        return value

    return read


def _address(text: str) -> str:
    match = re.fullmatch(r"(\[[0-9a-fA-F:.%]+\]|[^\s:/\[\]]+):(\d{1,5})", text)
    if not match or not 0 < int(match[2]) < 65536:
        raise ValueError("an address such as 127.0.0.1:1920")
    return text


def _host(text: str) -> str:
    if not re.fullmatch(r"[^\s/\[\]]+", text):
        raise ValueError("a host name or an IP address without a port, such as 127.0.0.1")
    return text


def _origins(text: str) -> tuple[str, ...]:
    origins = tuple(part.strip().rstrip("/") for part in text.split(","))
    for origin in origins:
        if not re.fullmatch(r"\*|none|localhost|[a-z][a-z0-9+.-]*://[^\s/,]*", origin):
            raise ValueError(
                "localhost, none, * or origins such as https://chat.example.com, with commas"
            )
    return origins


def _file(text: str) -> Path:
    path = Path(text).expanduser()
    if path.suffix not in (".toml", ".yaml", ".yml") or not path.is_file():
        raise ValueError("an existing file that ends in .toml, .yaml or .yml")
    return path


def _switch(text: str) -> bool:
    match text.lower():
        case "1" | "true" | "yes" | "on":
            return True
        case "0" | "false" | "no" | "off":
            return False
        case _:
            raise ValueError("true or false")


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"{', '.join(choices[:-1])} or {choices[-1]}")
        return text

    return read


_DAY_SECONDS = 86_400.0

_SETTINGS = (
    _Setting(
        "host",
        "--host",
        "ADDRESS",
        _host,
        "the address to listen on; 0.0.0.0 opens the gateway to the network, where anyone may use "
        "it: there are no keys and no encryption yet",
    ),
    _Setting("port", "--port", "N", _integer(0, 65535), "the port of HTTP; 0 chooses a free one"),
    _Setting("upstream", "--upstream", "HOST:PORT", _address, "the Headrace server's gRPC address"),
    _Setting(
        "max_body_bytes",
        "--max-body-bytes",
        "BYTES",
        _integer(1024, 1 << 30),
        "the largest request body, unpacked; the server has a limit of its own",
    ),
    _Setting(
        "max_connections",
        "--max-connections",
        "N",
        _integer(1, 1_000_000),
        "the most connections of clients; what is over is answered with 503",
    ),
    _Setting(
        "body_timeout_seconds",
        "--body-timeout",
        "SECONDS",
        _seconds(0.001, _DAY_SECONDS),
        "the longest time that a request body may take to arrive",
    ),
    _Setting(
        "write_timeout_seconds",
        "--write-timeout",
        "SECONDS",
        _seconds(0.001, _DAY_SECONDS),
        "the longest time that a client may not read its answer before it is dropped",
    ),
    _Setting(
        "keep_alive_interval_seconds",
        "--keep-alive-interval",
        "SECONDS",
        _seconds(0.01, _DAY_SECONDS),
        "the silence in a stream after which a comment is sent, so that proxies keep it open",
    ),
    _Setting(
        "request_timeout_seconds",
        "--request-timeout",
        "SECONDS",
        _seconds(0.001, _DAY_SECONDS),
        "the longest time for an answer; clients may ask for less with X-Request-Timeout",
    ),
    _Setting(
        "shutdown_timeout_seconds",
        "--shutdown-timeout",
        "SECONDS",
        _seconds(0, _DAY_SECONDS),
        "how long running requests may go on after SIGTERM or Ctrl-C; a second one stops at once",
    ),
    _Setting(
        "cors_origins",
        "--cors-origins",
        "ORIGINS",
        _origins,
        "the web pages that may use the API: localhost, none, *, or origins with commas",
        takes_list=True,
    ),
    _Setting("no_ui", "--no-ui", None, _switch, "do not serve the pages at / and /docs"),
    _Setting(
        "log_level",
        "--log-level",
        "LEVEL",
        _one_of("debug", "info", "warning", "error"),
        "the least important events to log; requests are info",
    ),
    _Setting(
        "log_format",
        "--log-format",
        "FORMAT",
        _one_of("auto", "json", "text"),
        "json for programs, text for people; auto is text on a terminal",
    ),
    _Setting(
        "config",
        "--config",
        "FILE",
        _file,
        "a TOML or YAML file with the flags of headrace serve, such as max-body-bytes: 1048576; "
        "flags and variables win over it",
    ),
)
