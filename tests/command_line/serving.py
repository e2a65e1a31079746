"""`headrace serve` as the page starts it, on the simulated engine, beside the files it names."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tests.cli.test_serve import SERVE, read_welcome
from tests.command_line.page import CHECKOUT
from tests.gateway.authorities import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator

BOUND_SECONDS = 60.0
KEY = "sk-alice-4711"
# An answer of the whole context takes 40 s: longer than the deadlines on the page.
SIMULATED = ("--simulated-step-seconds", "0.005")
NATIVE = ("--backend", "native", "--num-threads", "1")


@dataclass
class Service:
    """A service that is ready, in a folder with the files that the page names."""

    folder: Path
    grpc: str
    http: str
    log: queue.SimpleQueue[str]

    def here(self, script: str) -> str:
        """Return a script of the page with the addresses of this service."""
        for address, port in (("localhost:1920", self.grpc), ("localhost:1919", self.http)):
            script = script.replace(address, f"localhost:{port}")
        # An address that is not in the certificate.
        return script.replace("192.0.2.5:1920", f"127.0.0.1:{self.grpc}")

    def start(self, script: str) -> subprocess.Popen[bytes]:
        """Start a script as a shell does, in a process group of its own."""
        environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HEADRACE_TARGET": f"localhost:{self.grpc}",
            "KEY": KEY,
        }
        return subprocess.Popen(
            ["bash", "-o", "pipefail", "-ec", self.here(script)],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait_for_call(self, code: str) -> None:
        """Wait until the log tells of an answer with this status."""
        while True:
            line = self.log.get(timeout=BOUND_SECONDS)
            fields = json.loads(line) if line.startswith("{") else {}
            if (fields.get("method"), fields.get("code")) == ("InferenceService/Generate", code):
                return


def make_files(folder: Path) -> None:
    """Make the keys and certificates of the page, and lead to the files of the checkout."""
    (folder / "keys.txt").write_text(f"alice {KEY}\n")
    authority = Authority(folder)
    # Of a server that has this name and no address, and of a client.
    for name, certfile, keyfile in (
        ("localhost", "cert.pem", "key.pem"),
        ("alice", "alice.pem", "alice-key.pem"),
    ):
        pair = authority.issue(name)
        pair.certfile.rename(folder / certfile)
        pair.keyfile.rename(folder / keyfile)
    for name in ("protos", "deploy"):
        (folder / name).symlink_to(CHECKOUT / name)


@contextmanager
def serving(folder: Path, *flags: str) -> Iterator[Service]:
    """Run a service with these flags in a folder until the body ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", *SERVE, "--log-level", "info", *flags],
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    log: queue.SimpleQueue[str] = queue.SimpleQueue()
    reader = threading.Thread(target=_pass_on, args=(process.stderr, log))
    reader.start()
    try:
        welcome = read_welcome(process.stdout)
        http = re.search(r"HTTP  \S+:(\d+)/v1\n", welcome)
        grpc = re.search(r"gRPC  \S+:(\d+)", welcome)
        assert http, _rest_of(log, reader)
        assert grpc
        yield Service(folder, grpc[1], http[1], log)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=BOUND_SECONDS)
        finally:
            process.kill()
            reader.join()
            process.stdout.close()
            process.stderr.close()
    assert process.returncode == 0


def _pass_on(stderr: IO[bytes], log: queue.SimpleQueue[str]) -> None:
    for line in iter(stderr.readline, b""):
        log.put(line.decode())


def _rest_of(log: queue.SimpleQueue[str], reader: threading.Thread) -> str:
    """Return what a service that has ended wrote."""
    reader.join()
    return "".join(log.get() for _ in range(log.qsize()))
