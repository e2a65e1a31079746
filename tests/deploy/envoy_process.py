"""The real Envoy on the files of deploy/envoy, in a process of its own; for other tests, too."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.deploy.envoy_config import EnvoyFolder

BOUND_SECONDS = 30.0
BINARY = Path(sys.executable).with_name("envoy")
_NUM_WORKERS = 2  # so that connections meet different threads


@dataclass
class Envoy:
    """An Envoy that takes requests.

    Args:
        process: Envoy itself.
        stdout: of it.
        folder: in which it runs.
        admin: a session at its admin port.
        ports: by name of the listener.
        log: the lines of JSON that it has written: requests, tries, changes of health.
        warnings: what it has said on stderr.
    """

    process: asyncio.subprocess.Process
    stdout: asyncio.StreamReader
    folder: EnvoyFolder
    admin: aiohttp.ClientSession
    ports: dict[str, int] = field(default_factory=dict)
    log: list[dict] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def public(self) -> str:
        """Where clients call without TLS, as host:port."""
        return f"127.0.0.1:{self.ports['public']}"

    @property
    def internal(self) -> str:
        """Where gateways call, as host:port."""
        return f"127.0.0.1:{self.ports['internal']}"

    @property
    def tls(self) -> str:
        """Where clients call with TLS, as host:port; of the variants tls and mtls only."""
        return f"127.0.0.1:{self.ports[self.folder.variant]}"

    async def stats(self, pattern: str) -> dict[str, int]:
        """Return the counters and gauges whose names match a regular expression."""
        async with self.admin.get(
            "/stats", params={"format": "json", "filter": pattern}
        ) as response:
            stats = (await response.json(content_type=None))["stats"]
        return {stat["name"]: stat["value"] for stat in stats if "value" in stat}

    async def stat(self, name: str) -> int:
        """Return a counter or a gauge by its name; 0 before anything was counted."""
        return (await self.stats(f"^{name.replace('.', '[.]')}$")).get(name, 0)

    async def num_active(self, address: str) -> int:
        """Return how many calls run at a replica."""
        async with self.admin.get("/clusters", params={"format": "json"}) as response:
            clusters = (await response.json(content_type=None))["cluster_statuses"]
        (host,) = [
            host
            for cluster in clusters
            if cluster["name"] == "headrace"
            for host in cluster["host_statuses"]
            if _address(host["address"]["socket_address"]) == address
        ]
        (number,) = [stat["value"] for stat in host["stats"] if stat["name"] == "rq_active"]
        return int(number)

    async def post(self, path: str) -> None:
        """Tell it something at its admin port."""
        async with self.admin.post(path) as response:
            assert response.status == 200, await response.text()

    async def wait_for_stat(self, name: str, wanted) -> int:
        """Wait until a number of the stats is one that is wanted, a value or a predicate."""
        is_wanted = wanted if callable(wanted) else lambda value: value == wanted
        value = None
        try:
            async with asyncio.timeout(BOUND_SECONDS):
                while not is_wanted(value := await self.stat(name)):  # noqa: ASYNC110  # no event
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"{name} stayed at {value}") from None
        return value

    async def wait_for_healthy(self, number: int, cluster: str = "headrace") -> None:
        """Wait until so many hosts of a cluster are healthy."""
        await self.wait_for_stat(f"cluster.{cluster}.membership_healthy", number)

    async def wait_for_log(self, wanted) -> dict:
        """Return the first line of the log for which a predicate holds, as soon as it is there."""
        found = []

        def find() -> bool:
            found[:] = [line for line in self.log if wanted(line)]
            return bool(found)

        try:
            async with asyncio.timeout(BOUND_SECONDS), self._news:
                await self._news.wait_for(find)
        except TimeoutError:
            raise AssertionError(f"not among {self.log}") from None
        return found[0]

    async def point_to(self, replicas, gateways=()) -> None:
        """Have it use these replicas and gateways from now on, without a restart."""
        updates = await self.stat("cluster_manager.cds.update_success")
        self.folder.point_to(replicas, gateways)
        await self.wait_for_stat("cluster_manager.cds.update_success", lambda n: n > updates)

    async def terminate(self) -> int:
        """Send SIGTERM and return the exit status."""
        self.process.terminate()
        async with asyncio.timeout(BOUND_SECONDS):
            return await self.process.wait()

    async def read_log(self) -> None:
        """Take the lines of stdout as they come."""
        # The last line may be cut off, since Envoy is killed.
        while (line := await self.stdout.readline()).endswith(b"\n"):
            if line.strip():
                async with self._news:
                    self.log.append(json.loads(line))
                    self._news.notify_all()

    async def read_warnings(self) -> None:
        """Take the lines of stderr as they come."""
        while line := await self.process.stderr.readline():
            self.warnings.append(line.decode())


@asynccontextmanager
async def running_envoy(variant="plain", replicas=(), gateways=(), *, certificates=None):
    """Run Envoy in front of replicas until the body ends.

    Args:
        variant: see `EnvoyFolder`.
        replicas: their addresses, host:port. May be changed later by `Envoy.point_to`.
        gateways: those of HTTP gateways, which call the replicas at `Envoy.internal`.
        certificates: a folder with tls.crt and tls.key, for mtls also client-ca.crt; needed for
            the variants tls and mtls.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-envoy-") as path:
        folder = EnvoyFolder(Path(path), variant)
        folder.fill(replicas, gateways)
        if certificates is not None:
            (folder.path / "certs").symlink_to(certificates)
        async with (
            _process(folder) as (process, stdout),
            _admin_session(folder, process) as admin,
        ):
            envoy = Envoy(process, stdout, folder, admin)
            # Not in a group, which would wrap what a test raises.
            readers = [asyncio.ensure_future(r()) for r in (envoy.read_log, envoy.read_warnings)]
            try:
                await _wait_until_ready(envoy)
                yield envoy
            finally:
                _kill(process)  # which ends the readers
                await asyncio.gather(*readers)


