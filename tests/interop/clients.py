"""The clients of clients.yaml: which there are, and whether they can be run here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import yaml

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
# From nothing, with the client's own tests, on two busy cores.
BUILD_SECONDS = 600


@dataclass(frozen=True)
class Client:
    """An entry of clients.yaml, which says what its fields mean."""

    name: str
    title: str
    folder: str
    run: list[str]
    cli: list[str]
    needs: list[str] = field(default_factory=list)
    apt: list[str] = field(default_factory=list)
    build: str | None = None
    built: list[str] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return ROOT / self.folder

    def command(self, words: list[str]) -> list[str]:
        """Fill in a command; what is a file of its folder is named in full."""
        filled = [word.replace("{python}", sys.executable) for word in words]
        own = self.path / filled[0]
        return [str(own) if own.is_file() else filled[0], *filled[1:]]

    def missing(self) -> str | None:
        """What is missing and how to get it, as a sentence; None where it can be run."""
        if absent := [command for command in self.needs if shutil.which(command) is None]:
            return (
                f"The client {self.name} needs {', '.join(absent)}: "
                f"apt-get install {' '.join(self.apt)}, then make interop."
            )
        if absent := [file for file in self.built if not (self.path / file).exists()]:
            return f"The client {self.name} is not built ({', '.join(absent)}): make interop."
        return None

    def is_installable(self) -> bool:
        """Whether this machine knows where to get all that the client needs."""
        return all(shutil.which(command) for command in self.needs) or (
            bool(self.apt) and are_known(self.apt)
        )


def read_clients(path: Path = HERE / "clients.yaml") -> list[Client]:
    """Read the registry.

    Raises:
        TypeError: an entry has a field that is not known, or lacks one.
    """
    return [Client(**entry) for entry in yaml.safe_load(path.read_text())]


CLIENTS = read_clients()


def are_known(packages: list[str]) -> bool:
    """Whether apt knows a version of each package."""
    if shutil.which("apt-cache") is None:
        return False
    told = subprocess.run(["apt-cache", "policy", *packages], capture_output=True, text=True)
    versions = [line for line in told.stdout.splitlines() if line.startswith("  Candidate: ")]
    return len(versions) == len(set(packages)) and not any("(none)" in line for line in versions)


def build(client: Client) -> str | None:
    """Build a client where its tools are; return what it said if that failed."""
    if client.build is None or any(shutil.which(command) is None for command in client.needs):
        return None
    with subprocess.Popen(
        client.build,
        shell=True,
        cwd=client.path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that all it has started can be ended
    ) as process:
        try:
            said, _ = process.communicate(timeout=BUILD_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return f"{client.name} was not built within {BUILD_SECONDS} s"
    return None if process.returncode == 0 else said
