from __future__ import annotations

import uvloop


def pytest_asyncio_loop_factories(config, item):
    """Run the tests of this folder on the loop that the gateway runs on, whose TLS is its own."""
    return {"uvloop": uvloop.new_event_loop}
