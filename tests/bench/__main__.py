"""``make bench``: describes the machine, measures, prints one table.

``--no-cluster`` leaves out what needs root and a whole Kubernetes; ``--json FILE`` keeps the numbers.
"""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from cluster.runtime import logs
from tests.bench import bench_decisions, bench_filter, bench_preferred
from tests.bench.machine import describe
from tests.bench.table import Row, cells, render


def main() -> None:
    """Measure one thing after another."""
    arguments = _arguments()
    logs.configure(level="error")
    machine = describe()
    for fact, text in machine.items():
        print(f"{fact}: {text}")
    rows = [row for measure in _measures(cluster=arguments.cluster) for row in _told(measure())]
    print("\n" + render(rows))
    if arguments.json:
        arguments.json.write_bytes(
            msgspec.json.format(msgspec.json.encode({"machine": machine, "rows": rows}))
        )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--no-cluster", dest="cluster", action="store_false", help="without a Kubernetes")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers to a file, too")
    return parser.parse_args()


def _measures(*, cluster: bool) -> list[Callable[[], Iterable[Row]]]:
    measures: list[Callable[[], Iterable[Row]]] = [
        bench_filter.measure,
        bench_decisions.measure,
        bench_preferred.measure,
    ]
    if cluster:
        from tests.bench import bench_cluster  # noqa: PLC0415 - not needed without one

        measures.append(bench_cluster.measure)
    return measures


def _told(rows: Iterable[Row]) -> Iterable[Row]:
    """The rows, each said as soon as it is known: a run takes some minutes."""
    for row in rows:
        what, value, _, _ = cells(row)
        print(f"  {what}: {value}", flush=True)
        yield row


if __name__ == "__main__":
    main()
