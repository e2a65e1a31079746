"""`python -m tests.interop`: builds the clients, runs all that there is, and prints the matrix."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import sys
import time

from tests.interop import clients, page
from tests.interop.grounds import open_grounds
from tests.interop.oracle import open_oracle
from tests.interop.routes import ROUTES, Route
from tests.interop.suite import run
from tests.interop.tell import is_bad, tell_results
from tests.interop.together import TOGETHER, run_together
from tests.interop.uses import use_program


def main() -> int:
    given = _arguments()
    # A shell starts its background jobs with Ctrl-C ignored, which the clients would inherit.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if given.packages:
        print(*_known_packages(), sep="\n")
        return 0
    chosen = [client for client in clients.CLIENTS if client.name in given.client]
    is_good = not [client for client in chosen if not _build(client)]
    if given.build:
        return 0 if is_good else 1
    present = [client for client in chosen if client.missing() is None]
    for client in chosen:
        if client not in present:
            _tell(client.missing())
            is_good = is_good and not (os.environ.get("CI") == "true" and client.is_installable())
    routes = [route for route in ROUTES if route.name in given.route]
    results = asyncio.run(_run(present, routes))
    print(page.route_tables(present, results))
    is_good = is_good and not any(
        is_bad(result, client)
        for of_route in results.values()
        for client in present
        for result in of_route[client.name].values()
    )
    if given.write and (present, routes) == (clients.CLIENTS, list(ROUTES)):
        page.write(results)
    elif given.write:
        _tell(f"{page.PAGE.name} stays as it is: it has all clients, this run had not.")
    return 0 if is_good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    names = [client.name for client in clients.CLIENTS]
    routes = [route.name for route in ROUTES]
    parser.add_argument("--client", nargs="+", choices=names, default=names)
    parser.add_argument("--route", nargs="+", choices=routes, default=routes)
    parser.add_argument(
        "--write", action="store_true", help="write the matrix into docs/interop.md"
    )
    parser.add_argument("--build", action="store_true", help="build the clients and do no more")
    parser.add_argument(
        "--packages", action="store_true", help="print the Debian packages that the clients need"
    )
    return parser.parse_args()


def _known_packages() -> list[str]:
    """The packages of all clients of which this machine knows all packages.

    Those of commands that are there are left out: Debian's npm, for one, does not go with the
    Node.js of others, which has its own.
    """
    known = [client.apt for client in clients.CLIENTS if clients.are_known(client.apt)]
    packages = {package for packages in known for package in packages}
    return sorted(package for package in packages if shutil.which(package) is None)


def _build(client: clients.Client) -> bool:
    began = time.monotonic()
    said = clients.build(client)
    _tell(f"==> {client.name} is built, {time.monotonic() - began:.0f} s" if said is None else said)
    return said is None


async def _run(present: list[clients.Client], routes: list[Route]) -> dict:
    """Run everything; the results are by route, client and row."""
    results: dict = {route.name: {client.name: {} for client in present} for route in routes}
    async with open_oracle() as oracle:
        for route in routes:
            async with open_grounds(route, oracle) as grounds:
                for client in present:
                    began = time.monotonic()
                    told = [*await run(client, grounds), *await use_program(client, grounds)]
                    results[route.name][client.name] |= {each.scenario: each for each in told}
                    _tell(f"==> {route.name}, {client.name}: {time.monotonic() - began:.0f} s")
                    _tell_problems(client, told, route)
            for scenario in TOGETHER:
                of_all = await run_together(present, route, oracle, scenario)
                for client in present:
                    results[route.name][client.name][scenario.name] = of_all[client.name]
                    _tell_problems(client, [of_all[client.name]], route)
    return results


def _tell_problems(client: clients.Client, results: list, route: Route) -> None:
    if told := tell_results(client, results, f"{route.name}, "):
        _tell(told)


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
