"""``make prove``: a test, or the gate from a fresh clone, passes again and again, also beside busy processes.

It ends at the first run that is red, with a table. ``.devcluster/prove.json`` keeps the last proof of each
test, and of the gate.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from cluster.process.clock import Clock, SystemClock
from devcluster.machine import remove_left_behind
from devcluster.paths import CHECKOUT
from tests.running import e2e, machine, outcome
from tests.running.busy import busy
from tests.running.commit import commit_of
from tests.running.gate import BUDGET_SECONDS, Took
from tests.running.gate import Record as Gated
from tests.running.saying import say, show
from tests.running.stages import run
from tests.running.turn import turn
from tests.running.verdict import verdict

RECORD: Final = CHECKOUT / ".devcluster" / "prove.json"
LOGS: Final = outcome.KEPT / "prove"
"""Logs of clusters whose tests failed."""
TIMES: Final = 10
GATE_TIMES: Final = 5
UNDER_LOAD: Final = 3
"""So many runs of a test, the last ones, are next to busy processes; never more than half of them."""
GATE_UNDER_LOAD: Final = 2
BUSY_BUDGET_SECONDS: Final = 18 * 60
"""What the gate may take next to busy processes."""
TEST_SECONDS: Final = 600.0
GATE_SECONDS: Final = 40 * 60.0
"""For hangs: whatever is over its budget is red anyway."""
PREPARING_SECONDS: Final = 40 * 60.0
"""For a clone's virtual environment, and for binaries where this machine has none yet."""
GATE: Final = "make test"


class Row(msgspec.Struct, frozen=True):
    """One run.

    Args:
        number: from 1.
        busy: whether it was next to busy processes.
        seconds: it took.
        result: ``green``, or why it is red.
        stages: of the gate.
        flaked: lines about tests that failed in the gate, and passed when they were repeated.
    """

    number: int
    busy: bool
    seconds: float
    result: str
    stages: tuple[Took, ...] = ()
    flaked: tuple[str, ...] = ()

    @property
    def is_green(self) -> bool:
        """Whether it passed."""
        return self.result == "green"


