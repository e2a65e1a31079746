"""`python -m tests.interop`: builds the clients, runs all that there is, and prints the matrix."""

from __future__ import annotations

import argparse
import asyncio
import sys

from tests.interop import clients
from tests.interop.grounds import open_grounds
from tests.interop.oracle import open_oracle
from tests.interop.routes import ROUTES
from tests.interop.suite import run
from tests.interop.tell import tell_results


def main() -> int:
    given = _arguments()
    if given.packages:
        print(*_known_packages(), sep="\n")
        return 0
    chosen = [client for client in clients.CLIENTS if client.name in given.client]
    for client in chosen:
        print(f"==> {client.name}", file=sys.stderr)
        if (said := clients.build(client)) is not None:
            print(said, file=sys.stderr)
    if given.build:
        return 0
    missing = [told for client in chosen if (told := client.missing()) is not None]
    print(*missing, sep="\n", file=sys.stderr)
    routes = [route for route in ROUTES if route.name in given.route]
    is_good = asyncio.run(_run([c for c in chosen if c.missing() is None], routes))
    return 0 if is_good and not missing else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.interop", description=__doc__)
    names = [client.name for client in clients.CLIENTS]
    routes = [route.name for route in ROUTES]
    parser.add_argument("--client", nargs="+", choices=names, default=names)
    parser.add_argument("--route", nargs="+", choices=routes, default=routes)
    parser.add_argument("--build", action="store_true", help="build the clients and do no more")
    parser.add_argument(
        "--packages", action="store_true", help="print the Debian packages that the clients need"
    )
    return parser.parse_args()


def _known_packages() -> list[str]:
    return sorted(
        {
            package
            for client in clients.CLIENTS
            if client.apt and clients.are_known(client.apt)
            for package in client.apt
        }
    )


async def _run(chosen: list[clients.Client], routes: list) -> bool:
    is_good = True
    for route in routes:
        async with open_oracle() as oracle, open_grounds(route, oracle) as grounds:
            for client in chosen:
                results = await run(client, grounds)
                told = tell_results(client, results)
                is_good = is_good and not told
                print(f"{route.name}: {client.name}: {told or f'all {len(results)} went well'}")
    return is_good


if __name__ == "__main__":
    sys.exit(main())
