"""The objects of deploy/kubernetes, as they are in its files."""

from __future__ import annotations

import re

import yaml

from tests.deploy.envoy_config import ROOT

BASE = ROOT / "deploy" / "kubernetes" / "base"
TLS = ROOT / "deploy" / "kubernetes" / "tls"


def objects():
    """Return all objects of the base by their kinds and names."""
    files = [file for file in BASE.glob("*.yaml") if file.name != "kustomization.yaml"]
    loaded = [each for file in files for each in yaml.safe_load_all(file.read_text())]
    by_name = {(each["kind"], each["metadata"]["name"]): each for each in loaded}
    assert len(by_name) == len(loaded)
    return by_name


def deployment(name):
    """Return a Deployment's spec of its pods."""
    return objects()["Deployment", name]["spec"]["template"]["spec"]


def container(name):
    """Return the one container of a Deployment."""
    (only,) = deployment(name)["containers"]
    return only


def flag(name, which):
    """Return the value of a flag of a Deployment's program."""
    prefix = f"{which}="
    (value,) = [a.removeprefix(prefix) for a in container(name)["args"] if a.startswith(prefix)]
    return value


def port_number(name, port):
    """Return a port of a Deployment by its name or number."""
    by_name = {each["name"]: each["containerPort"] for each in container(name)["ports"]}
    return by_name.get(port, port)


def num_bytes(quantity):
    """Return a quantity of memory as a number."""
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", quantity).groups()
    return int(number) * {"Mi": 2**20, "Gi": 2**30}[unit]
