"""Whose devices are given back since their pods are not bound: pure, and what is read and written."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from booking.controller.reclaimer.api_failures import ApiFailures
from booking.controller.reclaimer.conflicts.given_back import LOOKS_EVERY, UNUSED_FOR, GivenBack
from booking.controller.reclaimer.conflicts.unused_claims import unused_claims
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import names
from cluster.decide.ledger.holdings import PodHoldings
from cluster.decide.ledger.view import NodeView, view_of
from cluster.kube.resources import PODS, RESOURCE_CLAIMS
from cluster.objects.claims import ClaimedDevice, PodClaims
from cluster.objects.pods import Pod
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import a100, a_pod

Json = dict[str, Any]

DEVICE = msgspec.structs.replace(a100(0), claimed_as="gpu-0")
PLACE = ("n0", "gpu-0")
NONE = frozenset[tuple[str, str]]()


def waiting(name: str = "p", claim: str = "c", **more: Any) -> Pod:
    """A pod that is not bound, and whose claim has the device."""
    pod = replace(a_pod(name), **more).obj
    claims = PodClaims(count=1, uids=(claim,), held=(ClaimedDevice(claim, *PLACE),))
    return msgspec.structs.replace(pod, claims=claims)


def had(claim: str = "c", *, users: tuple[str, ...] | None = (), memory: int = 0) -> PodHoldings:
    """What a claim has, which is reserved for these pods."""
    return PodHoldings(claim, "n0", devices={}, claimed=(ClaimedDevice(claim, *PLACE, memory),), users=users)


def node(*holdings: PodHoldings, fault: str | None = None) -> NodeView:
    return view_of("n0", devices=(DEVICE,), fault=fault, holdings=holdings, on_hold={})


def found(view: NodeView, *pods: Pod, kept: frozenset[tuple[str, str]] = NONE) -> set[str]:
    """Uids of the claims that have it for nobody."""
    return set(unused_claims(snapshot(FakeCluster(), view, *pods), kept))


def snapshot(cluster: FakeCluster, view: NodeView, *pods: Pod) -> ReclaimerSnapshot:
    """This instant; the node's agent is well."""
    alive: Any = {"n0": (view, "alive")}
    return replace(cluster.snapshot(), node_snapshots=alive, pods={pod.metadata.uid: pod for pod in pods})


def test_a_claim_that_is_reserved_for_nobody_has_its_device_in_vain() -> None:
    assert found(node(had()), waiting()) == {"c"}
    assert found(node(had()), waiting("p"), waiting("q")) == {"c"}, "both wait"


@pytest.mark.parametrize(
    ("view", "pods"),
    [
        (node(had(users=("u",))), [waiting()]),
        (node(had(users=None)), [waiting()]),
        (node(had()), [waiting(), waiting("q", node="n0")]),
        (node(had()), [waiting(), waiting("q", deleted=True)]),
        (node(had()), [waiting(scheduler="another")]),
        (node(had(), fault="nobody can read it"), [waiting()]),
        (node(), [waiting()]),
        (node(had(), had("d")), [waiting()]),
        (node(had(memory=10), had("d")), [waiting()]),
    ],
    ids=[
        *("it is being bound", "a pod is bound", "another one is", "another one ends", "not our scheduler's"),
        *("closed", "not known yet", "another claim has it", "another one has all of it"),
    ],
)
def test_what_is_used_or_may_be_or_would_be_given_twice_is_kept(view: NodeView, pods: list[Pod]) -> None:
    assert not found(view, *pods)


def test_a_device_that_another_claim_has_is_given_back_where_nobody_gets_it() -> None:
    assert found(node(had(), had("d")), waiting(), kept=frozenset({PLACE})) == {"c"}
    assert found(node(had(memory=10), had("d", memory=10)), waiting()) == {"c"}, "shares are added up"


def test_a_claim_that_kube_scheduler_makes_for_an_extended_resource_is_its_own_affair() -> None:
    pod = waiting()
    assert pod.claims
    extended = msgspec.structs.replace(pod.claims, resources=("example.com/gpu",))
    assert not found(node(had()), msgspec.structs.replace(pod, claims=extended))


class World:
    """A claim with a device and the pod that waits for it, and the controller that looks at them."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.kube = self.cluster.kube
        body: Json = a_pod("p").raw
        body["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "c"}]
        self.namespace = body["metadata"]["namespace"]
        self.pod = self.kube.put(PODS, body)
        spec = {"devices": {"requests": [{"name": "gpu"}]}}
        claim = self.kube.put(
            RESOURCE_CLAIMS, {"metadata": {"name": "c", "namespace": self.namespace}, "spec": spec}
        )
        self.uid = claim.metadata.uid
        self.write(allocation={"devices": {"results": [{"driver": names.DRA_DRIVER, "pool": "n0"}]}})
        failures = ApiFailures(self.cluster.metrics)
        context: Any = SimpleNamespace(kube=self.kube, clock=self.cluster.clock, failures=failures)
        self.given_back = GivenBack(context, names.DRA_DRIVER)

    def write(self, **status: Any) -> None:
        self.kube.patch(
            RESOURCE_CLAIMS, "c", {"status": status}, namespace=self.namespace, subresource="status"
        )

    def look(self, *, after: float = LOOKS_EVERY) -> None:
        """A pass so many seconds later; our watches show the claim as it was at first."""
        self.cluster.clock.advance(after)
        claims = PodClaims(count=1, uids=(self.uid,), held=(ClaimedDevice(self.uid, *PLACE),))
        pod = msgspec.structs.replace(self.pod, claims=claims)
        self.given_back.reconcile(snapshot(self.cluster, node(had(self.uid)), pod))

    @property
    def has_device(self) -> bool:
        claim = self.kube.get(RESOURCE_CLAIMS, "c", namespace=self.namespace)
        return claim.status.allocation is not None

    @property
    def version(self) -> str:
        return self.kube.get(PODS, "p", namespace=self.namespace).metadata.resource_version


@pytest.fixture
def world() -> World:
    return World()


def test_it_is_given_back_once_it_has_not_changed_for_long_enough(world: World) -> None:
    world.look()
    world.look(after=UNUSED_FOR - LOOKS_EVERY)
    assert world.has_device
    world.look()
    assert not world.has_device
    assert world.version != world.pod.metadata.resource_version, "no earlier Binding can arrive any more"


def test_a_claim_that_was_reserved_meanwhile_keeps_it_though_our_watch_does_not_show_it(
    world: World,
) -> None:
    world.look()
    for users in ([{"resource": "pods", "name": "p", "uid": "u"}], None):
        world.write(reservedFor=users)
    world.look(after=UNUSED_FOR)
    assert world.has_device, "it was about to be bound"
    world.look()
    world.look(after=UNUSED_FOR)
    assert not world.has_device, "since then nobody has tried"


def test_what_is_reserved_for_something_else_than_a_pod_keeps_it(world: World) -> None:
    world.write(reservedFor=[{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "uid": "g"}])
    world.look()
    world.look(after=UNUSED_FOR)
    assert world.has_device


def test_a_pod_that_is_bound_though_our_watch_does_not_show_it_keeps_it(world: World) -> None:
    world.look()
    body = {"target": {"kind": "Node", "name": "n0"}, "metadata": {"name": "p"}}
    world.kube.create_subresource(PODS, "binding", body, name="p", namespace=world.namespace)
    world.look(after=UNUSED_FOR)
    assert world.has_device
