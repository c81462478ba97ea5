"""What is decided about a stage of whole clusters by what failed in it: what is repeated, how it ends. Pure.

A broken law is never repeated; any other test that failed is repeated once, alone, on a fresh cluster.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from tests.running.outcome import AFTERWARDS, COLLECTION, FAILED, Failure, Played

MOST_REPEATED: Final = 2
"""Tests; where more have failed it is no matter of one test any more."""
UNREPEATABLE: Final = (COLLECTION, AFTERWARDS)
"""What fails then is no test that could be played alone."""


class Run(msgspec.Struct, frozen=True):
    """How a process of pytest ended.

    Args:
        code: its exit status; None where its time was up.
        played: what it wrote down; None where it did not get so far.
    """

    code: int | None
    played: Played | None

    @property
    def is_green(self) -> bool:
        """Whether it has played something, all of it, and nothing failed."""
        return self.code == 0 and self.played is not None and self.played.passed > 0

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What failed, in its order."""
        return self.played.failures if self.played else ()


class Verdict(msgspec.Struct, frozen=True):
    """How a stage ended.

    Args:
        red: why it is red, for a run's last line; empty where it is green.
        flaked: tests that failed, and passed when they were repeated: with their first reason.
        first: what failed first and was not made good by a repetition.
        seed: of the order of the tests, where one was drawn.
    """

    red: str = ""
    flaked: tuple[Failure, ...] = ()
    first: Failure | None = None
    seed: int | None = None


def to_repeat(run: Run) -> tuple[str, ...]:
    """The tests to repeat; none where nothing failed, or where it is decided without.

    Decided are a broken law, a run that was ended or has not played all of its tests, one in which too many
    failed, and what failed outside of tests: collection, and the end of what tests share.
    """
    failures = run.failures
    if run.code != FAILED or run.played is None or run.played.unplayed:
        return ()
    if any(failure.law or failure.when in UNREPEATABLE for failure in failures):
        return ()
    failed = tuple(dict.fromkeys(failure.test for failure in failures))
    return failed if len(failed) <= MOST_REPEATED else ()


def verdict(first: Run, again: Mapping[str, Run]) -> Verdict:
    """How it ends, and what plays it again.

    Args:
        first: all tests in one process.
        again: test -> how its repetition ended, of those that were repeated.
    """
    seed = first.played.seed if first.played else None
    return msgspec.structs.replace(_verdict(first, again), seed=seed)


def _verdict(first: Run, again: Mapping[str, Run]) -> Verdict:
    broken = next((f for run in (first, *again.values()) for f in run.failures if f.law), None)
    if broken is not None:
        return Verdict(red=f"law {broken.law} broken in {broken.test}", first=broken)
    if first.is_green:
        return Verdict()
    wanted = to_repeat(first)
    twice = next(
        (failure for failure in first.failures if failure.test in again and not again[failure.test].is_green),
        None,
    )
    if twice is not None:
        return Verdict(red=f"{twice.test} failed twice: {twice.reason}", first=twice)
    if wanted and set(wanted) == set(again):
        return Verdict(flaked=first.failures)
    return Verdict(red=_undone(first), first=next(iter(first.failures), None))


def _undone(run: Run) -> str:
    """Why a run is red that nothing can make good."""
    failure = next(iter(run.failures), None)
    failed = f"{failure.test} failed: {failure.reason}" if failure else ""
    if run.code is None:
        return f"not at its end in time{f'; {failed}' if failed else ''}"
    if run.played is None:
        return f"pytest ended with exit status {run.code} and has written nothing down"
    if run.played.unplayed and failure:
        return f"{failed}; not played any more: {run.played.unplayed}"
    return failed or f"exit status {run.code}, {run.played.passed} passed"
