"""The page on the API at /docs, as it is served, shipped and shown."""

import hashlib
import json
from pathlib import Path

import pytest
from playwright.async_api import expect
from yarl import URL

from headrace_gateway.api_keys import to_api_key
from headrace_gateway.openapi.document import OPERATIONS
from headrace_gateway.routes.reference import CONTENT_SECURITY_POLICY
from tests.gateway.ui.browser import BOUND_SECONDS, running_browser

ROOT = Path(__file__).parents[3]
VENDOR = ROOT / "gateway" / "headrace_gateway" / "reference" / "vendor"


async def test_the_page_forbids_all_but_itself(gateway):
    """Page and files allow no foreign script, style, frame or connection, and no hole in that."""
    for path in ("/docs", "/docs/start.js", "/docs/vendor/swagger-ui.css"):
        async with gateway.request("GET", path) as response:
            assert response.status == 200
            assert response.headers["Content-Security-Policy"] == CONTENT_SECURITY_POLICY
            assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "default-src 'none'" in CONTENT_SECURITY_POLICY


async def test_the_page_can_be_left_out(start_gateway):
    """With --no-ui there is no page; the document for programs stays."""
    gateway = await start_gateway(no_ui=True)
    for path, status in (("/docs", 404), ("/docs/start.js", 404), ("/openapi.json", 200)):
        async with gateway.request("GET", path) as response:
            assert response.status == status


@pytest.mark.parametrize("base", ["", "/below"])
async def test_a_slash_behind_its_path_leads_to_it(gateway, base):
    """The way is relative, so that the page may lie below another path."""
    async with gateway.request("GET", "/docs/", allow_redirects=False) as response:
        assert response.status == 308
        assert response.headers["x-request-id"]
        location = response.headers["Location"]
    url = URL(gateway.url(f"{base}/docs/")).join(URL(location))
    assert url == URL(gateway.url(f"{base}/docs"))
    async with gateway.request("GET", "/docs/") as response:
        assert (response.status, response.content_type) == (200, "text/html")


def test_third_party_files_are_those_of_their_package():
    """Each has its version, its licence, and the bytes that the manifest names."""
    manifest = json.loads((VENDOR / "manifest.json").read_text())
    listed = {entry["file"] for entry in manifest}
    assert listed == {path.name for path in VENDOR.iterdir() if path.suffix in (".js", ".css")}
    for entry in manifest:
        assert hashlib.sha256((VENDOR / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
        assert "Apache License" in (VENDOR / entry["licence_file"]).read_text()


async def test_a_person_tries_endpoints(gateway):
    """The page shows each endpoint, sends its example, shows the answer, and asks nobody else."""
    faults, hosts = [], set()
    async with running_browser() as browser:
        page = await browser.new_page()
        page.set_default_timeout(BOUND_SECONDS * 1000)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda message: faults.append(message.text))
        page.on("request", lambda request: hosts.add(request.url.split("/")[2]))
        await page.goto(gateway.url("/docs"))
        await expect(page.locator(".opblock")).to_have_count(len(OPERATIONS))
        for operation in OPERATIONS:
            if operation.bodies:
                block = page.locator(f"#operations-{operation.tag}-{operation.name}")
                await block.get_by_role("button").first.click()
                await block.get_by_role("button", name="Try it out").click()
                await block.get_by_role("button", name="Execute").click()
                status = block.locator(".live-responses-table tr.response .response-col_status")
                await expect(status).to_contain_text("200")
    assert faults == []
    assert hosts <= {gateway.running.address, ""}


async def test_a_person_enters_a_key(start_gateway):
    """The page opens without one; what it sends has the key that was entered, in either header."""
    gateway, faults = await start_gateway(api_keys=(to_api_key("secret"),)), []
    async with running_browser() as browser:
        for scheme in ("bearer", "apiKey"):
            page = await browser.new_page()
            page.set_default_timeout(BOUND_SECONDS * 1000)
            page.on("pageerror", lambda error: faults.append(str(error)))
            await page.goto(gateway.url("/docs"))
            block = page.locator("#operations-Generation-createCompletion")
            await block.get_by_role("button").first.click()
            await block.get_by_role("button", name="Try it out").click()
            status = block.locator(".live-responses-table tr.response .response-col_status")
            await block.get_by_role("button", name="Execute").click()
            await expect(status).to_contain_text("401")
            await page.get_by_role("button", name="Authorize", exact=True).click()
            form = page.locator(".auth-container", has_text=scheme)
            await form.locator("input").fill("secret")
            await form.get_by_role("button", name="Apply credentials").click()
            await form.get_by_role("button", name="Close").click()
            await block.get_by_role("button", name="Execute").click()
            await expect(status).to_contain_text("200")
            await page.close()
    assert faults == []
