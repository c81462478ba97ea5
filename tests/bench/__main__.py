"""``make bench``: describes the machine, measures, prints one table.

A whole run is kept in bench/results.json and docs/performance.md. ``--no-cluster`` (which leaves out what
needs root and Kubernetes) and ``--only`` only print; with ``--keep`` their rows also replace those of the
last whole run, which is refused if that ran on another machine. A missed target is reported, but is no
failure.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence

from cluster.process import logs
from tests.bench import document, results
from tests.bench.lab import Lab
from tests.bench.machine import describe
from tests.bench.measure import Measure
from tests.bench.measures import KINDS, MEASURES
from tests.bench.rows import Row, complete
from tests.bench.table import cells, failures, render
from tests.running.turn import turn


def main() -> None:
    """Measure one thing after another."""
    arguments = _arguments()
    logs.configure(level="error")
    if arguments.document:
        document.write(kinds=KINDS, rows=results.read_rows(), machine=results.read_machine())
        return
    machine = describe()
    for fact, text in machine.items():
        print(f"{fact}: {text}")
    chosen = _chosen(arguments.only, cluster=arguments.cluster)
    is_whole = len(chosen) == len(MEASURES)
    if arguments.keep and not is_whole:
        results.check_machine(machine)
    with turn("make bench", print):
        rows = _rows(chosen)
    print(f"\n{render(KINDS, rows)}\n")
    print("\n".join(["Missed:", *failures(rows)] if failures(rows) else ["No target is missed."]))
    if is_whole:
        results.write(rows, machine)
    elif arguments.keep:
        results.write_merged(rows, KINDS)
    else:
        return
    if {row.name for row in results.read_rows()} == KINDS.keys():
        document.write(kinds=KINDS, rows=results.read_rows(), machine=results.read_machine())


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--no-cluster", dest="cluster", action="store_false", help="without a Kubernetes")
    parser.add_argument("--only", choices=[measure.name for measure in MEASURES], help="one measure alone")
    parser.add_argument("--keep", action="store_true", help="replace these rows of the last whole run")
    parser.add_argument(
        "--document", action="store_true", help="write docs/performance.md from the last run, measure nothing"
    )
    return parser.parse_args()


def _chosen(only: str | None, *, cluster: bool) -> list[Measure]:
    named = [measure for measure in MEASURES if only in {None, measure.name}]
    return [measure for measure in named if cluster or not measure.on_cluster]


def _rows(chosen: Sequence[Measure]) -> list[Row]:
    for measure in chosen:
        measure.prepare()
    with Lab() as lab:
        rows = [row for measure in chosen for row in _printed(measure.run(lab))]
    complete((kind for measure in chosen for kind in measure.kinds), rows)
    return rows


def _printed(rows: Iterable[Row]) -> Iterable[Row]:
    """The rows, each printed as soon as it is known: a run takes some minutes."""
    for row in rows:
        _, what, *numbers = cells(KINDS[row.name], row)
        print(f"  {what}: {', '.join(numbers)}", flush=True)
        yield row


if __name__ == "__main__":
    try:
        main()
    except results.OtherMachineError as error:
        sys.exit(str(error))
