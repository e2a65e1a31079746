"""Measure how fast this machine reads memory and multiplies, with all cores.

    python benchmarks/floors.py [--json]

Run it on an idle machine. `compare.py` measures the same before its rounds.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from comparison.floors import measure_floors


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    floors = measure_floors()
    if arguments.json:
        print(json.dumps(asdict(floors)))
        return
    print(f"{floors}, {floors.num_threads} threads")


if __name__ == "__main__":
    main()
