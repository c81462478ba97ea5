"""The gate (``make test``): whether a change may land.

Stages run one after the other; the first red one ends the run and is named. What takes longer than a gate may
take stands in tests/long (``make test-long``).
"""

import sys
from collections.abc import Sequence
from typing import Final

from cluster.runtime.clock import SystemClock
from devcluster.machine import remove_left_behind
from tests.running import machine
from tests.running.stages import Outcome, Stage, play
from tests.running.turn import turn

STAGES: Final = (
    Stage("check", 300),
    Stage("unit", 600),
    Stage("component", 240),
    Stage("controlplane", 180),
    Stage("e2e", 420),
)
BUDGET_SECONDS: Final = 12 * 60
"""What a green run may take on two quiet cores with binaries built. Limits of stages are for hangs."""


def command(stage: Stage) -> list[str]:
    """Every stage is a goal of the Makefile, so that it can be played alone."""
    return ["make", "--no-print-directory", stage.name]


def summary(outcomes: Sequence[Outcome]) -> str:
    """The last line of a run."""
    last = outcomes[-1]
    if not last.is_green:
        return str(last)
    took = sum(outcome.seconds for outcome in outcomes)
    each = ", ".join(f"{outcome.stage.name} {outcome.seconds:.0f} s" for outcome in outcomes)
    late = f" (more than the {BUDGET_SECONDS} s that a gate may take)" if took > BUDGET_SECONDS else ""
    return f"GREEN in {took:.0f} s{late}: {each}"


def main() -> int:
    """Play the gate when it is its turn; 0 where every stage is green."""
    with turn("make test", _say):
        return _judge()


def _judge() -> int:
    remove_left_behind(_say)
    for line in machine.describe():
        _say(line)
    try:
        outcomes = play(STAGES, command, clock=SystemClock(), say=_say)
    except KeyboardInterrupt:
        _say("ended from outside: nothing was decided")
        return 1
    finally:
        remove_left_behind(_say)
    _say(summary(outcomes))
    return 0 if outcomes[-1].is_green else 1


def _say(line: str) -> None:
    sys.stdout.write(f"== {line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
