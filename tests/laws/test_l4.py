"""L4: a pod that we take away comes back exactly once, unless its user deletes it."""

from collections.abc import Callable
from typing import Any

import pytest

from cluster import event_reasons, names
from cluster.kube.resources import BOOKINGS, POD_TEMPLATES, PODS
from cluster.objects.hold import Hold
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH, a_pod
from tests.laws.breaking import breaks
from tests.laws.broken import LawBrokenError
from tests.laws.changes import Maker
from tests.laws.memory import watch_memory
from tests.laws.watcher import LawWatcher

Evict = Callable[[str], None]


@pytest.fixture
def taken(cluster: FakeCluster, laws: LawWatcher, evict: Evict) -> FakeCluster:
    """Bob's ``b3`` has been evicted for alice, and is gone."""
    keep_b3s_device(cluster)
    evict("b3")
    cluster.gone("b3")
    laws.check()
    return cluster


def keep_b3s_device(cluster: FakeCluster, **metadata: Any) -> None:
    """Bob's four pods have all devices; ``b3`` must go for alice's."""
    cluster.fill()
    if metadata:
        cluster.kube.patch(PODS, "b3", {"metadata": metadata}, namespace="default")
    cluster.book()
    cluster.waiting("a")
    cluster.hold("a", Hold(node="n0", devices=("GPU-n0-3",), victims=("uid-b3",), at=EPOCH))


def comes_back(cluster: FakeCluster, name: str = "b3", *, place: str = "b3") -> None:
    """A pod in the place of the victim."""
    pod = a_pod(place).of("bob").with_annotation(names.RECREATED_FROM, f"uid-{name}")
    cluster.kube.put(PODS, {**pod.raw, "metadata": {**pod.raw["metadata"], "uid": f"uid-new-{place}"}})


def release(cluster: FakeCluster) -> None:
    """Alice's pod is served: nothing is kept for it any more."""
    cluster.bind("a", 3)
    cluster.annotate("a", names.HOLD, None)


def test_a_victim_that_comes_back_once_is_right(taken: FakeCluster, laws: LawWatcher) -> None:
    comes_back(taken)
    release(taken)
    taken.clock.advance(100)
    laws.finish()


def test_a_victim_that_does_not_come_back_breaks_it_after_a_minute(
    taken: FakeCluster, laws: LawWatcher
) -> None:
    release(taken)
    taken.clock.advance(59)
    laws.check()
    taken.clock.advance(2)
    with pytest.raises(
        LawBrokenError, match=r"default/b3 .* was taken away and has not come back for 60 s"
    ) as e:
        laws.check()
    assert e.value.law == "L4"
    assert any("disrupted evicted" in line for line in e.value.history)


def test_a_fault_gives_another_minute(taken: FakeCluster, laws: LawWatcher) -> None:
    taken.clock.advance(50)
    laws.fault("the controller is killed")
    taken.clock.advance(59)
    laws.check()
    taken.clock.advance(2)
    with pytest.raises(LawBrokenError, match="has not come back"):
        laws.check()


def test_at_the_end_of_a_test_every_victim_must_be_back(taken: FakeCluster, laws: LawWatcher) -> None:
    release(taken)
    with pytest.raises(LawBrokenError, match=r"default/b3 .* was taken away and has not come back"):
        laws.finish()


def test_a_victim_that_comes_back_twice_breaks_it(taken: FakeCluster, laws: LawWatcher) -> None:
    comes_back(taken)
    with breaks(laws, "L4", "default/again comes back a second time for the pod uid-b3"):
        comes_back(taken, place="again")


def test_a_pod_that_its_user_deletes_when_it_is_back_must_stay_away(
    taken: FakeCluster, laws: LawWatcher
) -> None:
    comes_back(taken)
    taken.gone("b3")
    release(taken)
    laws.finish()
    with breaks(laws, "L4", "comes back a second time"):
        comes_back(taken, place="b3-again")


