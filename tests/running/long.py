"""``make test-long``: every file of tests/long in a process of its own, with a cluster of its own.

Tests run in random order, whose seed is shown; a file that is red stops nothing. It ends with a table, and
``.devcluster/long.json`` keeps the last result of every file.
"""

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from cluster.process.clock import SystemClock
from devcluster.errors import ClusterError
from devcluster.machine import remove_left_behind
from devcluster.paths import CHECKOUT
from tests.running import machine, outcome
from tests.running.commit import commit_of
from tests.running.outcome import Played
from tests.running.saying import say
from tests.running.stages import run
from tests.running.turn import turn

ROOM: Final = CHECKOUT / "tests" / "long"
RECORD: Final = CHECKOUT / ".devcluster" / "long.json"
FILE_SECONDS: Final = 7200.0
"""After which a file is ended that does not end by itself."""
NOTHING_COLLECTED: Final = 5
"""pytest's exit status where an expression leaves no test of a file."""


class Row(msgspec.Struct, frozen=True):
    """How one file ended.

    Args:
        file: from the root of the checkout.
        commit: that was played; with a plus where the checkout had changes.
        result: ``green``, or what failed.
        seconds: it took.
        seed: of the order of its tests, for ``--randomly-seed``.
    """

    file: str
    commit: str
    result: str
    seconds: float
    seed: int

    @property
    def is_green(self) -> bool:
        """Whether nothing failed."""
        return self.result.startswith("green")


def files(only: str) -> list[Path]:
    """The files to play.

    Args:
        only: a file or a folder, or an expression for ``pytest -k``; empty for all.
    """
    if not only:
        return sorted(ROOM.rglob("test_*.py"))
    path = (CHECKOUT / only).resolve()
    if path.is_dir():
        return sorted(path.rglob("test_*.py"))
    return [path] if path.is_file() else _matching(only)


def _matching(expression: str) -> list[Path]:
    command = [*_pytest(), "--collect-only", "-q", "--no-header", "-k", expression, str(ROOM)]
    listed = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False).stdout
    return sorted({CHECKOUT / line.partition("::")[0] for line in listed.splitlines() if "::" in line})


def play(file: Path, expression: str, commit: str) -> Row:
    """One file, to its end."""
    seed = secrets.randbelow(2**32)
    name = str(file.relative_to(CHECKOUT))
    say(f"{name} (seed {seed})")
    clock = SystemClock()
    begin = clock.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "played.json")
        words = [*_pytest(), "-q", "-s", f"--randomly-seed={seed}", *outcome.arguments(report), str(file)]
        words += ["-k", expression] if expression else []
        result = result_of(run(words, FILE_SECONDS), outcome.read(report))
    remove_left_behind(say)
    row = Row(name, commit, result, round(clock.monotonic() - begin, 1), seed)
    say(f"{row.result}: {name} ({row.seconds:.0f} s)")
    return row


def result_of(code: int | None, played: Played | None) -> str:
    """What to say of a file: pytest's exit status, None where its time was up, and what pytest reports."""
    if code == 0:
        return f"green, {played.skipped} skipped" if played and played.skipped else "green"
    if code == NOTHING_COLLECTED:
        return "green, no test"
    if code is None:
        return f"RED: not at its end within {FILE_SECONDS:.0f} s"
    failures = played.failures if played else ()
    broken = next((failure for failure in failures if failure.law), None)
    if broken is not None:
        return f"RED: law {broken.law} broken in {broken.name}"
    return "RED: " + (", ".join(dict.fromkeys(failure.name for failure in failures)) or f"exit status {code}")


def table(rows: Sequence[Row]) -> list[str]:
    """Lines of a table: file, commit, seconds, seed, result."""
    width = max((len(row.file) for row in rows), default=0)
    return [f"{r.file:<{width}}  {r.commit:<10}  {r.seconds:>6.0f} s  {r.seed:>10}  {r.result}" for r in rows]


def keep(rows: Sequence[Row], record: Path) -> None:
    """The last result of every file."""
    before = msgspec.json.decode(record.read_bytes(), type=list[Row]) if record.exists() else []
    merged = {row.file: row for row in [*before, *rows]}
    record.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps([msgspec.to_builtins(merged[name]) for name in sorted(merged)], indent=1)
    record.write_text(f"{text}\n")


def main() -> int:
    """Play what was asked for when it is its turn; 0 where all of it is green."""
    parser = argparse.ArgumentParser(prog="make test-long", description=__doc__)
    parser.add_argument("--only", default="", help="a file, a folder, or an expression for pytest -k")
    only = parser.parse_args().only
    with turn("make test-long", say):
        try:
            machine.prepare(say)
        except ClusterError as error:
            say(f"RED: {error}")
            return 1
        return _judge(only)


def _judge(only: str) -> int:
    chosen = files(only)
    if not chosen:
        say(f"No test of tests/long matches {only!r}.")
        return 1
    expression = "" if not only or (CHECKOUT / only).exists() else only
    commit = commit_of(CHECKOUT)
    rows: list[Row] = []
    try:
        for file in chosen:
            rows.append(play(file, expression, commit))
            keep(rows, RECORD)
    except KeyboardInterrupt:
        say(f"ended from outside after {len(rows)} of {len(chosen)} files")
        return 1
    finally:
        remove_left_behind(say)
    for line in table(rows):
        say(line)
    red = [row.file for row in rows if not row.is_green]
    say(f"RED: {len(red)} of {len(rows)} files" if red else f"GREEN: {len(rows)} files")
    return 1 if red else 0


def _pytest() -> list[str]:
    return [sys.executable, "-m", "pytest"]


if __name__ == "__main__":
    sys.exit(main())
