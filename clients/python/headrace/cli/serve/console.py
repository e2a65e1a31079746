"""What `headrace serve` tells the person at the terminal."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.cli.serve.certificate import Certificate

# Where the commands look by themselves.
_DEFAULT_TARGETS = ("localhost:1920", "127.0.0.1:1920", "[::1]:1920")
_QUESTION = "What is the capital of France?"
_BEGINNING = "Once upon a time"
# A story may otherwise go on until the context is full.
_MAX_TOKENS = 60
_ANY_ADDRESS = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}  # noqa: S104 - not bound here


@dataclass(frozen=True, slots=True)
class Service:
    """What is served.

    Args:
        model: its name.
        aliases: its other names.
        context_length: in tokens.
        can_chat: the model converses.
        num_kv_tokens: what the KV cache holds.
        http_url: of the gateway, such as ``http://127.0.0.1:1919``.
        has_page: the gateway has the chat page.
        grpc_address: of the server, as ``host:port``.
    """

    model: str
    aliases: tuple[str, ...]
    context_length: int
    can_chat: bool
    num_kv_tokens: int
    http_url: str
    has_page: bool
    grpc_address: str


@dataclass(frozen=True, slots=True)
class Security:
    """What callers need.

    Args:
        has_keys: a key.
        certificate: of the server, to be trusted; None for no TLS.
        certfile: its file.
        wants_certificates: one of their own.
    """

    has_keys: bool = False
    certificate: Certificate | None = None
    certfile: str = ""
    wants_certificates: bool = False

    def flags(self, trust: str, certificate: str, key: str) -> str:
        """Return the flags for TLS of a command that has these names for them."""
        flags = ""
        if self.certificate is not None and not self.certificate.is_trusted:
            flags += f" {trust} {_short_path(self.certfile)}"
        if self.wants_certificates:
            flags += f" {certificate} CLIENT.pem {key} CLIENT.key"
        return flags

    @property
    def key_flag(self) -> str:
        """What gives the key to curl and grpcurl."""
        return ' -H "authorization: Bearer $HEADRACE_API_KEY"' if self.has_keys else ""

    def host(self, address: str) -> str:
        """Return an address by which this machine can connect, of those in the certificate."""
        host, _, port = reachable(address).rpartition(":")
        names = () if self.certificate is None else self.certificate.names
        usable = sorted((n for n in names if "*" not in n), key=lambda name: name != "localhost")
        if not usable or host.strip("[]") in usable:
            return f"{host}:{port}"
        name = usable[0]
        return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def reachable(address: str) -> str:
    """Return an address that this machine can connect to, for one that is listened on."""
    host, _, port = address.rpartition(":")
    return f"{_ANY_ADDRESS.get(host, host)}:{port}"


def program() -> str:
    """Return how a shell in this directory starts the command `headrace`."""
    if shutil.which("headrace"):
        return "headrace"
    script = Path(sys.argv[0]).absolute()
    if script.name == "headrace":
        return _short(script)
    return f"{_short(Path(sys.executable))} -m headrace"


def _short(path: Path) -> str:
    relative = os.path.relpath(path)
    # A bare name would be looked for on the PATH.
    is_better = os.sep in relative and len(relative) < len(str(path))
    return shlex.quote(relative if is_better else str(path))


def _short_path(path: str) -> str:
    relative = os.path.relpath(path)
    return shlex.quote(relative if len(relative) < len(path) else path)


def welcome(service: Service, security: Security) -> str:
    """Return what is served, where, and how to try it."""
    grpc = security.host(service.grpc_address)
    scheme, _, http_address = service.http_url.partition("://")
    http = f"{scheme}://{security.host(http_address)}"
    aliases = f" (also {', '.join(service.aliases)})" if service.aliases else ""
    page = f"  Chat  {http}/\n" if service.has_page else ""
    has_tls = security.certificate is not None
    key = ", with a key in HEADRACE_API_KEY" if security.has_keys else ""
    return f"""
Serving {service.model}{aliases} with {service.context_length} tokens of context.
The KV cache holds {service.num_kv_tokens} tokens of all running requests.

{page}  HTTP  {http}/v1
  gRPC  {grpc}{" (TLS)" if has_tls else ""}

Try it in another terminal{key}:

{_examples(service, security, http, grpc)}

Ctrl-C stops it.
"""


def _examples(service: Service, security: Security, http: str, grpc: str) -> str:
    has_tls = security.certificate is not None
    target = "" if grpc in _DEFAULT_TARGETS else f" --target {grpc}"
    own_tls = security.flags("--ca-certs", "--certfile", "--keyfile")
    if has_tls and not own_tls:
        own_tls = " --tls"
    body: dict[str, object]
    prompt: dict[str, object]
    if service.can_chat:
        command = f"{program()} chat{target}{own_tls}"
        path, body = "chat/completions", {"messages": [{"role": "user", "content": _QUESTION}]}
        prompt = {"chat": {"messages": [{"role": "ROLE_USER", "content": _QUESTION}]}}
    else:
        command = f'{program()} generate "{_BEGINNING}" --max-tokens {_MAX_TOKENS}{target}{own_tls}'
        path, body = "completions", {"prompt": _BEGINNING, "max_tokens": _MAX_TOKENS}
        prompt = {"text": _BEGINNING, "stopping": {"max_output_tokens": _MAX_TOKENS}}
    curl_tls = security.flags("--cacert", "--cert", "--key") if http.startswith("https:") else ""
    grpcurl_tls = security.flags("-cacert", "-cert", "-key") if has_tls else " -plaintext"
    return f"""  {command}

  curl{curl_tls} {http}/v1/{path} -H 'Content-Type: application/json'{security.key_flag} \\
    -d '{json.dumps(body)}'

  grpcurl{grpcurl_tls}{security.key_flag} -d '{json.dumps(prompt)}' \\
    {grpc} headrace.v1.InferenceService/Generate"""