@asynccontextmanager
async def _process(folder):
    # Envoy opens /dev/stdout by its name, which works for a pipe; uvloop would give it a socket.
    reading, writing = os.pipe()
    try:
        process = await asyncio.create_subprocess_exec(
            *(str(BINARY), *folder.arguments(), "--log-level", "warning"),
            *("--concurrency", str(_NUM_WORKERS), "--disable-hot-restart"),
            *("--admin-address-path", "admin-address", "--drain-time-s", "2"),
            *("--drain-strategy", "immediate"),
            *("--file-flush-interval-msec", "50"),  # of the log; 10 s by default
            cwd=folder.path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=writing,
            stderr=asyncio.subprocess.PIPE,
        )
    finally:
        os.close(writing)
    stdout = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stdout), os.fdopen(reading, "rb")
    )
    try:
        yield process, stdout
    finally:
        transport.close()
        _kill(process)
        await process.wait()


def _address(socket_address: dict) -> str:
    return f"{socket_address['address']}:{socket_address['port_value']}"


def _kill(process) -> None:
    if process.returncode is None:
        process.kill()


@asynccontextmanager
async def _admin_session(folder, process):
    file = folder.path / "admin-address"
    async with asyncio.timeout(BOUND_SECONDS):
        while not (file.exists() and file.read_text()):  # no event
            if process.returncode is not None:
                raise AssertionError((await process.stderr.read()).decode())
            await asyncio.sleep(0.01)
        address = file.read_text()  # a line
    async with aiohttp.ClientSession(f"http://{address}") as session:
        yield session


async def _wait_until_ready(envoy) -> None:
    """Wait for the first checks of health, after which the listeners open; find their ports."""
    await envoy.wait_for_stat("listener_manager.workers_started", 1)
    rejected = await envoy.stats("update_rejected|update_failure|config_fail")
    assert not any(rejected.values()), (rejected, envoy.warnings)
    async with envoy.admin.get("/listeners", params={"format": "json"}) as response:
        listeners = (await response.json(content_type=None))["listener_statuses"]
    for listener in listeners:
        envoy.ports[listener["name"]] = listener["local_address"]["socket_address"]["port_value"]
