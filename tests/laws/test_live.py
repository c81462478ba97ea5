"""The live watcher, on the API server in memory: the same threads, watches and order as on a real cluster."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from cluster import names
from cluster.fake.merging import merged
from cluster.kube.errors import Request, Unreachable
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.inventory import encode_inventory
from cluster.process.clock import SystemClock
from devcluster.wait import poll
from deviceplugin.kubelet.checkpoint import NAME
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a100, a_pod
from tests.laws import claim_states
from tests.laws.broken import LawBrokenError
from tests.laws.claim_states import Believed, encode
from tests.laws.l9 import assert_unchanged
from tests.laws.live import LiveWatch

PATIENCE = 60.0


class Mixed(SystemClock):
    """Instants are the cluster's, waiting is real."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    def now(self) -> datetime:
        """The cluster's virtual instant."""
        return self._cluster.clock.now()


@pytest.fixture
def live(cluster: FakeCluster, tmp_path: Path) -> Iterator[LiveWatch]:
    with LiveWatch(cluster.kube, Mixed(cluster), {"n0": tmp_path}) as watch:
        watch.begin("a test")
        yield watch


def await_breach(live: LiveWatch) -> LawBrokenError:
    """The breach that the watcher finds by itself."""
    found: list[LawBrokenError] = []

    def is_found() -> bool:
        try:
            live.check()
        except LawBrokenError as error:
            found.append(error)
        return bool(found)

    assert poll(is_found, seconds=PATIENCE)
    return found[0]


def double(cluster: FakeCluster, *, live: LiveWatch) -> None:
    """Two pods are bound to one device; their agents live."""
    assert live
    cluster.opportunist("b", 0)
    cluster.waiting("a")
    cluster.bind("a", 0)


def test_a_breach_is_found_without_being_asked_for(cluster: FakeCluster, live: LiveWatch) -> None:
    double(cluster, live=live)
    broken = await_breach(live)
    assert broken.law == "L1"
    assert "default/a is given GPU-n0-0, which default/b holds" in broken.message
    assert any("pods default/a: node n0, assigned" in line for line in broken.history)


def test_what_is_expected_to_break_does_not_raise(cluster: FakeCluster, live: LiveWatch) -> None:
    with live.expecting("L1") as found:
        double(cluster, live=live)
    assert [error.law for error in found] == ["L1"]
    live.finish()


def test_a_breach_that_is_expected_must_happen(live: LiveWatch) -> None:
    should = pytest.raises(AssertionError, match="L2 should have been broken")
    with should, live.expecting("L2", within=0.0):
        pass


def test_a_breach_of_one_test_is_not_attributed_to_the_next(cluster: FakeCluster, live: LiveWatch) -> None:
    double(cluster, live=live)
    await_breach(live)
    live.begin("another test")
    live.finish()


def test_a_breach_that_nobody_has_seen_is_raised_when_the_next_test_begins(
    cluster: FakeCluster, live: LiveWatch
) -> None:
    double(cluster, live=live)

    def raises() -> bool:
        try:
            live.begin("another test")
        except LawBrokenError:
            return True
        return False

    assert poll(raises, seconds=PATIENCE)
    live.finish()


def test_a_gap_in_the_watches_is_bridged_and_noted(cluster: FakeCluster, live: LiveWatch) -> None:
    cluster.opportunist("b", 0)
    live.finish()
    cluster.kube.down = True
    cluster.kube.break_watches(Unreachable(Request("WATCH", "/"), "the connection broke"))
    ended = merged(cluster.kube.raw(PODS, "b", namespace="default"), {"status": {"phase": "Succeeded"}})
    cluster.kube.put(PODS, ended)
    cluster.waiting("a")
    cluster.bind("a", 0)
    cluster.kube.forget_history()
    cluster.kube.down = False
    live.finish()
    cluster.waiting("c")
    cluster.bind("c", 0)
    broken = await_breach(live)
    assert "default/c is given GPU-n0-0, which default/a holds" in broken.message
    assert any("FAULT: pods cannot be watched" in line for line in broken.history)
    assert any("FAULT: pods are watched again" in line for line in broken.history)


def test_a_new_database_whose_mirror_has_deleted_planned_bookings_is_seen(
    cluster: FakeCluster, live: LiveWatch
) -> None:
    def says(store: str) -> None:
        cluster.clock.advance(5)
        meta = {"annotations": {names.STORE: store}}
        renewed = {"metadata": meta, "spec": {"renewTime": cluster.clock.now().isoformat()}}
        cluster.kube.patch(LEASES, names.MIRROR_LEASE, renewed, namespace=names.NAMESPACE)

    cluster.book(start=EPOCH + timedelta(days=1), end=EPOCH + timedelta(days=2))
    cluster.kube.patch(BOOKINGS, "b-1", {"spec": {"storeId": "s-1"}})
    says("s-1")
    cluster.kube.delete(BOOKINGS, "b-1")
    says("s-2")
    broken = await_breach(live)
    assert broken.law == "L9"
    assert "goes over from the database s-1 to s-2, and b-1 of s-1, planned" in broken.message


def test_the_kubelets_checkpoint_is_read_when_it_changes(cluster: FakeCluster, tmp_path: Path) -> None:
    with LiveWatch(cluster.kube, Mixed(cluster), {"n0": tmp_path}, settles=0.0) as live:
        live.begin("a test")
        for name, index in (("a", 0), ("b", 1)):
            cluster.waiting(name)
            cluster.bind(name, index)
            cluster.kube.patch(
                PODS, name, {"status": {"phase": "Running"}}, namespace="default", subresource="status"
            )
        live.finish()
        entries = [
            {
                "PodUID": f"uid-{name}",
                "ContainerName": "main",
                "ResourceName": names.GPU_RESOURCE,
                "DeviceIDs": {"-1": ["GPU-n0-2"]},
            }
            for name in "ab"
        ]
        written = tmp_path / "written"
        written.write_bytes(msgspec.json.encode({"Data": {"PodDeviceEntries": entries}}))
        written.replace(tmp_path / NAME)
        assert await_breach(live).message == "GPU-n0-2 is in use by default/a and default/b at once."


def test_the_kubelets_checkpoint_of_claims_is_read_when_it_changes(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    devices = encode_inventory(tuple(replace(a100(n), claimed_as=f"gpu-{n}") for n in range(2)))
    cluster.kube.patch(NODES, "n0", {"metadata": {"annotations": {names.INVENTORY: devices}}})
    folders = {"n0": tmp_path / "device-plugins"}
    with LiveWatch(cluster.kube, Mixed(cluster), folders, settles=0.0) as live:
        live.begin("a test")
        for name in "ab":
            cluster.kube.put(PODS, a_pod(name).on("n0").ended("Running").raw)
        live.finish()
        believed = {name: Believed(frozenset({f"uid-{name}"}), frozenset({"gpu-0"})) for name in "ab"}
        written = tmp_path / "written"
        written.write_bytes(encode(believed, names.DRA_DRIVER))
        written.replace(tmp_path / claim_states.NAME)
        assert await_breach(live).message == "GPU-n0-0 is in use by default/a and default/b at once."


def test_the_fingerprint_is_read_again(cluster: FakeCluster, live: LiveWatch) -> None:
    before = live.fingerprint()
    cluster.renew()
    assert_unchanged(before, live.fingerprint())
    cluster.waiting("a")
    with pytest.raises(LawBrokenError, match="default/a"):
        assert_unchanged(before, live.fingerprint())
