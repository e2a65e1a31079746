"""The files of deploy/envoy with the ports and addresses of a test, and nothing else changed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
ENVOY = ROOT / "deploy" / "envoy"
KUBERNETES = ROOT / "deploy" / "kubernetes" / "base" / "envoy"

# The files that the folder of Kubernetes has instead; it shares the others.
_OWN_OF_KUBERNETES = ("listeners.yaml", "clusters.yaml")
_VARIANTS = ("plain", "tls", "mtls", "kubernetes")


@dataclass(frozen=True)
class EnvoyFolder:
    """A folder in which Envoy is started.

    Args:
        path: holds copies of the files.
        variant: "plain", "tls" and "mtls" are the files of deploy/envoy; "kubernetes" takes those
            of deploy/kubernetes/base/envoy where it has its own.
    """

    path: Path
    variant: str

    def fill(self, replicas, gateways) -> None:
        """Copy the files, with every listener on a free port of this machine."""
        assert self.variant in _VARIANTS
        for source in ENVOY.iterdir():
            if source.is_file():
                shutil.copy(source, self.path)
        if self.variant == "kubernetes":
            for name in _OWN_OF_KUBERNETES:
                shutil.copy(KUBERNETES / name, self.path)
        self._rewrite("envoy.yaml", lambda file: _free_port(file["admin"]["address"]))
        self._rewrite("listeners.yaml", lambda file: _free_ports(file["resources"]))
        for name in ("tls.yaml", "mtls.yaml"):
            self._rewrite(name, lambda file: _free_ports(file["static_resources"]["listeners"]))
        self.point_to(replicas, gateways)

    def arguments(self) -> list[str]:
        """Return the command line of Envoy, as the README has it."""
        arguments = ["-c", "envoy.yaml"]
        if self.variant in ("tls", "mtls"):
            arguments += ["--config-yaml", (self.path / f"{self.variant}.yaml").read_text()]
        return arguments

    def point_to(self, replicas, gateways) -> None:
        """Write the addresses of the replicas and of the gateways, as an operator would."""

        def rewrite(file):
            for cluster in file["resources"]:
                addresses = gateways if cluster["name"] == "headrace_gateway" else replicas
                _set_endpoints(cluster, addresses)

        self._rewrite("clusters.yaml", rewrite)

    def _rewrite(self, name, change) -> None:
        file = yaml.safe_load((self.path / name).read_text())
        change(file)
        # Moved into place, as Envoy wants it; anchors have been resolved.
        new = self.path / f"{name}.new"
        new.write_text(yaml.dump(file, Dumper=_WithoutAnchors))
        new.rename(self.path / name)


class _WithoutAnchors(yaml.SafeDumper):
    def ignore_aliases(self, data) -> bool:
        return True


def _free_ports(listeners) -> None:
    for listener in listeners:
        _free_port(listener["address"])


def _free_port(address) -> None:
    address["socket_address"]["address"] = "127.0.0.1"
    address["socket_address"]["port_value"] = 0


def _set_endpoints(cluster, addresses) -> None:
    endpoints = []
    for address in addresses:
        host, _, port = address.rpartition(":")
        if "cluster_type" in cluster:
            host = "localhost"  # a name, which is for DNS
        socket_address = {"address": host, "port_value": int(port)}
        endpoints.append({"endpoint": {"address": {"socket_address": socket_address}}})
    cluster["load_assignment"]["endpoints"] = [{"lb_endpoints": endpoints}]
