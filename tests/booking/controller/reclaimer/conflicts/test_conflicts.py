"""Which devices nobody may be given, since claims have them twice: pure, and what is written and removed."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from booking.controller.reclaimer.api_failures import ApiFailures
from booking.controller.reclaimer.conflicts.conflict_rules import SEEN_WITHIN, ConflictRules
from booking.controller.reclaimer.conflicts.spoiled_devices import given_twice, rule_for, spoiled
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import names
from cluster.cache import NodeSnapshots
from cluster.decide.ledger.amounts import Holding
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.ledger.liveness import Liveness
from cluster.decide.ledger.view import NodeView, view_of
from cluster.event_reasons import GPU_GIVEN_TWICE
from cluster.kube.resources import TAINT_RULES
from cluster.objects.claims import ClaimedDevice, PodClaims
from cluster.objects.pods import Pod
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import a100, a_pod

DEVICE = msgspec.structs.replace(a100(0), claimed_as="gpu-0")
PLACE = ("n0", "gpu-0")


def had_by(*claims: str, memory: int = 0) -> NodeView:
    """The node, of whose device each of these claims has all, or so many MiB."""
    holdings = tuple(
        PodHoldings(
            f"pod-{claim}",
            "n0",
            devices={
                DEVICE.uuid: Holding(DEVICE.uuid, memory, mode="time-slice" if memory else None, claim=claim)
            },
            claimed=(ClaimedDevice(claim, "n0", "gpu-0", memory),),
        )
        for claim in claims
    )
    return view_of("n0", devices=(DEVICE,), fault=None, holdings=holdings, on_hold={})


@pytest.mark.parametrize(
    ("view", "has_rule", "is_spoiled"),
    [
        (had_by("a"), False, False),
        (had_by("a", "b"), False, True),
        (had_by("a"), True, True),
        (had_by(), True, False),
        (had_by("a", "b", memory=DEVICE.memory), False, True),
        (had_by("a", memory=DEVICE.memory), True, False),
    ],
    ids=["one claim", "two", "two had it", "none has it any more", "too much of it", "it adds up again"],
)
def test_a_device_is_spoiled_from_when_two_claims_have_it_until_none_has(
    view: NodeView, *, has_rule: bool, is_spoiled: bool
) -> None:
    views = {"n0": view}
    twice = given_twice(views, {"n0": view.conflicts})
    assert spoiled(twice, views, [PLACE] if has_rule else ()) == ({PLACE} if is_spoiled else frozenset())
    assert spoiled(frozenset(), {}, [PLACE]) == {PLACE}, "its Node may come back"


def test_a_claim_beside_a_pod_of_the_device_plugin_is_no_claim_too_many() -> None:
    other = PodHoldings("other", "n0", devices={DEVICE.uuid: Holding(DEVICE.uuid)})
    view = had_by("a")
    view = view_of("n0", devices=(DEVICE,), fault=None, holdings=(*view.holdings, other), on_hold={})
    assert view.conflicts
    assert not given_twice({"n0": view}, {"n0": view.conflicts})


def test_a_rule_of_others_says_nothing() -> None:
    rule = msgspec.convert(rule_for(PLACE, names.DRA_DRIVER), TAINT_RULES.type)
    assert rule.spoils(names.DRA_DRIVER) == PLACE
    assert rule.spoils("another-driver") is None
    unmarked = msgspec.structs.replace(rule.metadata, labels={names.HOLD_OF: "somebody"})
    assert msgspec.structs.replace(rule, metadata=unmarked).spoils(names.DRA_DRIVER) is None


class World:
    """A node, and the controller that looks at it."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.cluster.add_node("n0", DEVICE)
        self.take_over()

    def take_over(self) -> None:
        """Another process leads."""
        cluster = self.cluster
        context: Any = SimpleNamespace(
            kube=cluster.kube,
            clock=cluster.clock,
            failures=ApiFailures(cluster.metrics),
            write_event=lambda pod, reason, message: cluster.events.append(
                (pod.metadata.name, reason, message)
            ),
        )
        self.rules = ConflictRules(context, names.DRA_DRIVER)

    def look(self, *claims: str) -> None:
        """A pass while these claims have the device; the watch of rules has no delay."""
        self.cluster.clock.advance(1.5)
        self.rules.reconcile(snapshot(self.cluster, had_by(*claims)))

    @property
    def there(self) -> int:
        return len(self.cluster.kube.list(TAINT_RULES).items)


def snapshot(cluster: FakeCluster, view: NodeView, *pods: Pod) -> ReclaimerSnapshot:
    """The cluster, as watches without any delay show it."""
    return replace(
        cluster.snapshot(),
        node_snapshots=NodeSnapshots({"n0": view}, Liveness(), monotonic=0.0),
        conflicts={"n0": view.conflicts} if view.conflicts else {},
        taint_rules={one.metadata.name: one for one in cluster.kube.list(TAINT_RULES).items},
        pods={pod.metadata.uid: pod for pod in pods},
    )


@pytest.fixture
def world() -> World:
    return World()


def test_a_rule_that_somebody_has_removed_is_written_again(world: World) -> None:
    world.look("a", "b")
    for rule in world.cluster.kube.list(TAINT_RULES).items:
        world.cluster.kube.delete(TAINT_RULES, rule.metadata.name)
    world.look("a", "b")
    assert world.there == 1


def test_another_process_removes_no_rule_while_its_claims_may_be_unknown_yet(world: World) -> None:
    world.look("a", "b")
    world.take_over()
    world.look()
    assert world.there == 1
    world.look("a")
    world.cluster.clock.advance(SEEN_WITHIN)
    world.look("a")
    assert world.there == 1, "the claim was late"
    world.look()
    assert world.there == 0


def test_each_pod_with_such_a_device_is_told_once(world: World) -> None:
    both = had_by("a", "b")
    for _ in range(2):
        pods = pod("a", phase="Running"), pod("b"), pod("other", device="gpu-1")
        world.rules.reconcile(snapshot(world.cluster, both, *pods))
    said = {name: text for name, reason, text in world.cluster.events if reason == GPU_GIVEN_TWICE}
    assert [name for name, _, _ in world.cluster.events] == ["a", "b"]
    assert "keeps it" in said["a"]
    assert "keeps it" not in said["b"]


def pod(claim: str, *, phase: str = "Pending", device: str = "gpu-0") -> Pod:
    """A pod whose claim has a device of the node."""
    found = a_pod(claim).obj
    status = msgspec.structs.replace(found.status, phase=phase)
    claims = PodClaims(count=1, uids=(claim,), held=(ClaimedDevice(claim, "n0", device),))
    return msgspec.structs.replace(found, status=status, claims=claims)
