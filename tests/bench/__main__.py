"""``make bench``: describes the machine, then runs every ``bench_*.py`` beside this file."""

import importlib
import os
import platform
from pathlib import Path


def describe() -> str:
    """What the numbers were measured on."""
    cores = len(os.sched_getaffinity(0))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{platform.platform()}, Python {platform.python_version()}, {cores} cores, load {load}"


def main() -> None:
    """Run them one after another."""
    print(describe())
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        importlib.import_module(f"tests.bench.{path.stem}").main()


if __name__ == "__main__":
    main()
