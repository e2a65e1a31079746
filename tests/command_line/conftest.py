from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.command_line.serving import SIMULATED, make_files, serving


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where the page's keys and certificates are, and its commands run."""
    folder = tmp_path_factory.mktemp("reader")
    make_files(folder)
    return folder


@pytest.fixture(scope="session")
def serve(folder):
    """Gives a service with some flags, which runs until one with others is wanted."""
    with ExitStack() as running:
        services = {}

        def serve(*flags):
            if flags not in services:
                services.clear()
                running.close()
                services[flags] = running.enter_context(serving(folder, *flags))
            return services[flags]

        yield serve


@pytest.fixture
def service(request, serve):
    """A service with the flags of the section."""
    return serve(*SIMULATED, *request.param)
