"""``make e2e``: the gate's share of whole clusters, in one process; what fails is repeated once, alone.

It ends with what led to the first failure, in few lines, and leaves its verdict for the gate.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from devcluster.machine import remove_left_behind
from devcluster.paths import CHECKOUT
from tests.patience import PATIENCE
from tests.running import flakes, outcome
from tests.running.commit import commit_of
from tests.running.outcome import Failure
from tests.running.saying import say, show
from tests.running.stages import run
from tests.running.summary import LINES, Section, shorten
from tests.running.verdict import MOST_REPEATED, Run, Verdict, to_repeat, verdict

TESTS: Final = "tests/e2e"
FAILURES: Final = MOST_REPEATED + 1
"""After so many the rest is not played: it is no matter of one test any more."""
AGAIN_SECONDS: Final = 2 * PATIENCE
"""For one test alone, with the start of its cluster and its end: longer than anything in it may take."""
FIRST_SECONDS: Final = (FAILURES + 1) * PATIENCE
"""For all of them, of which so many may wait in vain."""
SECONDS: Final = FIRST_SECONDS + (FAILURES - 1) * AGAIN_SECONDS + 30
"""What all of it may take at most."""
GRACE_SECONDS: Final = 12.0
"""For pytest to tidy up when it is ended: less than the gate gives to all of this."""
RECORD: Final = CHECKOUT / ".devcluster" / "e2e.json"
AGAIN: Final = outcome.KEPT / "again"
"""Logs of what failed when it was repeated."""
_SPARE: Final = 5
"""Lines that those who called this print below."""


def play(
    words: Sequence[str], seconds: float, *, logs: Path = outcome.KEPT, checkout: Path = CHECKOUT
) -> Run:
    """Run pytest, with the plugin that writes down what fails.

    Args:
        words: which tests, and how.
        seconds: that it may take.
        logs: the folder for logs of clusters whose tests failed.
        checkout: where it runs.
    """
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "played.json")
        command = [sys.executable, "-m", "pytest", "-q", *outcome.arguments(record, logs), *words]
        code = run(command, seconds, cwd=checkout, grace=GRACE_SECONDS)
        ended = Run(code, outcome.read(record))
    remove_left_behind(say)
    return ended


def judge(tests: str, draws: Sequence[str], checkout: Path = CHECKOUT) -> Verdict:
    """Play all tests below a folder, then what failed once more, each alone.

    Args:
        tests: from the root of the checkout.
        draws: options that say what is drawn.
        checkout: where they are.
    """
    shown = [f"--maxfail={FAILURES}", "--durations=10", "--durations-min=5"]
    first = play([*draws, *shown, "-m", "e2e", tests], FIRST_SECONDS, checkout=checkout)
    again: dict[str, Run] = {}
    for test in to_repeat(first):
        say(f"{test} failed; it is repeated, alone")
        again[test] = play([*draws, test], AGAIN_SECONDS, logs=AGAIN, checkout=checkout)
        if not again[test].is_green:
            break
    return verdict(first, again)


def report(found: Verdict) -> list[str]:
    """What to show of a verdict: few lines for one that is red, a line for each test that flaked."""
    if not found.red:
        return [flakes.line_of(failure) for failure in found.flaked]
    first = found.first
    if first is None:
        return [f"RED: {found.red}"]
    seed = (f"--randomly-seed={found.seed}",) if found.seed is not None else ()
    head = Section("RED", ("stage e2e", found.red, first.reason, _when(first), *seed))
    return shorten([head, *first.sections], LINES - _SPARE)


def _when(failure: Failure) -> str:
    return f"{failure.when}, {failure.at}, load {failure.load}, steal {failure.steal} %"


def main(draws: Sequence[str]) -> int:
    """Play the stage; 0 where it is green."""
    RECORD.unlink(missing_ok=True)
    try:
        found = judge(TESTS, draws)
    except KeyboardInterrupt:
        say("ended from outside: nothing was decided")
        return 1
    commit = commit_of(CHECKOUT)
    flakes.keep(flakes.flake(failure, commit) for failure in found.flaked)
    RECORD.parent.mkdir(parents=True, exist_ok=True)
    RECORD.write_bytes(msgspec.json.encode(found))
    show(report(found))
    return 1 if found.red else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
