"""The image is not built here, but what goes into it is checked."""

import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.deploy.envoy_config import ROOT
from tests.deploy.manifests import deployment

DOCKERFILE = ROOT / "deploy" / "Dockerfile"


def allowed_paths():
    """Return what the .dockerignore beside the Dockerfile lets in."""
    lines = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in lines
    return [line.removeprefix("!") for line in lines if line.startswith("!")]


def test_the_context_is_enough_to_install_headrace(tmp_path):
    """From the files that are let in, pip builds the package with all three programs."""
    for name in allowed_paths():
        source, copy = ROOT / name, tmp_path / "context" / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    command += ["--no-index", "--wheel-dir", tmp_path, tmp_path / "context"]
    subprocess.run(command, check=True, timeout=100)
    (wheel,) = tmp_path.glob("headrace-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    for package in ("headrace", "headrace_server", "headrace_gateway"):
        assert f"{package}/__init__.py" in names
    assert (tmp_path / "context" / "bin" / "setup").stat().st_mode & 0o111


@pytest.mark.parametrize("name", ["headrace-server", "headrace-gateway"])
def test_its_user_is_that_of_the_manifests(name):
    """The number in the image owns the folder that the volume of the cache replaces."""
    text = DOCKERFILE.read_text()
    (user,) = re.findall(r"^USER (\d+)$", text, re.MULTILINE)
    assert f"--uid {user}" in text
    assert deployment(name)["securityContext"]["runAsUser"] == int(user)
