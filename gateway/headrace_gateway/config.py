"""The settings of the gateway, read once from flags, their environment twins and a file."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, fields
from difflib import get_close_matches
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

from headrace_gateway.certificates import KeyPair
from headrace_gateway.config_file import ConfigFileError, read_config_file
from headrace_gateway.flag_values import FlagValueError
from headrace_gateway.settings import OWN_PREFIX, SETTINGS, Setting

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

    from headrace_gateway.api_keys import ApiKey

# What has an effect with another setting only.
_NEEDS = (
    ("ssl_keyfile", "ssl_certfile"),
    ("ssl_certfile", "ssl_keyfile"),
    ("ssl_ca_certs", "ssl_certfile"),
    ("upstream_ssl_keyfile", "upstream_ssl_certfile"),
    ("upstream_ssl_certfile", "upstream_ssl_keyfile"),
    ("upstream_ssl_certfile", "upstream_ssl_ca_certs"),
    ("upstream_ssl_server_name", "upstream_ssl_ca_certs"),
)

# Kubernetes tells containers of each Service, and one may be called headrace-gateway:
# https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
_SERVICE_LINK = re.compile(
    r"\w+_SERVICE_(HOST|PORT(_\w+)?)|\w+_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?"
)


class ConfigError(Exception):
    """A setting is unknown or bad: one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class ListeningTls:
    """How the gateway shows who it is.

    Args:
        pair: its certificate and the key.
        ca_certs: the file of those who sign clients; None takes clients without a certificate.
    """

    pair: KeyPair
    ca_certs: Path | None = None


@dataclass(frozen=True, slots=True)
class UpstreamTls:
    """How the server is known.

    Args:
        ca_certs: the file of those who sign it, or the system's.
        pair: what is shown to it; None shows nothing.
        server_name: in its certificate; None for that of its address.
    """

    ca_certs: Path | Literal["system"]
    pair: KeyPair | None = None
    server_name: str | None = None


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
    api_keys: tuple[ApiKey, ...] = ()
    api_key_file: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    ssl_ca_certs: Path | None = None
    upstream_ssl_ca_certs: Path | Literal["system"] | None = None
    upstream_ssl_certfile: Path | None = None
    upstream_ssl_keyfile: Path | None = None
    upstream_ssl_server_name: str | None = None
    log_level: str = "info"
    log_format: str = "auto"
    config: Path | None = None

    @property
    def has_keys(self) -> bool:
        """Whether callers are asked for a key."""
        return bool(self.api_keys) or self.api_key_file is not None

    @property
    def tls(self) -> ListeningTls | None:
        """The encryption of the port; None for none."""
        if self.ssl_certfile is None or self.ssl_keyfile is None:
            return None
        return ListeningTls(KeyPair(self.ssl_certfile, self.ssl_keyfile), self.ssl_ca_certs)

    @property
    def upstream_tls(self) -> UpstreamTls | None:
        """The encryption of the way to the server; None for none."""
        if self.upstream_ssl_ca_certs is None:
            return None
        pair = None
        if self.upstream_ssl_certfile is not None and self.upstream_ssl_keyfile is not None:
            pair = KeyPair(self.upstream_ssl_certfile, self.upstream_ssl_keyfile)
        return UpstreamTls(self.upstream_ssl_ca_certs, pair, self.upstream_ssl_server_name)


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
    for setting in _settings():
        for variable in setting.variables:
            text = environment.get(variable)
            if text and setting.name not in values:
                values[setting.name] = _read(setting, variable, text)
    _refuse_unknown_variables(environment)
    if "config" in values:
        values = {**_read_file(values["config"]), **values}
    if "api_keys" in values:
        values["api_keys"] = tuple(values["api_keys"])
    _refuse_without_effect(values)
    return GatewayConfig(**values)


def _read_file(path: Path) -> dict[str, Any]:
    settings = {
        setting.name_in_file: setting for setting in _settings() if setting.name != "config"
    }
    try:
        texts = read_config_file(path, settings)
    except ConfigFileError as error:
        raise ConfigError(str(error)) from error
    values: dict[str, Any] = {}
    for name, value in texts.items():
        source, setting = f"{path}: {name}", settings[name]
        parts = (value,) if isinstance(value, str) else value
        if not (isinstance(value, str) or setting.has_commas or setting.is_list):
            raise ConfigError(f"{source}: takes one value, not a list")
        values[setting.name] = _read(setting, source, ",".join(parts))
    return values


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Any:
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            message = f"there is no flag {unknown}; see --help"
        raise ConfigError(message.removeprefix("argument "))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="headrace-gateway",
        usage="headrace-gateway [flags]",
        description="Serve OpenAI-style HTTP in front of a Headrace server.",
        epilog="Each flag has environment twins: --log-level is also HEADRACE_GATEWAY_LOG_LEVEL, "
        "for the gateway alone, and HEADRACE_LOG_LEVEL. The flag wins, then the longer name, then "
        "the shorter one, then the file. Once the port is open, one "
        'line of JSON on the standard output says where: {"event": "listening", …}.',
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"headrace {version('headrace')}")
    defaults = {field.name: field.default for field in fields(GatewayConfig)}
    for title, settings in SETTINGS.items():
        group = parser.add_argument_group(title)
        for setting in settings:
            text = f"{setting.help} (default: {_show(defaults[setting.name])})"
            common: dict[str, Any] = {"dest": setting.name, "help": text}
            if setting.metavar is None:
                group.add_argument(setting.flag, action="store_const", const=True, **common)
            else:
                common |= {"type": setting.read, "metavar": setting.metavar}
                # Once for each value: nothing that follows a key may be taken for another.
                action = "append" if setting.is_list else "store"
                group.add_argument(setting.flag, action=action, **common)
    return parser


def _settings() -> list[Setting]:
    return [setting for settings in SETTINGS.values() for setting in settings]


def _read(setting: Setting, source: str, text: str) -> object:
    try:
        if setting.is_list:
            return [setting.read(part.strip()) for part in text.split(",")]
        return setting.read(text)
    except FlagValueError as error:
        raise ConfigError(f"{source}: {error}") from None


def _refuse_unknown_variables(environment: Mapping[str, str]) -> None:
    known = {setting.variables[0] for setting in _settings()}
    for name in environment:
        is_own = name.startswith(OWN_PREFIX) and not _SERVICE_LINK.fullmatch(name)
        if is_own and name not in known:
            raise ConfigError(f"{name} is no setting; {_hint(name, known)}")


def _hint(name: str, known: Collection[str]) -> str:
    # Without what all of them begin with, which would make them all alike.
    ends = sorted(each.removeprefix(OWN_PREFIX) for each in known)
    near = get_close_matches(name.removeprefix(OWN_PREFIX), ends, n=1)
    return f"did you mean {OWN_PREFIX}{near[0]}?" if near else "remove it; docs/flags.md lists them"


def _refuse_without_effect(values: Mapping[str, Any]) -> None:
    flags = {setting.name: setting.flag for setting in _settings()}
    for name, needed in _NEEDS:
        if name in values and needed not in values:
            raise ConfigError(f"{flags[name]} has no effect without {flags[needed]}; add that")
    upstream = values.get("upstream", "")
    if upstream.startswith("unix:") and "upstream_ssl_ca_certs" in values:
        raise ConfigError(
            f"--upstream-ssl-ca-certs has no effect with --upstream {upstream}; remove it"
        )


def _show(value: object) -> str:
    if value in (None, ()):
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return ",".join(value) if isinstance(value, tuple) else str(value)
