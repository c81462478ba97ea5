"""The life of the rules that keep devices of claims: known before anybody leaves, and removed in time."""

from dataclasses import replace

import msgspec
import pytest

from booking.controller.reclaimer.api_failures import ApiFailures
from booking.controller.reclaimer.holds.taint_rules import SEEN_WITHIN, TaintRules
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import names
from cluster.kube.resources import TAINT_RULES
from cluster.objects.claims import KNOWN_AFTER, PodClaims
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a100

HOLD = Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-b0",), at=EPOCH)


class World:
    """One waiting pod, and the controller that keeps a device for it."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.add_node("n0", msgspec.structs.replace(a100(0), claimed_as="gpu-0"))
        self.pod = self._claiming(self.cluster.waiting())
        self.take_over()

    def take_over(self) -> None:
        """Another process leads."""
        cluster = self.cluster
        failures = ApiFailures(cluster.metrics)
        self.rules = TaintRules(cluster.kube, cluster.clock, failures, names.DRA_DRIVER)

    def seen(self, *, holds: bool = True) -> ReclaimerSnapshot:
        """The cluster, as a watch without any delay shows it."""
        found = self.cluster.snapshot()
        pod = self._claiming(self.cluster.pod("a"))
        shown = {one.metadata.name: one for one in self.cluster.kube.list(TAINT_RULES).items}
        mine = {pod.metadata.uid: HOLD} if holds else {}
        return replace(found, pods={pod.metadata.uid: pod}, taint_rules=shown, holds=mine)

    def keep(self, seen: ReclaimerSnapshot | None = None) -> bool:
        return self.rules.keep(self.pod, HOLD, seen or self.seen())

    def kept(self) -> None:
        """The device is kept, and kube-scheduler knows it."""
        assert not self.keep()
        self.cluster.clock.advance(KNOWN_AFTER)
        assert self.keep()

    @property
    def there(self) -> list[str]:
        """Uids of the rules that are stored."""
        return [one.metadata.uid for one in self.cluster.kube.list(TAINT_RULES).items]

    @staticmethod
    def _claiming(pod: Pod) -> Pod:
        return msgspec.structs.replace(pod, claims=PodClaims(count=1, keys=("mine",)))


@pytest.fixture
def world() -> World:
    return World()


def test_a_device_is_kept_once_its_rule_is_old_enough_and_until_the_hold_is_gone(world: World) -> None:
    world.kept()
    world.rules.sweep(world.seen())
    assert len(world.there) == 1
    world.rules.sweep(world.seen(holds=False))
    assert world.there == []


def test_a_rule_that_was_removed_is_written_again_although_the_watch_still_shows_it(world: World) -> None:
    """Or victims would leave for a device that nothing keeps."""
    world.kept()
    late = world.seen(holds=False)
    world.rules.sweep(late)
    assert not world.keep(late)
    assert len(world.there) == 1


def test_a_rule_that_somebody_has_removed_is_written_again(world: World) -> None:
    world.kept()
    world.cluster.kube.delete(TAINT_RULES, next(iter(world.seen().taint_rules)))
    assert not world.keep()
    assert len(world.there) == 1


def test_after_another_process_has_led_a_rule_must_grow_old_again(world: World) -> None:
    world.kept()
    world.rules.start_again()
    assert not world.keep()


def test_a_rule_whose_hold_is_not_known_yet_is_not_removed_at_once(world: World) -> None:
    """Rules and pods come by two watches: of a process that led before, the rule may come first."""
    world.kept()
    world.take_over()
    world.rules.sweep(world.seen(holds=False))
    assert len(world.there) == 1
    world.cluster.clock.advance(SEEN_WITHIN)
    world.rules.sweep(world.seen(holds=False))
    assert world.there == []


def test_a_rule_of_a_pod_that_is_bound_is_removed_at_once(world: World) -> None:
    world.kept()
    world.take_over()
    world.cluster.bind("a", 0)
    world.rules.sweep(world.seen())
    assert world.there == []
