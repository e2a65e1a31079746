"""The settings of the gateway: their flags, their variables and what their values may be."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OWN_PREFIX = "HEADRACE_GATEWAY_"
SHARED_PREFIX = "HEADRACE_"
"""``--log-level`` has the twins ``HEADRACE_GATEWAY_LOG_LEVEL``, for the gateway alone, and
``HEADRACE_LOG_LEVEL``. The flag wins, then the longer name, then the shorter one, then the file.
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting.

    `read` turns text into a value or raises ValueError with the rule that was broken.

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
        """The flag without its dashes."""
        return self.flag.removeprefix("--")

    @property
    def variables(self) -> tuple[str, str]:
        """The variable of the gateway alone, and the shared one."""
        name = self.name_in_file.replace("-", "_").upper()
        return OWN_PREFIX + name, SHARED_PREFIX + name


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


_DAY_SECONDS: Final = 86_400.0

SETTINGS: Final[Mapping[str, tuple[Setting, ...]]] = {
    "endpoint": (
        Setting(
            "host",
            "--host",
            "ADDRESS",
            _host,
            "the address to listen on; 0.0.0.0 opens the gateway to the network, where anyone may "
            "use it: there are no keys and no encryption yet",
        ),
        Setting(
            "port", "--port", "N", _integer(0, 65535), "the port of HTTP; 0 chooses a free one"
        ),
        Setting(
            "upstream", "--upstream", "HOST:PORT", _address, "the Headrace server's gRPC address"
        ),
        Setting(
            "cors_origins",
            "--cors-origins",
            "ORIGINS",
            _origins,
            "the web pages that may use the API: localhost, none, *, or origins with commas",
            takes_list=True,
        ),
        Setting("no_ui", "--no-ui", None, _switch, "do not serve the pages at / and /docs"),
    ),
    "limits": (
        Setting(
            "max_connections",
            "--max-connections",
            "N",
            _integer(1, 1_000_000),
            "the most connections of clients; what is over is answered with 503",
        ),
        Setting(
            "max_body_bytes",
            "--max-body-bytes",
            "BYTES",
            _integer(1024, 1 << 30),
            "the largest request body, unpacked; the server has a limit of its own",
        ),
    ),
    "times": (
        Setting(
            "shutdown_timeout_seconds",
            "--shutdown-timeout",
            "SECONDS",
            _seconds(0, _DAY_SECONDS),
            "how long running requests may go on after SIGTERM or Ctrl-C; a second one stops at "
            "once",
        ),
        Setting(
            "write_timeout_seconds",
            "--write-timeout",
            "SECONDS",
            _seconds(0.001, _DAY_SECONDS),
            "the longest time that a client may not read its answer before it is dropped",
        ),
        Setting(
            "body_timeout_seconds",
            "--body-timeout",
            "SECONDS",
            _seconds(0.001, _DAY_SECONDS),
            "the longest time that a request body may take to arrive",
        ),
        Setting(
            "request_timeout_seconds",
            "--request-timeout",
            "SECONDS",
            _seconds(0.001, _DAY_SECONDS),
            "the longest time for an answer; clients may ask for less with X-Request-Timeout",
        ),
        Setting(
            "keep_alive_interval_seconds",
            "--keep-alive-interval",
            "SECONDS",
            _seconds(0.01, _DAY_SECONDS),
            "the silence in a stream after which a comment is sent, so that proxies keep it open",
        ),
    ),
    "logs": (
        Setting(
            "log_level",
            "--log-level",
            "LEVEL",
            _one_of("debug", "info", "warning", "error"),
            "the least important events to log; requests are info",
        ),
        Setting(
            "log_format",
            "--log-format",
            "FORMAT",
            _one_of("auto", "json", "text"),
            "json for programs, text for people; auto is text on a terminal",
        ),
    ),
    "configuration": (
        Setting(
            "config",
            "--config",
            "FILE",
            _file,
            "a TOML or YAML file with the flags of headrace serve, such as max-body-bytes: "
            "1048576; flags and variables win over it",
        ),
    ),
}
