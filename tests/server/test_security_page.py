"""The commands of docs/security.md do what it says."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.server.server_process import BOUND_SECONDS, SIMULATED, start

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MAKE_KEYS, MAKE_CERTIFICATE, CALL, MAKE_CLIENT, CALL_AS_CLIENT = BLOCKS


async def run(folder, script):
    """Run a script of the page where its files are, and return what it writes."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    process = await asyncio.create_subprocess_exec(
        *("bash", "-ec", script),
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(BOUND_SECONDS):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


async def served(folder, make, flags, call):
    """Make files, serve with them, and call with what the first script has left."""
    await run(folder, f'{make}\nprintf %s "$KEY" > key')
    paths = [flag if flag.startswith("--") else folder / flag for flag in flags]
    process = await start(*SIMULATED, "--log-level", "error", *paths)
    try:
        async with asyncio.timeout(BOUND_SECONDS):
            while (line := json.loads(await process.stdout.readline()))["event"] != "ready":
                pass
        port = line["address"].rpartition(":")[2]
        return await run(
            folder, "KEY=$(cat key)\n" + call.replace("localhost:1920", f"localhost:{port}")
        )
    finally:
        process.kill()
        await process.communicate()


TLS = ("--ssl-certfile", "cert.pem", "--ssl-keyfile", "key.pem")
KEYS = ("--api-key-file", "keys.txt")


async def test_the_key_and_the_certificate_of_the_page_let_grpcurl_in(tmp_path):
    """By an authority of one's own and a key of which the file has the SHA-256."""
    out = await served(tmp_path, MAKE_KEYS + MAKE_CERTIFICATE, (*KEYS, *TLS), CALL)
    assert '"output_token_count": 8' in out


async def test_the_client_certificate_of_the_page_lets_grpcurl_in(tmp_path):
    """It is signed by the authority that the server is given."""
    out = await served(
        tmp_path,
        MAKE_KEYS + MAKE_CERTIFICATE + MAKE_CLIENT,
        (*KEYS, *TLS, "--ssl-ca-certs", "authority.pem"),
        CALL_AS_CLIENT,
    )
    assert "headrace.v1.InferenceService" in out.splitlines()


async def test_without_its_key_the_call_of_the_page_is_refused(tmp_path):
    """What lets it in is the key."""
    with pytest.raises(AssertionError, match="There is no valid API key"):
        await served(
            tmp_path,
            MAKE_KEYS + MAKE_CERTIFICATE,
            (*KEYS, *TLS),
            "KEY=wrong\n" + CALL,
        )


async def test_links_lead_somewhere():
    """Files beside the page, with the headings that are named."""
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        name, _, heading = target.partition("#")
        path = Path(__file__).parents[2] / "docs" / (name or "security.md")
        assert path.exists()
        if heading:
            headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
            assert heading in [found.lower().replace(" ", "-") for found in headings]
