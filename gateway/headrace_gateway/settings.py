"""The settings of the gateway: their flags, their variables and what their values may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace_gateway.flag_values import (
    api_key,
    config_file,
    file,
    host,
    host_name,
    one_of,
    origins,
    seconds,
    switch,
    trusted_roots,
    upstream,
    whole_number,
)

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

    Args:
        name: that of its field in `GatewayConfig`.
        flag: with its dashes.
        metavar: what stands for the value in the help; None for a switch.
        read: turns the text of a value into the value, or raises `FlagValueError`.
        help: what it is for.
        has_commas: its value is a list with commas, which may be a list in a file.
        is_list: its flag is given once for each value, its variable has commas between them.
    """

    name: str
    flag: str
    metavar: str | None
    read: Callable[[str], object]
    help: str
    has_commas: bool = False
    is_list: bool = False

    @property
    def name_in_file(self) -> str:
        """The flag without its dashes."""
        return self.flag.removeprefix("--")

    @property
    def variables(self) -> tuple[str, str]:
        """The variable of the gateway alone, and the shared one."""
        name = self.name_in_file.replace("-", "_").upper()
        return OWN_PREFIX + name, SHARED_PREFIX + name


SETTINGS: Final[Mapping[str, tuple[Setting, ...]]] = {
    "endpoint": (
        Setting(
            "host",
            "--host",
            "ADDRESS",
            host,
            "the address to listen on; 0.0.0.0 opens the gateway to the network, where anyone may "
            "use it without --api-key, and read along without --ssl-certfile",
        ),
        Setting(
            "port", "--port", "N", whole_number(0, 65535), "the port of HTTP; 0 chooses a free one"
        ),
        Setting(
            "upstream",
            "--upstream",
            "ADDRESS",
            upstream,
            "the Headrace server: host and port of its gRPC, or unix:/path of its socket",
        ),
        Setting(
            "cors_origins",
            "--cors-origins",
            "ORIGINS",
            origins,
            "the web pages that may use the API: localhost, none, *, or origins with commas",
            has_commas=True,
        ),
        Setting("no_ui", "--no-ui", None, switch, "do not serve the pages at / and /docs"),
    ),
    "security": (
        Setting(
            "api_keys",
            "--api-key",
            "KEY",
            api_key,
            "a key that callers need; it can be given several times; the variable has commas "
            "between keys, and hides them from the list of processes",
            is_list=True,
        ),
        Setting(
            "api_key_file",
            "--api-key-file",
            "FILE",
            file,
            "more of them, with names: lines such as alice KEY or alice sha256:HEX; read again "
            "when it changes",
        ),
        Setting(
            "ssl_certfile",
            "--ssl-certfile",
            "FILE",
            file,
            "serve HTTPS with this certificate, in PEM, with those between it and a root; read "
            "again when it changes",
        ),
        Setting(
            "ssl_keyfile",
            "--ssl-keyfile",
            "FILE",
            file,
            "the private key of that certificate, in PEM, without a passphrase",
        ),
        Setting(
            "ssl_ca_certs",
            "--ssl-ca-certs",
            "FILE",
            file,
            "take clients only that have a certificate signed by one of these",
        ),
        Setting(
            "upstream_ssl_ca_certs",
            "--upstream-ssl-ca-certs",
            "FILE",
            trusted_roots,
            "encrypt the way to the server, whose certificate must be signed by one of these; "
            "system takes those that this machine trusts",
        ),
        Setting(
            "upstream_ssl_certfile",
            "--upstream-ssl-certfile",
            "FILE",
            file,
            "the certificate to show to the server, in PEM",
        ),
        Setting(
            "upstream_ssl_keyfile",
            "--upstream-ssl-keyfile",
            "FILE",
            file,
            "the private key of that certificate, in PEM, without a passphrase",
        ),
        Setting(
            "upstream_ssl_server_name",
            "--upstream-ssl-server-name",
            "NAME",
            host_name,
            "the name in the server's certificate, where it is not that of --upstream",
        ),
    ),
    "limits": (
        Setting(
            "max_connections",
            "--max-connections",
            "N",
            whole_number(1, 1_000_000),
            "the most connections of clients; what is over is answered with 503",
        ),
        Setting(
            "max_body_bytes",
            "--max-body-bytes",
            "BYTES",
            whole_number(1024, 1 << 30),
            "the largest request body, unpacked; the server has a limit of its own",
        ),
    ),
    "times": (
        Setting(
            "shutdown_timeout_seconds",
            "--shutdown-timeout",
            "SECONDS",
            seconds(0),
            "how long running requests may go on after SIGTERM or Ctrl-C; a second one stops at "
            "once",
        ),
        Setting(
            "write_timeout_seconds",
            "--write-timeout",
            "SECONDS",
            seconds(0.001),
            "the longest time that a client may not read its answer before it is dropped",
        ),
        Setting(
            "body_timeout_seconds",
            "--body-timeout",
            "SECONDS",
            seconds(0.001),
            "the longest time that a request body may take to arrive",
        ),
        Setting(
            "request_timeout_seconds",
            "--request-timeout",
            "SECONDS",
            seconds(0.001),
            "the longest time for an answer; clients may ask for less with X-Request-Timeout",
        ),
        Setting(
            "keep_alive_interval_seconds",
            "--keep-alive-interval",
            "SECONDS",
            seconds(0.01),
            "the silence in a stream after which a comment is sent, so that proxies keep it open",
        ),
    ),
    "logs": (
        Setting(
            "log_level",
            "--log-level",
            "LEVEL",
            one_of("debug", "info", "warning", "error"),
            "the least important events to log; requests are info",
        ),
        Setting(
            "log_format",
            "--log-format",
            "FORMAT",
            one_of("auto", "json", "text"),
            "json for programs, text for people; auto is text on a terminal",
        ),
    ),
    "configuration": (
        Setting(
            "config",
            "--config",
            "FILE",
            config_file,
            "a TOML or YAML file with the flags of headrace serve, such as max-body-bytes: "
            "1048576; flags and variables win over it",
        ),
    ),
}
