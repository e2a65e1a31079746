import uvloop


def pytest_asyncio_loop_factories(config, item):
    """Run on the event loop that the server runs on."""
    return {"uvloop": uvloop.new_event_loop}
