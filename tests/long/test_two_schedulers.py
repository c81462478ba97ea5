"""Two pairs of kube-scheduler and extender (mode ``dedicated``): the leader is killed, shaken and frozen."""

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import pytest

from cluster import names
from cluster.kube.resources import LEASES
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.daemons import Daemon
from devcluster.product import Parts
from devcluster.wait import Stopwatch
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

GPUS = 8
CRASHES = 4
FROZEN = 20.0
"""Seconds for which a process is stopped: longer than the Lease lasts."""


@dataclass(frozen=True)
class Pair:
    """A kube-scheduler and the extender that it asks."""

    extender: Daemon
    scheduler: Daemon

    @property
    def prefix(self) -> str:
        """How its identity in the Lease begins."""
        return f"{self.scheduler.name}_"


@pytest.fixture
def pairs(parts: Parts) -> Iterator[tuple[Pair, Pair]]:
    """Two that run; the second one is gone afterwards."""
    with parts.electing():
        first, second = Pair(parts.extender(), parts.scheduler()), Pair(*parts.start_pair(1))
        parts.await_ready()
        try:
            yield first, second
        finally:
            second.scheduler.kill()
            second.extender.kill()


def leader(pairs: tuple[Pair, Pair], playground: Playground, since: datetime) -> Pair | None:
    """The pair whose scheduler has renewed the Lease since then.

    One that was killed is named in it for a while, and one that took its place has its name.
    """
    spec = playground.kube.get(LEASES, names.SCHEDULER_LEASE, namespace=names.NAMESPACE).spec
    holder = (spec.holder_identity or "") if spec.renew_time and spec.renew_time > since else ""
    return next((pair for pair in pairs if holder.startswith(pair.prefix)), None)


def leading(pairs: tuple[Pair, Pair], playground: Playground) -> Pair:
    now = SystemClock().now()
    return playground.await_that("one of the schedulers leads", lambda: leader(pairs, playground, now))


def create(playground: Playground, prefix: str, number: int) -> list[str]:
    return playground.create_all(
        probe.pod(f"{prefix}-{n}", [probe.container("main", gpus=1)]) for n in range(number)
    )


def check(playground: Playground, pods: list[str]) -> None:
    """All of them run, everybody says the same about them, and no device is given twice."""
    playground.await_phase(pods)
    for name in pods:
        playground.check_agreement(name)
    playground.check_law_1()
    assert len({u for p in pods for us in playground.assignment(p).values() for u in us}) == len(pods)


def stand_still(since: Stopwatch) -> None:
    """Until what is frozen has been so for long enough."""
    SystemClock().wait(threading.Event(), max(0.0, FROZEN - since.seconds))


def test_the_leading_pair_is_killed_in_a_burst_and_the_other_goes_on(
    playground: Playground, pairs: tuple[Pair, Pair]
) -> None:
    killed = leading(pairs, playground)
    pods = create(playground, "burst", GPUS // 2)
    killed.extender.kill()
    killed.scheduler.kill()
    since = Stopwatch()
    after = create(playground, "after", GPUS // 2)
    playground.await_that("one is bound", lambda: playground.pod(after[0]).spec.node_name)
    sys.stdout.write(f"scheduling resumed {since.seconds:.1f} s after the leading pair was killed\n")
    check(playground, [*pods, *after])
    now = leading(pairs, playground)
    assert now != killed
    killed.extender.restart()
    killed.scheduler.restart()


def test_an_extender_that_crashes_again_and_again_loses_no_pod(
    playground: Playground, pairs: tuple[Pair, Pair], parts: Parts
) -> None:
    shaken = leading(pairs, playground).extender
    pods: list[str] = []
    for crash in range(CRASHES):
        pods += create(playground, f"crash-{crash}", GPUS // CRASHES)
        shaken.restart()
        playground.await_that("the extender is ready again", lambda: parts.is_ready(shaken) or None)
    check(playground, pods)


def test_a_pair_whose_extender_stays_away_delays_no_pod_once_its_scheduler_has_ended(
    playground: Playground, pairs: tuple[Pair, Pair]
) -> None:
    """Its scheduler keeps the Lease until then; what ends it in a pod is its liveness probe."""
    away = leading(pairs, playground)
    away.extender.kill()
    pods = create(playground, "pod", GPUS // 2)
    for name in pods:
        playground.await_scheduler_error(name)
    assert leading(pairs, playground) == away
    away.scheduler.kill()
    check(playground, pods)
    away.extender.restart()
    away.scheduler.restart()


def test_an_extender_that_was_paused_and_resumes_does_no_harm(
    playground: Playground, pairs: tuple[Pair, Pair]
) -> None:
    frozen = leading(pairs, playground)
    first = create(playground, "first", 3)
    frozen.extender.pause()
    since = Stopwatch()
    try:
        then = create(playground, "then", 3)
        for name in then:
            playground.await_scheduler_error(name)
        stand_still(since)
    finally:
        frozen.extender.resume()
    last = create(playground, "last", GPUS - 6)
    check(playground, [*first, *then, *last])


def test_a_leading_pair_that_was_paused_and_resumes_does_no_harm(
    playground: Playground, pairs: tuple[Pair, Pair]
) -> None:
    frozen = leading(pairs, playground)
    first = create(playground, "first", 3)
    for daemon in (frozen.extender, frozen.scheduler):
        daemon.pause()
    since, frozen_at = Stopwatch(), SystemClock().now()
    try:
        then = create(playground, "then", 3)
        playground.await_that(
            "the other pair leads",
            lambda: leader(pairs, playground, frozen_at) not in {None, frozen} or None,
        )
        playground.await_phase(then)
        stand_still(since)
    finally:
        for daemon in (frozen.extender, frozen.scheduler):
            daemon.resume()
    last = create(playground, "last", GPUS - 6)
    check(playground, [*first, *then, *last])
