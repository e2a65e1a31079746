"""The chat page and its files as they are served and shipped."""

import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from aiohttp import ClientSession
from yarl import URL

from headrace_gateway.routes.ui import CONTENT_SECURITY_POLICY, read_files

ROOT = Path(__file__).parents[3]
UI = ROOT / "gateway" / "headrace_gateway" / "ui"
PATHS = sorted(str(path.relative_to(UI)) for path in UI.rglob("*") if path.is_file())
BOUND_SECONDS = 120


async def test_the_page_is_at_the_root(gateway):
    """Whoever opens the address of the gateway sees the page, with or without a key."""
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        async with gateway.request("GET", "/", headers=headers) as response:
            assert (response.status, response.content_type) == (200, "text/html")
            assert await response.read() == (UI / "index.html").read_bytes()


async def test_every_file_is_served_with_its_type(gateway):
    """All that lies in the folder is there, and of a kind that browsers take for what it is."""
    types = {
        ".css": "text/css",
        ".html": "text/html",
        ".js": "text/javascript",
        ".json": "application/json",
        ".mjs": "text/javascript",
        ".svg": "image/svg+xml",
        ".txt": "text/plain",
    }
    assert sorted(read_files()) == PATHS
    for path in PATHS:
        async with gateway.request("GET", f"/ui/{path}") as response:
            assert (response.status, response.content_type) == (200, types[Path(path).suffix])
            assert await response.read() == (UI / path).read_bytes()


async def test_the_browser_is_told_to_run_nothing_else(gateway):
    """Page and files forbid foreign scripts, styles, frames and connections, and guessed types."""
    for path in ("/", "/ui/scripts/main.js", "/ui/favicon.svg"):
        async with gateway.request("GET", path) as response:
            assert response.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
            assert response.headers["X-Content-Type-Options"] == "nosniff"
    directives = dict(part.split(" ", 1) for part in CONTENT_SECURITY_POLICY.split("; "))
    assert directives["default-src"] == "'none'"
    assert directives["script-src"] == directives["style-src"] == "'self'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY


async def test_a_file_that_did_not_change_is_not_sent_again(gateway):
    """Browsers ask each time, and get a file once for each version."""
    async with gateway.request("GET", "/ui/scripts/main.js") as response:
        etag = response.headers["ETag"]
        assert response.headers["Cache-Control"] == "no-cache"
    for condition, status in ((etag, 304), (f'"other", {etag}', 304), ('"other"', 200)):
        headers = {"If-None-Match": condition}
        async with gateway.request("GET", "/ui/scripts/main.js", headers=headers) as response:
            assert (response.status, response.headers["ETag"]) == (status, etag)
            assert bool(await response.read()) == (status == 200)


@pytest.mark.parametrize(
    "path",
    [
        "/ui/",
        "/ui/scripts",
        "/ui/scripts/",
        "/ui/../app.py",
        "/ui/scripts/../../app.py",
        "/ui/..%2Fapp.py",
        "/ui/%2e%2e/app.py",
        "/ui/scripts%2Fmain.js%00",
        "/ui//etc/passwd",
        "/ui/..\\app.py",
    ],
)
async def test_a_path_leads_nowhere_else(gateway, path):
    """What is not a file of the page is not found, however it is written."""
    url = URL(f"http://{gateway.running.address}{path}", encoded=True)
    async with ClientSession() as session, session.get(url) as response:
        assert response.status == 404
        assert (await response.json())["error"]["code"] == "not_found"


async def test_the_page_can_be_left_out(start_gateway):
    """With --no-ui there is neither the page nor a file of it."""
    gateway = await start_gateway(no_ui=True)
    for path in ("/", "/ui/index.html"):
        async with gateway.request("GET", path) as response:
            assert response.status == 404


async def test_the_page_is_there_before_the_server(start_gateway):
    """While the server behind it cannot be reached, the page is there to say so."""
    gateway = await start_gateway(upstream="127.0.0.1:1")
    async with gateway.request("GET", "/") as response:
        assert response.status == 200
        assert "Content-Security-Policy" in response.headers


def test_the_page_brings_its_code_and_style_in_files():
    """Nothing of the page would need a hole in the policy."""
    page = (UI / "index.html").read_text()
    assert re.findall(r"<style|<script(?![^>]*\bsrc=)| style=| on\w+=|javascript:", page) == []
    assert re.findall(r'(?:src|href)="(?:[a-z]+:|//)', page) == []


def test_third_party_files_are_those_of_their_packages():
    """Each has its version, its licence, and the bytes that the manifest names."""
    vendor = UI / "vendor"
    parts = json.loads((vendor / "manifest.json").read_text())
    for part in parts:
        data = (vendor / part["file"]).read_bytes()
        assert hashlib.sha256(data).hexdigest() == part["sha256"]
        assert part["version"] in data[:300].decode()
        licence = (vendor / part["licence_file"]).read_text()
        assert "Apache License" in licence or "Permission is hereby granted" in licence
    named = {part[key] for part in parts for key in ("file", "licence_file")}
    assert {path.name for path in vendor.iterdir()} == {*named, "manifest.json"}


def test_a_wheel_has_all_files(tmp_path):
    """Who installs Headrace from a wheel has the page as it is in a checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=BOUND_SECONDS)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {f"headrace_gateway/ui/{path}" for path in PATHS} <= names


async def test_the_page_may_use_the_gateway_whatever_the_origins(start_gateway):
    """From the address where it was opened, as on a phone, it needs no --cors-origins."""
    gateway = await start_gateway(cors_origins=("none",))
    own = f"http://{gateway.running.address}"
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    for origin, status in ((own, 200), ("http://127.0.0.1:1", 403)):
        headers = {"Origin": origin}
        async with gateway.post("/v1/chat/completions", body, headers=headers) as response:
            assert response.status == status