def test_a_pod_that_comes_back_while_the_first_still_lives_breaks_it(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    cluster.opportunist("b3", 3)
    with breaks(laws, "L4", "though the pod uid-b3 that it replaces still lives"):
        comes_back(cluster, place="b3-again")


def test_a_pod_that_its_user_has_deleted_must_not_come_back(cluster: FakeCluster, laws: LawWatcher) -> None:
    keep_b3s_device(cluster)
    cluster.kube.delete(PODS, "b3", namespace="default")
    cluster.gone("b3")
    release(cluster)
    laws.finish()
    with breaks(laws, "L4", "though its user has deleted the pod uid-b3"):
        comes_back(cluster)


@pytest.fixture
def ours(cluster: FakeCluster) -> LawWatcher:
    """Watches a cluster in which the controller alone writes."""
    return watch_memory(cluster.kube, cluster.clock, maker=lambda: Maker(name="controller-0", is_ours=True))


@pytest.mark.parametrize("bound", [True, False], ids=["runs", "waits"])
def test_a_part_of_ours_that_deletes_a_pod_as_its_user_would_breaks_it(
    cluster: FakeCluster, ours: LawWatcher, *, bound: bool
) -> None:
    if bound:
        cluster.opportunist("b0", 0)
    else:
        cluster.waiting("b0", user="bob")
    with breaks(ours, "L4", "default/b0 is deleted by controller-0 as if its user did it"):
        cluster.kube.delete(PODS, "b0", namespace="default")


def test_a_part_of_ours_that_deletes_what_has_come_back_breaks_it(
    cluster: FakeCluster, ours: LawWatcher, evict: Evict
) -> None:
    keep_b3s_device(cluster)
    evict("b3")
    cluster.gone("b3")
    comes_back(cluster)
    with breaks(ours, "L4", "default/b3 is deleted by controller-0"):
        cluster.gone("b3")


def test_a_controllers_pod_is_left_to_it(cluster: FakeCluster, laws: LawWatcher, evict: Evict) -> None:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs-1", "controller": True}
    keep_b3s_device(cluster, ownerReferences=[owner])
    evict("b3")
    cluster.gone("b3")
    release(cluster)
    laws.finish()
    with breaks(laws, "L4", "though a controller brings the pod uid-b3 back"):
        comes_back(cluster)


def test_a_missing_comeback_is_excused_where_another_pod_has_taken_the_name(
    taken: FakeCluster, laws: LawWatcher
) -> None:
    stranger = a_pod("b3").of("carl").raw
    taken.kube.put(PODS, {**stranger, "metadata": {**stranger["metadata"], "uid": "uid-stranger"}})
    release(taken)
    taken.clock.advance(100)
    laws.finish()


def test_a_missing_comeback_is_excused_where_the_pod_that_took_the_name_is_gone_since(
    taken: FakeCluster, laws: LawWatcher
) -> None:
    stranger = a_pod("b3").of("carl").raw
    taken.kube.put(PODS, {**stranger, "metadata": {**stranger["metadata"], "uid": "uid-stranger"}})
    release(taken)
    taken.clock.advance(100)
    taken.gone("b3")
    laws.finish()


@pytest.mark.parametrize("what", ["template", "finalizer", "hold"])
def test_leftovers_break_it_at_the_end(taken: FakeCluster, laws: LawWatcher, what: str) -> None:
    comes_back(taken)
    release(taken)
    laws.finish()
    if what == "template":
        metadata = {"name": f"{names.COMEBACK_PREFIX}uid-b3", "labels": {names.COMEBACK: "true"}}
        taken.kube.put(POD_TEMPLATES, {"metadata": {**metadata, "namespace": "default"}, "template": {}})
    elif what == "finalizer":
        taken.kube.patch(PODS, "b3", {"metadata": {"finalizers": [names.COMEBACK]}}, namespace="default")
    else:
        taken.annotate("a", names.HOLD, '{"node": "n0", "devices": ["GPU-n0-3"]}')
    laws.check()
    with pytest.raises(LawBrokenError, match="left over"):
        laws.finish()


def ends_for_good(cluster: FakeCluster, **status: object) -> None:
    """Bob's ``b0`` ends with his booking, of which it was decided what becomes of it."""
    cluster.opportunist("b0", 0)
    cluster.book("b-2", user="bob")
    cluster.end_booking("b-2")
    cluster.kube.patch(BOOKINGS, "b-2", {"status": {"ending": ["uid-b0"], **status}}, subresource="status")
    condition = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": event_reasons.BOOKING_ENDED}
    status_now = {"status": {"conditions": [condition]}}
    cluster.kube.patch(PODS, "b0", status_now, namespace="default", subresource="status")
    cluster.kube.delete(PODS, "b0", namespace="default")
    cluster.gone("b0")


def test_a_pod_that_is_gone_for_good_need_not_come_back(cluster: FakeCluster, laws: LawWatcher) -> None:
    ends_for_good(cluster, back="never")
    cluster.clock.advance(100)
    laws.finish()


def test_a_pod_that_is_gone_for_good_and_comes_back_breaks_it(cluster: FakeCluster, laws: LawWatcher) -> None:
    ends_for_good(cluster, back="never")
    with breaks(laws, "L4", "comes back, though it was decided that the pod uid-b0 is gone for good"):
        comes_back(cluster, "b0", place="b0")


@pytest.mark.parametrize("status", [{}, {"back": "without-gpu"}])
def test_a_pod_that_ends_and_is_not_gone_for_good_must_come_back(
    cluster: FakeCluster, laws: LawWatcher, status: dict[str, str]
) -> None:
    ends_for_good(cluster, **status)
    cluster.clock.advance(61)
    with pytest.raises(LawBrokenError, match=r"default/b0 .* has not come back for 60 s"):
        laws.check()


# --- in which way ------------------------------------------------------------------------------------------


def asks_again(cluster: FakeCluster) -> None:
    """What comes back for ``b3`` asks for its GPU."""
    pod = a_pod("b3").of("bob").asks(1).with_annotation(names.RECREATED_FROM, "uid-b3")
    cluster.kube.put(PODS, {**pod.raw, "metadata": {**pod.raw["metadata"], "uid": "uid-new-b3"}})


def test_a_victim_that_comes_back_with_its_gpus_though_it_should_not_breaks_it(
    taken: FakeCluster, laws: LawWatcher
) -> None:
    with breaks(laws, "L4", "comes back with its GPUs"):
        asks_again(taken)


def test_a_victim_that_was_to_wait_comes_back_with_its_gpus(
    cluster: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    keep_b3s_device(cluster, annotations={names.COMEBACK_HOW: "as-it-was"})
    evict("b3")
    cluster.gone("b3")
    asks_again(cluster)
    laws.check()


def test_a_victim_that_asked_to_be_deleted_need_not_come_back(
    cluster: FakeCluster, laws: LawWatcher, evict: Evict
) -> None:
    keep_b3s_device(cluster, annotations={names.ON_EVICT: "delete"})
    evict("b3")
    cluster.gone("b3")
    release(cluster)
    cluster.clock.advance(100)
    laws.finish()


def refused(cluster: FakeCluster, reason: str = "OutOfcpu") -> None:
    """The kubelet refuses bob's ``b0``."""
    pod = a_pod("b0").of("bob").asks(1).scheduled_by(names.SCHEDULER_NAME).on("n0", {"main": ("GPU-n0-0",)})
    cluster.kube.put(PODS, pod.raw)
    status = {"phase": "Failed", "reason": reason, "message": "Pod was rejected"}
    cluster.kube.patch(PODS, "b0", {"status": status}, namespace="default", subresource="status")


def test_a_pod_that_failed_by_its_own_fault_need_not_come_back(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    refused(cluster, "SysctlForbidden")
    cluster.clock.advance(200)
    laws.check()


@pytest.mark.parametrize(
    "reason",
    [
        "OutOfcpu",
        "OutOfnvidia.com/gpu",
        "UnexpectedAdmissionError",
        "NodeAffinity",
        "TopologyAffinityError",
        "NodeShutdown",
    ],
)
def test_a_pod_that_its_kubelet_refused_must_be_brought_back(
    cluster: FakeCluster, laws: LawWatcher, reason: str
) -> None:
    refused(cluster, reason)
    cluster.clock.advance(119)
    laws.check()
    cluster.clock.advance(2)
    with pytest.raises(LawBrokenError, match=r"default/b0 .* was refused by its kubelet"):
        laws.check()


def test_a_refused_pod_that_its_user_deletes_need_not_come_back(
    cluster: FakeCluster, laws: LawWatcher
) -> None:
    refused(cluster)
    cluster.gone("b0")
    cluster.clock.advance(200)
    laws.check()


def test_a_refused_pod_that_was_taken_away_must_come_back(cluster: FakeCluster, laws: LawWatcher) -> None:
    refused(cluster)
    condition = {
        "type": names.DISRUPTION_TARGET,
        "status": "True",
        "reason": event_reasons.REJECTED_BY_KUBELET,
    }
    conditions = {"status": {"conditions": [condition]}}
    cluster.kube.patch(PODS, "b0", {"metadata": {"finalizers": [names.COMEBACK]}}, namespace="default")
    cluster.kube.patch(PODS, "b0", conditions, namespace="default", subresource="status")
    cluster.kube.delete(PODS, "b0", namespace="default")
    cluster.gone("b0")
    cluster.clock.advance(61)
    with pytest.raises(LawBrokenError, match=r"default/b0 .* was taken away"):
        laws.check()
