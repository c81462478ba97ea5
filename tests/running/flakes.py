"""``make flakes``: the record of tests that failed in the gate, and passed when they were repeated."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from devcluster.paths import CHECKOUT
from tests.running.outcome import Failure
from tests.running.saying import show

RECORD: Final = CHECKOUT / ".devcluster" / "flakes.jsonl"


class Flake(msgspec.Struct, frozen=True):
    """One failure that a repetition did not confirm.

    Args:
        time: instant, ISO 8601.
        commit: that was played; with a plus where the checkout had changes.
        test: pytest's id.
        reason: one line.
        load: of the machine in the minute before.
        steal: percent of the processors' time that was stolen since the run began.
    """

    time: str
    commit: str
    test: str
    reason: str
    load: float
    steal: float


def flake(failure: Failure, commit: str) -> Flake:
    """What to keep of a failure."""
    return Flake(failure.at, commit, failure.test, failure.reason, failure.load, failure.steal)


def line_of(failure: Failure) -> str:
    """As a run's last lines say it."""
    return f"FLAKED: {failure.test}: {failure.reason}"


def keep(flakes: Iterable[Flake], record: Path = RECORD) -> None:
    """Add them to the record."""
    lines = b"".join(msgspec.json.encode(kept) + b"\n" for kept in flakes)
    if lines:
        record.parent.mkdir(parents=True, exist_ok=True)
        with record.open("ab") as file:
            file.write(lines)


def read(record: Path = RECORD) -> list[Flake]:
    """All that were kept, the oldest first."""
    lines = record.read_bytes().splitlines() if record.exists() else []
    return [msgspec.json.decode(line, type=Flake) for line in lines]


def table(flakes: Sequence[Flake]) -> list[str]:
    """Lines of a table, the oldest first; a sentence where there is none."""
    if not flakes:
        return [f"No test has flaked here since {RECORD.name} was begun."]
    wide = max(len(kept.test) for kept in flakes)
    head = f"{'time':<25}  {'commit':<10}  {'test':<{wide}}  {'load':>5}  {'steal':>6}  reason"
    rows = (
        f"{f.time:<25}  {f.commit:<10}  {f.test:<{wide}}  {f.load:>5.1f}  {f.steal:>5.1f}%  {f.reason}"
        for f in flakes
    )
    return [head, *rows]


def main() -> int:
    """Show the record."""
    show(table(read()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
