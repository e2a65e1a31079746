"""The configuration: read from flags, environment and file, checked before anything starts."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from headrace_server.backends.native import AdmissionLimits, SupervisionLimits
from headrace_server.certificates import TlsConfig
from headrace_server.config_file import ConfigFileError, read_config_file
from headrace_server.engine.settings import EngineSettings, SimulatedSettings
from headrace_server.flag_values import FlagValueError
from headrace_server.flags import BACKEND, CONFIG, FLAGS
from headrace_server.metrics import MetricsConfig
from headrace_server.rpc.channel_options import ConnectionConfig
from headrace_server.text.parsing.formats import ToolCallFormat
from headrace_server.variables import find_unknown_variable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace_server.api_keys import ApiKey
    from headrace_server.flag import Flag

DEFAULT_MODEL_NAME: Final = "smollm2-135m-instruct"
SIMULATED_MODEL_NAME: Final = "simulated"

_EPILOG: Final = """\
Each flag has an environment variable of the same name, such as
HEADRACE_MAX_NUM_SEQS, but --host and --port have HEADRACE_GRPC_HOST and
HEADRACE_GRPC_PORT, and are grpc-host (or host) and grpc-port in a file. A flag
wins over a variable, and a variable over the file. Lists are separated by
commas in variables.

When the port is open, when the engine changes its state, and when the model is
ready, a line of JSON goes to stdout (unless it is a terminal) for the program
that started the server:
  {"event": "listening", "address": "127.0.0.1:1920"}
  {"event": "engine", "state": "loading", "detail": "converting weights, 40 %"}
  {"event": "ready", "address": "127.0.0.1:1920", "model": "tiny", …}

