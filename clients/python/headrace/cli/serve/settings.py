"""What `headrace serve` itself wants to know of the settings that it passes on."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Settings:
    """What flags, variables and the file say together; the programs check it.

    Args:
        log_format: ``auto``, ``text`` or ``json``.
        log_level: ``debug``, ``info``, ``warning`` or ``error``.
        has_keys: callers need a key.
        certfile: of both ports; None where there is no TLS.
        keyfile: of its key.
        wants_certificates: clients need a certificate.
        unix_socket: on which the server listens, too.
    """

    log_format: str = "auto"
    log_level: str = "info"
    has_keys: bool = False
    certfile: str | None = None
    keyfile: str | None = None
    wants_certificates: bool = False
    unix_socket: str | None = None


def read_settings(given: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """Read them as the programs do: a flag wins over a variable, a variable over the file."""
    sources = [
        {name.replace("_", "-"): value for name, value in vars(given).items()},
        {
            name.removeprefix("HEADRACE_").replace("_", "-").lower(): value
            for name, value in environment.items()
            if name.startswith("HEADRACE_") and value
        },
    ]
    file = _first("config", sources)
    if file is not None:
        sources.append(_read_file(Path(file)))
    return Settings(
        log_format=_first("log-format", sources) or "auto",
        log_level=_first("log-level", sources) or "info",
        has_keys=any(_first(name, sources) for name in ("api-key", "api-key-file")),
        certfile=_first("ssl-certfile", sources),
        keyfile=_first("ssl-keyfile", sources),
        wants_certificates=_first("ssl-ca-certs", sources) is not None,
        unix_socket=_first("unix-socket", sources),
    )


def _first(name: str, sources: list[dict[str, object]]) -> str | None:
    return next((str(source[name]) for source in sources if source.get(name)), None)


def _read_file(path: Path) -> dict[str, object]:
    """Return the lines of the file; none where the programs will say what is wrong with it."""
    import yaml  # a package of the programs

    try:
        text = path.read_text(encoding="utf-8")
        read = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError):
        return {}
    if not isinstance(read, dict):
        return {}
    return {str(name).replace("_", "-"): value for name, value in read.items()}
