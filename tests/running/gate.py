"""The gate (``make test``): whether a change may land.

Stages run one after the other; the first red one ends the run and is named, with its evidence. What takes
longer than a gate may take is in tests/long (``make test-long``).
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from cluster.process.clock import SystemClock
from devcluster.errors import ClusterError
from devcluster.machine import remove_left_behind
from devcluster.paths import CHECKOUT
from tests.running import e2e, flakes, machine
from tests.running.commit import commit_of
from tests.running.saying import say, show
from tests.running.stages import Outcome, Stage, log_of, play
from tests.running.summary import LINES, failures_in, law_in, sections_of, shorten
from tests.running.turn import turn
from tests.running.verdict import Verdict

STAGES: Final = (
    Stage("check", 300),
    Stage("unit", 900),
    Stage("component", 420),
    Stage("controlplane", 300),
    Stage("e2e", e2e.SECONDS),
)
BUDGET_SECONDS: Final = 12 * 60
"""What a green run may take on two quiet cores with binaries built. Limits of stages are for hangs."""
LOGS: Final = CHECKOUT / ".devcluster" / "logs" / "gate"
"""A file for what each stage has printed."""
RECORD: Final = CHECKOUT / ".devcluster" / "gate.json"
_SPARE: Final = 3


class Took(msgspec.Struct, frozen=True):
    """A stage and the seconds that it took."""

    stage: str
    seconds: float


class Record(msgspec.Struct, frozen=True):
    """The last run, for programs that count several.

    Args:
        commit: that was played.
        result: the run's last line.
        stages: those that were played.
        flaked: lines about tests that failed, and passed when they were repeated.
    """

    commit: str
    result: str
    stages: tuple[Took, ...]
    flaked: tuple[str, ...] = ()


def command(stage: Stage) -> list[str]:
    """Every stage is a goal of the Makefile, so that it can be played alone."""
    return ["make", "--no-print-directory", stage.name]


def summary(outcomes: Sequence[Outcome], why: str = "") -> str:
    """The last line of a run.

    Args:
        outcomes: of the stages that were played.
        why: what failed in the last of them.
    """
    last = outcomes[-1]
    if not last.is_green:
        return f"RED: {why}" if why.startswith("law ") else f"{last}{f': {why}' if why else ''}"
    took = sum(outcome.seconds for outcome in outcomes)
    each = ", ".join(f"{outcome.stage.name} {outcome.seconds:.0f} s" for outcome in outcomes)
    late = f" (more than the {BUDGET_SECONDS} s that a gate may take)" if took > BUDGET_SECONDS else ""
    return f"GREEN in {took:.0f} s{late}: {each}"


def closing(last: Outcome, output: Sequence[str], found: Verdict | None) -> tuple[list[str], str]:
    """What to show at the end of a run, and why it is red in a few words; nothing of a green one but flakes.

    Args:
        last: the stage that was played last.
        output: what it has printed.
        found: the verdict of the stage e2e, where that was the last and has come to one. It has just shown
            its evidence.
    """
    if last.is_green:
        return [flakes.line_of(failure) for failure in found.flaked] if found else [], ""
    if found is not None and found.red:
        return [], found.red
    failure = failures_in(output)
    law = next((broken for test in failure if (broken := law_in(test))), "")
    return shorten(sections_of(output), LINES - _SPARE), law or (failure[0].test if failure else "")


def main() -> int:
    """Play the gate when it is its turn; 0 where every stage is green."""
    with turn("make test", say):
        try:
            machine.prepare(say)
        except ClusterError as error:
            say(f"RED: {error}")
            return 1
        return _judge()


def _judge() -> int:
    for old in (RECORD, e2e.RECORD):
        old.unlink(missing_ok=True)
    try:
        outcomes = play(STAGES, command, clock=SystemClock(), say=say, logs=LOGS)
    except KeyboardInterrupt:
        say("ended from outside: nothing was decided")
        return 1
    finally:
        remove_left_behind(say)
    last, found = outcomes[-1], _verdict(e2e.RECORD)
    lines, why = closing(last, log_of(last.stage, LOGS).read_text(errors="replace").splitlines(), found)
    show(lines)
    result = summary(outcomes, why)
    took = tuple(Took(outcome.stage.name, round(outcome.seconds, 1)) for outcome in outcomes)
    flaked = tuple(flakes.line_of(failure) for failure in found.flaked) if found else ()
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_bytes(msgspec.json.encode(Record(commit_of(CHECKOUT), result, took, flaked)))
    say(result)
    return 0 if last.is_green else 1


def _verdict(file: Path) -> Verdict | None:
    return msgspec.json.decode(file.read_bytes(), type=Verdict) if file.exists() else None


if __name__ == "__main__":
    sys.exit(main())
