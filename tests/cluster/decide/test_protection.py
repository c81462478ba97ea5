"""Why a pod may not be evicted for another one: what protects it now, and what protects it for good."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from cluster import names
from cluster.decide.ledger import Holding
from cluster.decide.ledger.holdings import PodHoldings, assigned_devices
from cluster.decide.protection import (
    granted_until,
    is_stuck,
    lasting_protection,
    never_evicted_reason,
    present_protection,
    stuck_from,
)
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod
from tests.fakes.objects import EPOCH, PodBuilder, a_pod

HOME = "gpu-booking"
INSTANT = timedelta(microseconds=1)
UNKNOWN = "it is not known which devices it holds"


def _running() -> PodBuilder:
    return a_pod().asks(1).on("n0", {"main": ("GPU-n0-0",)})


def _in(namespace: str, pod: PodBuilder | None = None) -> Pod:
    obj = (pod or _running()).obj
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, namespace=namespace))


def _owned_by(*kinds: str) -> Pod:
    owners = [{"apiVersion": "v1", "kind": kind, "name": "o", "uid": f"uid-{kind}"} for kind in kinds]
    raw = _running().raw
    return msgspec.convert({**raw, "metadata": {**_metadata(raw), "ownerReferences": owners}}, Pod)


def _metadata(raw: dict[str, object]) -> dict[str, object]:
    found = raw["metadata"]
    assert isinstance(found, dict)
    return found


def _protected(name: str = "default", value: str = "true") -> dict[str, Namespace]:
    written = {"metadata": {"name": name, "annotations": {names.NEVER_EVICT: value}}}
    return {name: msgspec.convert(written, Namespace)}


def _never(pod: Pod, namespaces: Mapping[str, Namespace] | None = None) -> str | None:
    return never_evicted_reason(pod, namespaces=namespaces or {}, home=HOME)


def _lasting(pod: Pod, holding: PodHoldings | None) -> str | None:
    return lasting_protection(pod, holding, namespaces={}, home=HOME)


# --- until when MAIA has granted it its GPUs ---------------------------------------------------------
def _granted(text: str = "2026-11-23T18:00:00Z") -> PodBuilder:
    return _running().with_annotation(names.TERMINATE_AT, text)


def test_terminate_at_is_a_grant_where_grants_of_maia_count() -> None:
    assert granted_until(_granted().obj, maia=True) == datetime(2026, 11, 23, 18, tzinfo=UTC)


def test_terminate_at_is_no_grant_where_grants_of_maia_do_not_count() -> None:
    assert granted_until(_granted().obj, maia=False) is None


def test_the_end_of_our_own_booking_is_no_grant_of_maia() -> None:
    assert granted_until(_granted().with_annotation(names.BOOKING, "b-1").obj, maia=True) is None


def test_a_pod_whose_booking_annotation_was_emptied_keeps_maia_s_grant() -> None:
    assert granted_until(_granted().with_annotation(names.BOOKING, "").obj, maia=True) is not None


@pytest.mark.parametrize(
    "pod", [_running(), _granted("whenever"), _granted("")], ids=["none", "no instant", "empty"]
)
def test_an_unreadable_instant_is_no_grant(pod: PodBuilder) -> None:
    assert granted_until(pod.obj, maia=True) is None


# --- what protects it at this instant ----------------------------------------------------------------
@pytest.mark.parametrize(
    "pod",
    [_running().terminating(), _running().ended("Succeeded"), _running().ended("Failed")],
    ids=["terminating", "succeeded", "failed"],
)
def test_a_pod_that_leaves_or_has_ended_is_not_evicted(pod: PodBuilder) -> None:
    found = present_protection(pod.obj, is_booked=False, granted=None, now=EPOCH)
    assert found == "it is leaving already"


def test_a_booked_pod_is_not_evicted() -> None:
    found = present_protection(_running().obj, is_booked=True, granted=None, now=EPOCH)
    assert found == "it is booked itself"


def test_a_pod_without_booking_or_grant_has_no_protection_at_this_instant() -> None:
    assert present_protection(_running().obj, is_booked=False, granted=None, now=EPOCH) is None


@pytest.mark.parametrize(
    ("left", "reason"),
    [
        (timedelta(hours=1), "MAIA has granted it its GPUs"),
        (INSTANT, "MAIA has granted it its GPUs"),
        (timedelta(0), None),
        (-INSTANT, None),
    ],
    ids=["hours left", "an instant left", "now", "over"],
)
def test_a_grant_protects_up_to_but_not_at_its_end(left: timedelta, reason: str | None) -> None:
    assert present_protection(_running().obj, is_booked=False, granted=EPOCH + left, now=EPOCH) == reason


def test_a_grant_in_1900_protects_nothing() -> None:
    granted = granted_until(_granted("1900-01-01T00:00:00Z").obj, maia=True)
    assert granted == datetime(1900, 1, 1, tzinfo=UTC)
    assert present_protection(_running().obj, is_booked=False, granted=granted, now=EPOCH) is None


def test_leaving_is_reported_before_a_booking_and_a_booking_before_a_grant() -> None:
    later = EPOCH + timedelta(hours=1)
    leaving = present_protection(_running().terminating().obj, is_booked=True, granted=later, now=EPOCH)
    booked = present_protection(_running().obj, is_booked=True, granted=later, now=EPOCH)
    assert (leaving, booked) == ("it is leaving already", "it is booked itself")


# --- what protects it for good: where it is ----------------------------------------------------------
@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", names.KUBELET_LEASES, HOME])
def test_pods_of_kubernetes_own_namespaces_and_of_ours_are_never_evicted(namespace: str) -> None:
    assert _never(_in(namespace)) == f"pods of the namespace {namespace} are never evicted"


@pytest.mark.parametrize("namespace", ["default", "kube-system-tests", "gpu-booking-users"])
def test_pods_of_other_namespaces_may_be_evicted(namespace: str) -> None:
    assert _never(_in(namespace)) is None


def test_the_product_s_own_namespace_is_a_setting() -> None:
    assert never_evicted_reason(_in(HOME), namespaces={}, home="elsewhere") is None
    assert never_evicted_reason(_in("elsewhere"), namespaces={}, home="elsewhere") is not None


def test_a_pod_of_a_namespace_that_an_administrator_protects_is_never_evicted() -> None:
    reason = "an administrator has said that no pod of the namespace default is evicted"
    assert _never(_running().obj, _protected()) == reason


@pytest.mark.parametrize(
    ("value", "is_protected"),
    [("true", True), (" True ", True), ("false", False), ("", False), ("yes", False)],
)
def test_a_namespace_is_protected_only_by_the_value_true(value: str, *, is_protected: bool) -> None:
    assert (_never(_running().obj, _protected(value=value)) is not None) == is_protected


def test_a_protected_namespace_does_not_protect_pods_of_others() -> None:
    assert _never(_running().obj, _protected("research")) is None


def test_kubernetes_own_namespaces_are_reported_as_such_even_where_they_are_protected() -> None:
    reason = _never(_in("kube-system"), _protected("kube-system"))
    assert reason == "pods of the namespace kube-system are never evicted"


# --- what protects it for good: whose it is ----------------------------------------------------------
@pytest.mark.parametrize(
    ("owners", "reason"),
    [
        (("DaemonSet",), "pods of a DaemonSet are never evicted"),
        (("Node",), "pods of a Node are never evicted"),
        (("ReplicaSet",), None),
        (("Job", "DaemonSet"), "pods of a DaemonSet are never evicted"),
        (("DaemonSet", "Node"), "pods of a DaemonSet are never evicted"),
        ((), None),
    ],
    ids=lambda value: "+".join(value) or "none" if isinstance(value, tuple) else "",
)
def test_pods_that_would_return_to_the_same_node_are_never_evicted(
    owners: tuple[str, ...], reason: str | None
) -> None:
    assert _never(_owned_by(*owners)) == reason


@pytest.mark.parametrize("value", ["a-uid", ""])
def test_a_static_pod_is_recognised_by_its_annotation_whatever_the_value(value: str) -> None:
    pod = _running().with_annotation(names.STATIC_POD, value).obj
    assert _never(pod) == "pods of a Node are never evicted"


def test_a_pod_s_namespace_is_reported_before_its_owner() -> None:
    assert _never(_in("kube-system", _running().of_a_daemon_set())) == (
        "pods of the namespace kube-system are never evicted"
    )
    assert _never(_running().of_a_daemon_set().obj, _protected()) == (
        "an administrator has said that no pod of the namespace default is evicted"
    )


def test_a_pod_without_annotations_or_owners_may_be_evicted() -> None:
    raw = _running().raw
    bare = msgspec.convert({**raw, "metadata": {"name": "p", "namespace": "default", "uid": "u"}}, Pod)
    assert (bare.metadata.annotations, bare.metadata.owner_references) == (None, None)
    assert _never(bare) is None


# --- what protects it for good: what it holds --------------------------------------------------------
def test_a_pod_whose_devices_are_known_may_be_evicted() -> None:
    assert _lasting(_running().obj, assigned_devices(_running().obj)) is None


def test_l6_a_pod_without_known_devices_is_not_evicted() -> None:
    unassigned = a_pod().asks(1).on("n0").obj
    assert _lasting(unassigned, None) == UNKNOWN
    assert _lasting(unassigned, assigned_devices(unassigned)) == UNKNOWN
    assert _lasting(unassigned, PodHoldings(uid="uid-p", node="n0", devices={})) == UNKNOWN


def test_l6_a_pod_one_of_whose_devices_is_unknown_is_not_evicted() -> None:
    partly = PodHoldings(
        uid="uid-p", node="n0", devices={"GPU-n0-0": Holding("GPU-n0-0")}, unknown={names.GPU_RESOURCE: 1}
    )
    assert _lasting(_running().obj, partly) == UNKNOWN


def test_protection_for_good_is_reported_before_unknown_devices() -> None:
    assert _lasting(_running().of_a_daemon_set().obj, None) == "pods of a DaemonSet are never evicted"


def test_lasting_protection_considers_protected_namespaces_and_our_own() -> None:
    pod, holding = _running().obj, assigned_devices(_running().obj)
    assert lasting_protection(pod, holding, namespaces=_protected(), home=HOME) is not None
    assert lasting_protection(pod, holding, namespaces={}, home="default") is not None


# --- whether a terminating pod hangs -----------------------------------------------------------------
def test_a_pod_that_is_not_terminating_never_hangs() -> None:
    assert stuck_from(_running().obj) is None
    assert not is_stuck(_running().obj, EPOCH + timedelta(days=9))


def test_a_terminating_pod_hangs_from_five_minutes_after_its_grace_period() -> None:
    leaving = _running().terminating().obj
    since = EPOCH + timedelta(minutes=5)
    assert leaving.metadata.deletion_timestamp == EPOCH
    assert stuck_from(leaving) == since
    hangs = [is_stuck(leaving, since + delta) for delta in (-INSTANT, timedelta(0), INSTANT)]
    assert hangs == [False, True, True]
