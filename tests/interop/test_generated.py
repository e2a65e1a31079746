"""The generated code of the clients in Python is that of the contract."""

import filecmp
import hashlib
import os
import subprocess
import sys
from pathlib import Path

from tests.interop.clients import ROOT

CLIENTS = ROOT / "clients"


def test_grpclib_is_fresh(tmp_path):
    """The committed files are what its script makes."""
    folder = CLIENTS / "python-grpclib"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run([folder / "generate.sh", tmp_path], env=os.environ | {"PATH": path}, check=True)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.py*"))
    committed = [p for p in (folder / "headrace").rglob("*.py*") if "__pycache__" not in p.parts]
    assert sorted(path.relative_to(folder) for path in committed) == made
    _, different, missing = filecmp.cmpfiles(folder, tmp_path, map(str, made), shallow=False)
    assert (different, missing) == ([], [])


def test_betterproto2_is_fresh():
    """Its script needs the network; the sum of the contract that it has written shows its age."""
    files = sorted((ROOT / "protos" / "headrace" / "v1").glob("*.proto"))
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    committed = CLIENTS / "python-betterproto2" / "headrace_api" / "contract.sha256"
    assert committed.read_text().strip() == digest, "run clients/python-betterproto2/generate.sh"
