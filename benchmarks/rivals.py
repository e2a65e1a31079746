"""Install the servers that Headrace is compared with, each in an environment of its own.

    python benchmarks/rivals.py                     # what is installed
    python benchmarks/rivals.py install llama-cpp   # or transformers, vllm, all

They are kept in ~/.cache/headrace-benchmarks (or under XDG_CACHE_HOME), outside of the
project's environment. A rival that is not installed is left out of the comparison.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from comparison.environment import RECIPES, default_cache_directory, environment, install


def main() -> int:
    """Show or install."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", nargs="?", choices=("list", "install"), default="list")
    names = [recipe.name for recipe in RECIPES]
    parser.add_argument("names", nargs="*", metavar="name", help=f"{', '.join(names)} or all")
    parser.add_argument("--cache", type=Path, default=default_cache_directory())
    arguments = parser.parse_args()
    unknown = set(arguments.names) - {*names, "all"}
    if unknown or (arguments.action == "install" and not arguments.names):
        parser.error(f"name what to install: {', '.join(names)} or all")
    chosen = names if "all" in arguments.names or not arguments.names else arguments.names
    for recipe in RECIPES:
        if recipe.name not in chosen:
            continue
        if arguments.action == "install":
            print(f"==> {recipe.name}: {recipe.note}", flush=True)
            try:
                install(recipe, arguments.cache)
            except subprocess.CalledProcessError as error:
                print(f"error: {recipe.name} could not be installed: {error}", file=sys.stderr)
                return 1
        version = environment(recipe, arguments.cache).version()
        print(f"{recipe.name}: {f'{recipe.package} {version}' if version else 'not installed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