class Proof(msgspec.Struct, frozen=True):
    """Several runs in a row.

    Args:
        what: a test, or ``make test``.
        commit: that was played.
        time: instant at which they began, ISO 8601.
        machine: what it was like then.
        times: how many runs were asked for.
        rows: those that were played.
    """

    what: str
    commit: str
    time: str
    machine: tuple[str, ...]
    times: int
    rows: tuple[Row, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all of them passed."""
        return len(self.rows) == self.times and all(row.is_green for row in self.rows)


@dataclass(frozen=True, slots=True)
class Planned:
    """A run to play: its number, from 1, and whether it is next to busy processes."""

    number: int
    busy: bool


Play = Callable[[Planned], Row]
"""Plays a run."""


def under_load(times: int, at_most: int) -> list[bool]:
    """Which of so many runs are next to busy processes: the last ones, never more than half of them."""
    some = min(at_most, times // 2)
    return [number >= times - some for number in range(times)]


def rows_of(plan: Sequence[bool], play: Play) -> Iterator[Row]:
    """Play run after run, up to the first that is red."""
    for number, is_busy in enumerate(plan, start=1):
        with busy() if is_busy else contextlib.nullcontext():
            row = play(Planned(number, is_busy))
        yield row
        if not row.is_green:
            return


def playing_test(test: str, clock: Clock, checkout: Path = CHECKOUT) -> Play:
    """Plays one test, in a process of its own."""

    def play(planned: Planned) -> Row:
        begin = clock.monotonic()
        ended = e2e.play([test], TEST_SECONDS, logs=LOGS, checkout=checkout)
        seconds = round(clock.monotonic() - begin, 1)
        found = verdict(ended, {})
        if found.red:
            show(e2e.report(found))
        skipped = ended.played.skipped if ended.played else 0
        result = found.red or (f"{skipped} skipped" if skipped else "green")
        return Row(planned.number, planned.busy, seconds, result)

    return play


def playing_gate(clone: Path, clock: Clock) -> Play:
    """Plays ``make test`` in a clone."""

    def play(planned: Planned) -> Row:
        file = clone / ".devcluster" / "gate.json"
        file.unlink(missing_ok=True)  # one that does not get so far says nothing
        begin = clock.monotonic()
        code = run(["make", "--no-print-directory", "test"], GATE_SECONDS, cwd=clone)
        seconds = round(clock.monotonic() - begin, 1)
        record = msgspec.json.decode(file.read_bytes(), type=Gated) if file.exists() else None
        result = gate_result(code, record, seconds, is_busy=planned.busy)
        return Row(
            planned.number,
            planned.busy,
            seconds,
            result,
            record.stages if record else (),
            record.flaked if record else (),
        )

    return play


def gate_result(code: int | None, record: Gated | None, seconds: float, *, is_busy: bool) -> str:
    """What to say of a run of the gate.

    Args:
        code: exit status of make; None where its time was up.
        record: what the gate has written down.
        seconds: it took.
        is_busy: whether it was next to busy processes.
    """
    budget = BUSY_BUDGET_SECONDS if is_busy else BUDGET_SECONDS
    if code is None:
        return f"RED: not at its end within {GATE_SECONDS:.0f} s"
    if code != 0 or record is None:
        return record.result if record else f"RED: exit status {code}, and nothing was written down"
    return (
        "green" if seconds <= budget else f"RED: {seconds:.0f} s, more than the {budget} s that it may take"
    )


@contextlib.contextmanager
def cloned(checkout: Path) -> Iterator[Path]:
    """A fresh clone of a checkout's commit; gone afterwards, but for its logs.

    Raises:
        CalledProcessError: git refused.
    """
    folder = Path(tempfile.mkdtemp(prefix="prove-"))
    clone = folder / "clone"
    try:
        for words in (
            ["git", "clone", "--quiet", "--no-local", str(checkout), str(clone)],
            ["git", "-C", str(clone), "checkout", "--quiet", "--detach", _head(checkout)],
        ):
            subprocess.run(words, check=True)
        yield clone
    finally:
        logs, kept = clone / ".devcluster" / "logs", checkout / ".devcluster" / "logs" / "prove-gate"
        if logs.exists():
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(logs, kept)
        shutil.rmtree(folder, ignore_errors=True)


def _head(checkout: Path) -> str:
    words = ["git", "rev-parse", "HEAD"]
    return subprocess.run(words, cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()


def table(proof: Proof) -> list[str]:
    """Lines of a table: run, under load or not, seconds, those of the gate's stages, result."""
    stages = list(dict.fromkeys(took.stage for row in proof.rows for took in row.stages))
    heads = "".join(f"  {stage:>12}" for stage in stages)
    lines = [f"{'run':>3}  {'under load':<11}  {'seconds':>7}{heads}  result"]
    for row in proof.rows:
        took = {each.stage: f"{each.seconds:.0f} s" for each in row.stages}
        each = "".join(f"  {took.get(stage, ''):>12}" for stage in stages)
        lines.append(
            f"{row.number:>3}  {'yes' if row.busy else 'no':<11}  {row.seconds:>7.1f}{each}  {row.result}"
        )
        lines += [f"     {line}" for line in row.flaked]
    return lines


def keep(proof: Proof, record: Path) -> None:
    """The last proof of each test, and of the gate."""
    before = msgspec.json.decode(record.read_bytes(), type=list[Proof]) if record.exists() else []
    merged = {kept.what: kept for kept in [*before, proof]}
    record.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps([msgspec.to_builtins(merged[what]) for what in sorted(merged)], indent=1)
    record.write_text(f"{text}\n")


def prove(proof: Proof, rows: Iterable[Row], record: Path) -> int:
    """Play what is asked for, keep it, show the table; 0 where every run passed.

    Args:
        proof: without rows.
        rows: played one by one.
        record: where proofs are kept.
    """
    played = proof
    for row in rows:
        played = msgspec.structs.replace(played, rows=(*played.rows, row))
        keep(played, record)
        say(f"run {row.number} of {proof.times}: {row.result} ({row.seconds:.0f} s)")
    show(table(played))
    ends = "PROVEN" if played.is_whole else "NOT PROVEN"
    green = sum(row.is_green for row in played.rows)
    say(f"{ends}: {proof.what} passed in {green} of {proof.times} runs")
    return 0 if played.is_whole else 1


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line: ``gate``, ``test`` and ``times``."""
    parser = argparse.ArgumentParser(prog="make prove", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--gate", action="store_true", help="make test, from a fresh clone (GATE=1)")
    what.add_argument("--test", help="pytest's id of one test (TEST=)")
    parser.add_argument("--times", type=int, help="how many runs (N=)")
    found = parser.parse_args(words)
    found.times = (GATE_TIMES if found.gate else TIMES) if found.times is None else found.times
    if found.times < 1:
        parser.error(f"N is {found.times}: a proof takes at least one run.")
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Prove what is asked for; 0 where every run passed."""
    wanted = arguments(words)
    # Runs that wait for others, next to busy processes at that, prove nothing.
    with turn("make prove", say):
        return _proved(wanted, SystemClock())


def _proved(wanted: argparse.Namespace, clock: Clock) -> int:
    describe = tuple(machine.describe())
    begun = clock.now().isoformat(timespec="seconds")
    commit = commit_of(CHECKOUT)
    try:
        if wanted.test:
            proof = Proof(wanted.test, commit, begun, describe, wanted.times, ())
            plan = under_load(wanted.times, UNDER_LOAD)
            return prove(proof, rows_of(plan, playing_test(wanted.test, clock)), RECORD)
        proof = Proof(GATE, commit.removesuffix("+"), begun, describe, wanted.times, ())
        plan = under_load(wanted.times, GATE_UNDER_LOAD)
        with cloned(CHECKOUT) as clone:
            say(f"{proof.commit} is cloned; its virtual environment is made")
            if run(["make", "--no-print-directory", "binaries"], PREPARING_SECONDS, cwd=clone) != 0:
                say("NOT PROVEN: the clone could not be prepared")
                return 1
            return prove(proof, rows_of(plan, playing_gate(clone, clock)), RECORD)
    except KeyboardInterrupt:
        say("ended from outside: nothing is proven")
        return 1
    finally:
        remove_left_behind(say)


if __name__ == "__main__":
    sys.exit(main())
