"""Simulate fair shares on public traces and write the tables of docs/fair-shares.md: ``make fairness``."""

import argparse
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Final

from devcluster.paths import CHECKOUT
from tests.fairness.runs import Run, run, runs
from tests.fairness.traces import OPENB, PHILLY

DOCUMENT: Final = CHECKOUT / "docs" / "fair-shares.md"
_MARKED: Final = re.compile(r"(<!-- generated: fairness -->\n).*?(<!-- end -->)", re.DOTALL)
_HEAD: Final = (
    "rule",
    "used",
    "Jain",
    "least share",
    "to share p50 / p95, min",
    "8 GPUs and more wait p50 / p95, h",
    "evictions a day",
    "most of one unit in 24 h",
    "lost, %",
)
_GOALS: Final = "goals |  | >= 0.99 | >= 0.85 | p95 <= 15 |  |  | <= 3 | <= 0.5, unsaved <= 5 |"


def main(arguments: list[str]) -> None:
    """Run all rows in two processes, print each, and write the document unless told not to."""
    parser = argparse.ArgumentParser(prog="make fairness", description=__doc__)
    parser.add_argument("--traces", type=Path, help=f"a folder with {PHILLY} and {OPENB}")
    parser.add_argument(
        "--big", action="store_true", help="more and longer weeks: an hour instead of minutes"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only-print", action="store_true", help="leave the document as it is")
    options = parser.parse_args(arguments)
    if options.traces and not (options.traces / PHILLY).is_file():
        parser.error(f"There is no {PHILLY} in {options.traces}: name the folder of the traces in TRACES.")
    wanted = list(runs(big=options.big, with_traces=options.traces is not None))
    tables: dict[str, list[str]] = {}
    with ProcessPoolExecutor(options.processes) as pool:
        futures = [(one, pool.submit(run, one, options.traces)) for one in wanted]
        for one, future in futures:
            figures = future.result()
            line = _line(one, figures)
            sys.stdout.write(f"{one.table}: {line} ({figures['seconds']:.0f} s)\n")
            sys.stdout.flush()
            title = (
                f"{one.table} ({figures['jobs']:,} jobs, contended {figures['contended']:.0%} of the time)"
            )
            key = next((known for known in tables if known.startswith(f"{one.table} (")), title)
            tables.setdefault(key, []).append(line)
    if not options.only_print:
        text = DOCUMENT.read_text()
        DOCUMENT.write_text(
            _MARKED.sub(lambda found: f"{found[1]}{_document(tables, options)}{found[2]}", text)
        )


def _line(one: Run, figures: dict[str, Any]) -> str:
    name = one.settings or one.rule
    if not one.saves:
        name += ", nobody saves"
    cells = (
        name,
        f"{figures['used']:.3f}",
        f"{figures['jain']:.3f}",
        f"{figures['least']:.2f}",
        f"{figures['p50']:.1f} / {figures['p95']:.1f}",
        f"{figures['big50']:.1f} / {figures['big95']:.1f}",
        f"{figures['evictions']:.0f}",
        f"{figures['most']}",
        f"{figures['lost']:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def _document(tables: dict[str, list[str]], options: argparse.Namespace) -> str:
    source = "" if options.traces else "**Made from synthetic samples, because no traces were given.**\n\n"
    parts = []
    for title, lines in tables.items():
        goals = [f"| {_GOALS}"] if not title.startswith("sensitivity") else []
        head = [f"| {' | '.join(_HEAD)} |", f"|{'---|' * len(_HEAD)}"]
        parts.append("\n".join([f"**{title[:1].upper()}{title[1:]}**", "", *head, *lines, *goals, ""]))
    return source + "\n".join(parts)


if __name__ == "__main__":
    main(sys.argv[1:])