Exit status: 0 after SIGTERM or Ctrl-C, 1 if the server could not start, 2 for a
wrong setting.
"""


@dataclass(frozen=True, slots=True)
class RpcConfig:
    """The gRPC front.

    Args:
        host: a name or an address of this machine.
        port: 0 lets the system choose.
        tls: None speaks plain text.
        unix_socket: listened on, too; always plain text.
        stall_seconds: the longest time that a client may leave a response unread.
        connection: how connections are bounded and watched.
    """

    host: str
    port: int
    tls: TlsConfig | None
    unix_socket: Path | None
    stall_seconds: float
    connection: ConnectionConfig

    @property
    def asks_for_certificates(self) -> bool:
        """Whether clients of the port must show a certificate."""
        return self.tls is not None and self.tls.ca_certs is not None


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """Who may call.

    Args:
        api_keys: those that are given as such.
        api_key_file: has more of them, see `api_keys`; None for none.
    """

    api_keys: tuple[ApiKey, ...]
    api_key_file: Path | None

    @property
    def has_keys(self) -> bool:
        """Whether callers need one."""
        return bool(self.api_keys) or self.api_key_file is not None


@dataclass(frozen=True, slots=True)
class ShutdownConfig:
    """The end of the server.

    Args:
        lame_duck_seconds: the shortest time in which new calls are told that the server
            is about to stop, also when nothing is running.
        timeout_seconds: the longest wait for the calls that are running.
    """

    lame_duck_seconds: float
    timeout_seconds: float


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The logs; see `telemetry.set_up_logging`."""

    level: str
    form: str


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that the server is told; each part gets its own section.

    Args:
        served_names: at least one; the first is the model's name, the others are aliases.
        chat_template_file: in place of the model's own; None keeps that.
        tool_call_format: in which the model calls tools; None goes by its template.
        seed: makes answers repeatable, see `text.seeds`; None does not.
        metrics: None serves none.
    """

    served_names: tuple[str, ...]
    chat_template_file: Path | None
    tool_call_format: ToolCallFormat | None
    seed: int | None
    engine: EngineSettings
    admission: AdmissionLimits
    supervision: SupervisionLimits
    rpc: RpcConfig
    access: AccessConfig
    metrics: MetricsConfig | None
    shutdown: ShutdownConfig
    log: LogConfig


def read_config(
    arguments: Sequence[str] | None = None, environment: Mapping[str, str] | None = None
) -> Config:
    """Read the configuration.

    Args:
        arguments: the command line without the program; None takes this process's.
        environment: None takes this process's.

    Raises:
        SystemExit: with status 0 after --help; with status 2 after one sentence on stderr
            about a flag, variable or line of the file that is unknown, malformed or without
            effect.
    """
    parser = _build_parser()
    given = vars(parser.parse_args(sys.argv[1:] if arguments is None else arguments))
    names = {flag.key: flag.name for flag in _flags() if flag.key in given}
    _take_environment(parser, given, names, os.environ if environment is None else environment)
    if CONFIG.key in given:
        _take_file(parser, given, names)
    values = {flag.key: given.get(flag.key, flag.default) for flag in _flags()}
    for flag in _flags():
        if flag.key in given and flag.backend not in (None, values[BACKEND.key]):
            parser.error(
                f"{names[flag.key]} has no effect with --backend {values[BACKEND.key]}; remove it"
            )
    _check_tls(parser, given, names)
    if "metrics_host" in given and values["metrics_port"] is None:
        parser.error(f"{names['metrics_host']} has no effect without --metrics-port; add that")
    max_num_tokens = values["max_num_batched_tokens"]
    if max_num_tokens is not None and max_num_tokens < values["max_num_seqs"]:
        parser.error(
            f"--max-num-batched-tokens ({max_num_tokens}) must be at least "
            f"--max-num-seqs ({values['max_num_seqs']})"
        )
    return _to_config(values)


class _Parser(argparse.ArgumentParser):
    """Ends with one sentence instead of the usage."""

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            message = f"there is no flag {unknown}; see --help"
        self.exit(2, f"{self.prog}: {message.removeprefix('argument ')}\n")


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="headrace-server",
        usage="headrace-server [flags]",
        description="Serve a language model over gRPC, streaming.",
        epilog=_EPILOG,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"headrace {version('headrace')}")
    for title, flags in FLAGS.items():
        group = parser.add_argument_group(title)
        for flag in flags:
            default = flag.default
            shown = flag.shown_default or (
                f"{default:g}" if isinstance(default, float) else default
            )
            text = f"{flag.help} (default: {shown})".replace("%", "%%")
            common: dict[str, Any] = {"default": argparse.SUPPRESS, "help": text}
            if flag.metavar is None:
                group.add_argument(flag.name, action="store_true", **common)
                continue
            common |= {"type": flag.read, "metavar": flag.metavar}
            if flag.is_repeated:
                group.add_argument(flag.name, action="append", **common)
            else:
                group.add_argument(flag.name, nargs="+" if flag.is_list else None, **common)
    return parser


def _flags() -> list[Flag]:
    return [flag for flags in FLAGS.values() for flag in flags]


def _take_environment(
    parser: argparse.ArgumentParser,
    given: dict[str, Any],
    names: dict[str, str],
    environment: Mapping[str, str],
) -> None:
    """Add what only the environment gives, with the variable as its name for errors."""
    unknown = find_unknown_variable(environment, {flag.variable for flag in _flags()})
    if unknown is not None:
        parser.error(unknown)
    for flag in _flags():
        text = environment.get(flag.variable, "")
        if flag.key in given or not text:
            continue
        try:
            if flag.is_list:
                given[flag.key] = [flag.read(part.strip()) for part in text.split(",")]
            else:
                given[flag.key] = flag.read(text)
        except FlagValueError as error:
            parser.error(f"{flag.variable}: {error}")
        names[flag.key] = flag.variable


def _take_file(
    parser: argparse.ArgumentParser, given: dict[str, Any], names: dict[str, str]
) -> None:
    """Add what only the file gives, with the file and the name there as its name for errors."""
    path: Path = given[CONFIG.key]
    flags = [flag for flag in _flags() if flag is not CONFIG]
    try:
        settings = read_config_file(path, {name for flag in flags for name in flag.names_in_file})
    except ConfigFileError as error:
        parser.error(str(error))
    for flag in flags:
        name = next((name for name in flag.names_in_file if name in settings), None)
        if name is None:
            continue
        source = f"{path}: {name}"
        try:
            value = _read_file_value(flag, settings[name])
        except FlagValueError as error:
            parser.error(f"{source}: {error}")
        if flag.key not in given:
            given[flag.key], names[flag.key] = value, source


def _read_file_value(flag: Flag, value: str | tuple[str, ...]) -> Any:
    parts = (value,) if isinstance(value, str) else value
    if flag.is_list:
        return [flag.read(part) for part in parts]
    if not isinstance(value, str):
        raise FlagValueError("takes one value, not a list")
    return flag.read(value)


def _to_config(values: Mapping[str, Any]) -> Config:
    is_simulated = values[BACKEND.key] == "simulated"
    timeout_seconds = values["engine_heartbeat_timeout"]
    return Config(
        served_names=tuple(dict.fromkeys(values["served_model_name"] or [_default_name(values)])),
        chat_template_file=values["chat_template"],
        tool_call_format=_to_call_format(values["tool_call_parser"]),
        seed=values["seed"],
        engine=EngineSettings(
            runner="simulated" if is_simulated else "torch",
            model=values["model"],
            device=values["device"],
            dtype=values["dtype"],
            quantization=values["quantization"],
            num_threads=values["num_threads"],
            max_context_length=values["max_model_len"],
            max_num_sequences=values["max_num_seqs"],
            max_num_batched_tokens=values["max_num_batched_tokens"],
            kv_cache_bytes=values["kv_cache_bytes"],
            prefix_cache=values["prefix_cache"],
            log_level=values["log_level"],
            log_format=values["log_format"],
            simulated=SimulatedSettings(
                step_seconds=values["simulated_step_seconds"],
                load_seconds=values["simulated_load_seconds"],
                faults=values["simulated_faults"],
            ),
        ),
        admission=AdmissionLimits(
            max_queued_requests=values["max_queued_requests"],
            max_queued_tokens=values["max_queued_tokens"],
        ),
        supervision=SupervisionLimits(
            step_timeout_seconds=timeout_seconds,
            idle_timeout_seconds=min(timeout_seconds, SupervisionLimits().idle_timeout_seconds),
        ),
        rpc=RpcConfig(
            host=values["host"],
            port=values["port"],
            tls=_to_tls(values),
            unix_socket=values["unix_socket"],
            stall_seconds=values["stall_timeout"],
            connection=ConnectionConfig(),
        ),
        access=AccessConfig(tuple(values["api_key"] or ()), values["api_key_file"]),
        metrics=_to_metrics(values),
        shutdown=ShutdownConfig(values["lame_duck"], values["shutdown_timeout"]),
        log=LogConfig(values["log_level"], values["log_format"]),
    )


def _check_tls(
    parser: argparse.ArgumentParser, given: Mapping[str, Any], names: Mapping[str, str]
) -> None:
    """Refuse a part of what TLS needs."""
    pair = ("ssl_certfile", "ssl_keyfile")
    missing = [key for key in pair if key not in given]
    for key in (*pair, "ssl_ca_certs"):
        if key in given and missing:
            flags = " and ".join(f"--{name.replace('_', '-')}" for name in missing)
            parser.error(f"{names[key]} has no effect without {flags}; add that")


def _to_tls(values: Mapping[str, Any]) -> TlsConfig | None:
    if values["ssl_certfile"] is None:
        return None
    return TlsConfig(values["ssl_certfile"], values["ssl_keyfile"], values["ssl_ca_certs"])


def _to_call_format(name: str) -> ToolCallFormat | None:
    return None if name == "auto" else ToolCallFormat(name)


def _to_metrics(values: Mapping[str, Any]) -> MetricsConfig | None:
    port = values["metrics_port"]
    return None if port is None else MetricsConfig(values["metrics_host"], port)


def _default_name(values: Mapping[str, Any]) -> str:
    """The name of a model whose user gave it none."""
    model: str = values["model"]
    if values[BACKEND.key] == "simulated":
        return SIMULATED_MODEL_NAME
    if model == "default":
        return DEFAULT_MODEL_NAME
    path = Path(model)
    if not path.is_absolute():
        return model
    return path.stem if path.is_file() else path.name
