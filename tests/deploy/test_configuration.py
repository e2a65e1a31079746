"""The files of deploy/envoy are what Envoy takes, and fit the contract."""

import subprocess
import sys
import sysconfig

import pytest
import yaml

from tests.deploy.certificates import write_certificates
from tests.deploy.envoy_config import ENVOY, ROOT, EnvoyFolder
from tests.deploy.envoy_process import BINARY, running_envoy


@pytest.mark.parametrize("variant", ["plain", "tls", "mtls"])
def test_envoy_takes_the_bootstrap(tmp_path, variant):
    """Its --mode validate accepts the files unchanged, from a copy of their folder."""
    folder = EnvoyFolder(tmp_path, variant)
    for source in ENVOY.iterdir():
        (tmp_path / source.name).symlink_to(source)
    write_certificates(tmp_path / "certs")
    command = [BINARY, "--mode", "validate", *folder.arguments()]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert (result.returncode, "OK" in result.stderr + result.stdout) == (0, True), result.stderr


@pytest.mark.parametrize("variant", ["plain", "tls", "mtls", "kubernetes"])
async def test_envoy_takes_every_file(tmp_path, variant):
    """Envoy has no complaint on what the bootstrap refers to, which is not validated with it."""
    write_certificates(tmp_path / "certs")
    async with running_envoy(variant, ["127.0.0.1:1"], certificates=tmp_path / "certs") as envoy:
        assert envoy.warnings == []
        assert set(envoy.ports) == {"public", "internal"} | ({variant} & {"tls", "mtls"})


def test_the_admin_port_is_for_this_machine_only():
    """Whoever reaches it can stop Envoy; the manifests run the same file."""
    address = yaml.safe_load((ENVOY / "envoy.yaml").read_text())["admin"]["address"]
    assert address["socket_address"]["address"] == "127.0.0.1"


def test_the_descriptors_are_those_of_the_contract(tmp_path):
    """JSON is transcoded by the contract as it is; `make protos` writes the file."""
    purelib = sysconfig.get_path("purelib")
    made = tmp_path / "headrace.binpb"
    protos = sorted((ROOT / "protos" / "headrace" / "v1").glob("*.proto"))
    command = [
        *(sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'protos'}"),
        *(
            f"-I{purelib}",
            "--include_imports",
            f"--descriptor_set_out={made}",
        ),
        *(*map(str, protos), "google/rpc/error_details.proto"),
    ]
    subprocess.run(command, check=True, timeout=60)
    assert made.read_bytes() == (ENVOY / "headrace.binpb").read_bytes()
