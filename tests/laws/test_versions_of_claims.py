"""L3 is judged at the versions of claims that a hold says to have been planned on."""

from dataclasses import replace

import pytest
from msgspec import structs

from cluster import names
from cluster.cache import CLAIM_KINDS
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from cluster.objects.hold import Hold, encode_versions
from demo.simulation.claim_devices import add_class, claim_spec, claimed, publish
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import A100, EPOCH, a100, a_pod
from tests.laws.breaking import breaks
from tests.laws.memory import watch_memory
from tests.laws.versions import versions_of
from tests.laws.watcher import LawWatcher

NEEDLESS = "n0 has 1 devices for which nobody has to go"
ONLY = "device.attributes['gpu.nvidia.com'].uuid == '{}'"
OF_CLAIMS = {kind.plural for kind in CLAIM_KINDS}


@pytest.fixture
def cluster() -> FakeCluster:
    """Bob's pod has GPU 1 by a claim, the claim of his other one has GPU 0, and alice's booked one waits."""
    cluster = FakeCluster()
    devices = [claimed(a100(index, "n0")) for index in range(2)]
    cluster.add_node("n0", *devices)
    add_class(cluster.kube)
    publish(cluster.kube, "n0", devices)
    cluster.book(model=f"{A100}{names.CLAIMED_MODEL}", resource=names.CLAIM_RESOURCE)
    for name, user, device in (("runs", "bob", "gpu-1"), ("waits", "bob", "gpu-0"), ("a", "alice", None)):
        claim(cluster, name, device)
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}]}
        spec |= {"nodeName": "n0"} if name == "runs" else {}
        cluster.create(a_pod(name).of(user), {"spec": spec})
    return cluster


@pytest.fixture
def laws(cluster: FakeCluster) -> LawWatcher:
    """They are watched with some seconds of leeway."""
    return watch_memory(cluster.kube, cluster.clock, leeway=5.0, claims=True)


def claim(cluster: FakeCluster, name: str, device: str | None, *expressions: str) -> None:
    """The claim of a pod, with a device or without, for GPUs that satisfy these expressions."""
    allocation = {"devices": {"results": [{"driver": names.DRA_DRIVER, "pool": "n0", "device": device}]}}
    status = {"allocation": allocation, "reservedFor": [{"resource": "pods", "uid": f"uid-{name}"}]}
    meta = {"name": name, "namespace": "default", "uid": f"uid-claim-{name}"}
    spec, toleration = claim_spec(*expressions), {"key": names.HELD_TAINT, "value": f"uid-{name}"}
    spec["devices"]["requests"][0]["exactly"]["tolerations"] = [toleration]
    body = {"metadata": meta, "spec": spec, "status": status if device else {}}
    cluster.kube.put(RESOURCE_CLAIMS, body)


def planned_now(cluster: FakeCluster, *, names_claims: bool = True) -> Hold:
    """GPU 1 is kept, by one who has had every event."""
    kinds = (PODS, NODES, BOOKINGS, LEASES, *(CLAIM_KINDS if names_claims else ()))
    state = encode_versions({kind.plural: cluster.kube.list(kind).resource_version for kind in kinds})
    return Hold(node="n0", devices=("GPU-n0-1",), victims=("uid-runs",), at=EPOCH, state=state)


def test_a_plan_is_just_that_had_not_seen_yet_how_a_claim_lost_its_device(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    planned = planned_now(cluster)
    claim(cluster, "waits", None)
    pods = {"pods": cluster.kube.list(PODS).resource_version}
    state = encode_versions({**{kind: str(at) for kind, at in versions_of(planned).items()}, **pods})
    cluster.hold("a", structs.replace(planned, state=state))
    laws.check()


def test_a_plan_is_needless_that_had_seen_it_though_it_was_not_a_moment_before(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    claim(cluster, "waits", None)
    with breaks(laws, "L3", NEEDLESS):
        cluster.hold("a", planned_now(cluster))


def test_a_plan_that_had_not_seen_yet_that_a_claim_exists_is_judged_without_it(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    claim(cluster, "waits", None)
    planned = planned_now(cluster)
    claim(cluster, "waits", "gpu-0")
    with breaks(laws, "L3", NEEDLESS):
        cluster.hold("a", planned)


def test_a_plan_of_an_older_controller_names_no_claims_and_is_judged_in_the_leeway(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    claim(cluster, "waits", None)
    cluster.hold("a", planned_now(cluster, names_claims=False))
    laws.check()


def test_nobody_plans_who_has_had_no_event_of_claims_for_too_long(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    planned = planned_now(cluster)
    claim(cluster, "new", None)
    cluster.clock.advance(156)
    cluster.renew()
    with breaks(laws, "L6", "by one who knows resourceclaims as of version"):
        cluster.hold("a", planned)


def test_a_device_that_a_claim_does_not_accept_is_not_free_for_it(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    claim(cluster, "waits", None)
    claim(cluster, "a", None, ONLY.format("GPU-n0-1"))
    cluster.hold("a", planned_now(cluster))
    laws.check()


def test_a_device_that_a_claim_does_not_accept_is_not_kept_for_it(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    claim(cluster, "a", None, ONLY.format("GPU-n0-0"))
    with breaks(laws, "L3", "GPU-n0-1 is not what the pod requests"):
        cluster.hold("a", planned_now(cluster))


def test_where_a_starting_kubelet_has_deleted_the_slices_a_plan_is_judged_by_what_they_said(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    cluster.kube.delete(RESOURCE_SLICES, "slice-n0")
    cluster.hold("a", planned_now(cluster))
    laws.check()


def test_a_device_of_another_node_is_not_shown_as_one_of_the_same_name(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    allocation = {"devices": {"results": [{"driver": names.DRA_DRIVER, "pool": "n9", "device": "gpu-1"}]}}
    status = {"status": {"allocation": allocation}}
    cluster.kube.patch(RESOURCE_CLAIMS, "runs", status, namespace="default", subresource="status")
    assert laws.state.pods["uid-runs"].metadata.annotation(names.ASSIGNED) is None


def test_only_a_plan_for_a_pod_with_claims_names_their_versions(cluster: FakeCluster) -> None:
    reached = dict.fromkeys(("pods", *sorted(OF_CLAIMS)), "7")
    snapshot = replace(cluster.snapshot(), reached=reached)
    assert snapshot.state_for(cluster.waiting("plain")) == "pods=7"
    assert snapshot.state_for(cluster.pod("a")) == encode_versions(reached)
