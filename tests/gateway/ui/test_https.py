"""The chat page by HTTPS."""

import pytest

from tests.gateway.authorities import Authority

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest.fixture
def settings(tmp_path):
    pair = Authority(tmp_path / "authority").issue("127.0.0.1")
    return {"ssl_certfile": pair.certfile, "ssl_keyfile": pair.keyfile}


async def test_a_question_is_answered(open_chat, server):
    """The page is the gateway's own there, too, and its policy lets it ask."""
    chat = await open_chat(ignore_https_errors=True)
    assert chat.page.url.startswith("https://")
    await chat.ask("Hello?")
    await chat.says("Hello \U0001f30d")
    await chat.is_idle()
    assert len(server.calls) == 1
