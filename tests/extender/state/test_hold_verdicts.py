"""Which verdicts on pods with a hold are published, and for how long (law L3)."""

from collections.abc import Callable

import msgspec

from cluster.fake.clock import FakeClock
from cluster.objects.hold_verdicts import ACCEPTED, NOT_FREE, NOT_NOW, REFUSED, HoldVerdict
from cluster.objects.pods import Pod
from extender.state.hold_verdicts import ASKED_WITHIN, HoldVerdicts
from tests.fakes.objects import a_pod

GIVEN: dict[str, HoldVerdict] = {"a": ACCEPTED, "r": REFUSED, "f": NOT_FREE, "n": NOT_NOW}
LASTING = {"f": NOT_FREE, "n": NOT_NOW}


def given(clock: FakeClock) -> HoldVerdicts:
    verdicts = HoldVerdicts(clock)
    for uid, verdict in GIVEN.items():
        verdicts.note(uid, verdict)
    return verdicts


def waiting(reason: str) -> Callable[[str], Pod | None]:
    """Every pod waits, with this reason in kube-scheduler's condition."""
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    pod = msgspec.convert({**a_pod().raw, "status": {"conditions": [condition]}}, Pod)
    return lambda _uid: pod


REJECTED, FAILED = waiting("Unschedulable"), waiting("SchedulerError")


def gone(_uid: str) -> Pod | None:
    return None


def test_what_says_no_more_than_a_rejection_is_not_published() -> None:
    assert given(FakeClock()).current(REJECTED) == LASTING


def test_after_an_error_every_verdict_counts_as_long_as_the_scheduler_asks() -> None:
    clock = FakeClock()
    verdicts = given(clock)
    assert verdicts.current(FAILED) == GIVEN
    clock.advance(ASKED_WITHIN)
    verdicts.note("r", REFUSED)
    assert verdicts.current(FAILED) == {"r": REFUSED}


def test_a_pod_that_the_scheduler_leaves_waiting_stays_behind() -> None:
    clock = FakeClock()
    verdicts = given(clock)
    clock.advance(10 * ASKED_WITHIN)
    assert verdicts.current(REJECTED) == LASTING


def test_nothing_is_published_of_a_pod_that_is_bound_or_gone() -> None:
    clock = FakeClock()
    verdicts = given(clock)
    assert verdicts.current(gone) == {}
    clock.advance(ASKED_WITHIN)
    assert verdicts.current(gone) == {}
    assert verdicts.current(REJECTED) == {}, "and it is forgotten"
