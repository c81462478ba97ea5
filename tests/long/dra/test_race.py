"""Booked pods race with twenty pods that wait and twenty that come for devices that are kept for them.

``RACE_ROUNDS=...`` plays so many rounds.
"""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pytest

from cluster import names
from cluster.kube.resources import TAINT_RULES
from devcluster.cluster import Cluster
from devcluster.product import Parts
from devcluster.wait import Stopwatch
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.testbed import GPUS, NODES
from tests.long.dra.ground import BY_CLAIM, Place, claiming, devices_of, given_by_claims, template
from tests.long.dra.sights import looked_at

ROUNDS: Final = int(os.environ.get("RACE_ROUNDS", "30"))
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600 + 60 * ROUNDS)]

BOOKED: Final = 2
"""Booked pods of a round."""
WAITING: Final = 20
"""Pods without a booking that wait when the booked ones come, and as many that come after those."""
GREEDY: Final = "greedy"
"""A template whose claims tolerate everything, if they may."""


class Race:
    """Bob's pods have all GPUs, and more of them wait."""

    def __init__(self, playground: Playground, alice: Person, bob: Person) -> None:
        self._ground, self._alice, self._bob = playground, alice, bob
        self._made = 0
        self._pool = ThreadPoolExecutor(8)
        self.evicted = 0

    def begin(self) -> None:
        """All GPUs are in use, and enough pods wait."""
        self._rivals(GPUS * len(NODES) + WAITING)
        self._ground.await_that("all GPUs are in use", self._is_full)

    def round(self, number: int) -> list[str]:
        """Who has lost what was kept for it; all is as at the beginning when this returns."""
        booked = [self._alice.create(claiming(f"alice-{number}-{n}")) for n in range(BOOKED)]
        uids = {self._ground.pod(name).metadata.uid: name for name in booked}
        kept: dict[str, Place] = {}
        self._ground.await_that("GPUs are kept for both", lambda: self._kept(uids, kept))
        self._rivals(WAITING)
        self._ground.await_phase(booked)
        had = devices_of(self._ground)
        lost = [
            f"{uids[uid]} has {had.get(uid)}, kept was {kept[uid]}"
            for uid in uids
            if had.get(uid) != kept[uid]
        ]
        self._ground.await_that("the pods that left are back", lambda: self._are_back() or None)
        for name in booked:
            self._ground.delete(name)
        self._ground.await_that("others have these GPUs", self._is_full)
        self._ground.await_that(
            "no GPU is kept", lambda: not self._ground.kube.list(TAINT_RULES).items or None
        )
        self._thin_out()
        return lost

    def _rivals(self, count: int) -> None:
        names_ = [f"bob-{self._made + n:04d}" for n in range(count)]
        self._made += count
        bodies = [
            claiming(name, resourceClaimTemplateName=GREEDY) if number % 2 else claiming(name)
            for number, name in enumerate(names_)
        ]
        list(self._pool.map(self._bob.create, bodies))

    def _kept(self, uids: dict[str, str], kept: dict[str, Place]) -> bool:
        for rule in self._ground.kube.list(TAINT_RULES).items:
            where, uid = rule.spec.device_selector, (rule.metadata.labels or {})[names.HOLD_OF]
            if uid in uids:
                kept[uid] = (where.pool or "", where.device or "")
        return kept.keys() == uids.keys()

    def _is_full(self) -> bool:
        """Whether pods of bob's run with all GPUs."""
        running_ = {
            pod.metadata.uid
            for pod in self._ground.pods()
            if pod.metadata.name.startswith("bob") and pod.status.phase == "Running"
        }
        return len(devices_of(self._ground).keys() & running_) == GPUS * len(NODES)

    def _are_back(self) -> bool:
        """Whether as many pods as were booked have come back without a GPU, and run."""
        back = [pod for pod in self._ground.pods() if pod.metadata.annotation(names.RECREATED_FROM)]
        return len(back) >= BOOKED and all(pod.status.phase == "Running" for pod in back)

    def _thin_out(self) -> None:
        """Let go who has come back, and all who wait but the first twenty."""
        pods = self._ground.pods()
        back = [pod.metadata.name for pod in pods if pod.metadata.annotation(names.RECREATED_FROM)]
        self.evicted += len(back)
        waiting = sorted(pod.metadata.name for pod in pods if not pod.spec.node_name)
        list(self._pool.map(self._ground.delete, [*back, *waiting[WAITING:]]))
        gone = {*back, *waiting[WAITING:]}
        self._ground.await_that(
            "they are gone",
            lambda: gone.isdisjoint(pod.metadata.name for pod in self._ground.pods()) or None,
        )


def outcomes(parts: Parts) -> dict[str, float]:
    """What has become of holds, by the controller's metrics."""
    _, text = parts.ask(parts.controller(), "/metrics")
    lines = (line for line in text.splitlines() if "reclaimer_holds_total{" in line)
    return {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in lines}


def test_no_device_that_is_kept_is_lost_to_a_rival(
    cluster: Cluster, parts: Parts, playground: Playground, alice: Person, bob: Person
) -> None:
    watch = Stopwatch()
    with given_by_claims(parts, playground, *NODES), looked_at(cluster):
        playground.apply(template(GREEDY, tolerations=[{"operator": "Exists"}]))
        before = outcomes(parts)
        race = Race(playground, alice, bob)
        race.begin()
        alice.book(BOOKED, model=BY_CLAIM)
        lost = [one for number in range(ROUNDS) for one in race.round(number)]
        after = {key: value - before.get(key, 0) for key, value in outcomes(parts).items()}
    sys.stdout.write(f"{ROUNDS} rounds in {watch.seconds:.0f} s: {after}, {race.evicted} pods have left\n")
    assert not lost
    assert race.evicted == BOOKED * ROUNDS, "nobody left in vain"
    assert after["bound"] == after["written"] == BOOKED * ROUNDS
