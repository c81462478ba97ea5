"""A quota that refuses booked pods when they are created: who is told, when, and what."""

from typing import Any

import pytest

from booking.server.capacity.capacity import Capacity
from cluster import names
from cluster.kube.resources import EVENTS, NAMESPACES, PODS, QUOTAS
from cluster.objects.meta import Meta
from cluster.objects.namespaces import Namespace
from tests.booking.server.web.served import Served, problem
from tests.fakes.objects import A100, a_pod

WHY = "/api/v1/pods/default/train/why"


@pytest.fixture
def lab(served: Served) -> Served:
    """The namespace default, with a quota of four GPUs of which three are used."""
    body = {
        "metadata": {"name": "gpus"},
        "spec": {"hard": {names.GPU_QUOTA: "4"}},
        "status": {"hard": {names.GPU_QUOTA: "4"}, "used": {names.GPU_QUOTA: "3"}},
    }
    served.kube.create(QUOTAS, body, namespace="default")
    return served


def event(served: Served, reason: str, at: str, message: str = "exceeded quota: gpus, x") -> None:
    body = {
        "metadata": {"name": f"{reason.lower()}-{at[11:13]}"},
        "involvedObject": {"kind": "Job", "name": "train", "namespace": "default"},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }
    served.kube.create(EVENTS, body, namespace="default")


MIG = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"
SLICE = f"{A100}-MIG-1g.10gb"
SPAN = {"model": A100, "duration": "P2D"}


def warnings(answer: Any) -> list[str]:
    assert answer.status_code in {200, 201}, answer.text
    return list(answer.get_json().get("warnings", ()))


def test_who_books_more_than_a_quota_has_left_is_warned_before_and_after(lab: Served) -> None:
    for query in ("?dry_run=true", ""):
        (warning,) = warnings(lab.book(**SPAN, query=query, namespace="default", count=2))
        assert "ResourceQuota gpus lets pods of the namespace default request 4 GPUs" in warning
        assert "1 of its 2 GPUs" in warning
        assert f"PriorityClass {names.OPPORTUNISTIC_CLASS}" in warning


def test_a_booking_that_is_enlarged_is_warned_of_a_quota_that_can_never_hold_it(lab: Served) -> None:
    lab.kube.patch(
        QUOTAS,
        "gpus",
        {"status": {"hard": {names.GPU_QUOTA: "2"}, "used": {names.GPU_QUOTA: "0"}}},
        namespace="default",
    )
    booking = lab.booked(namespace="default", count=2)
    answer = lab.ask("PATCH", f"/api/v1/bookings/{booking}", json={"count": 3})
    assert "fewer than the 3 of this booking" in warnings(answer)[0]


def test_ones_own_pods_which_the_booking_may_cover_take_nothing_from_it(lab: Served) -> None:
    lab.cache.of(PODS).upsert(a_pod("mine").of("alice").asks(3).obj)
    assert warnings(lab.book(**SPAN, namespace="default", count=2)) == []


def test_a_booking_of_a_mig_profile_is_warned_of_the_quota_on_that_profile_alone(lab: Served) -> None:
    lab.capacity = Capacity({SLICE: {"node-a": 7}}, resources={SLICE: MIG})
    lab.cache.of(PODS).upsert(a_pod("mine").of("alice").asks(1, resource=MIG).obj)
    wanted = {**SPAN, "model": SLICE, "namespace": "default", "count": 4, "query": "?dry_run=true"}
    assert warnings(lab.book(**wanted)) == []
    status = {"hard": {f"requests.{MIG}": "3"}, "used": {f"requests.{MIG}": "2"}}
    lab.kube.create(QUOTAS, {"metadata": {"name": "slices"}, "status": status}, namespace="default")
    lab.clock.advance(60)
    (warning,) = warnings(lab.book(**wanted))
    assert f"ResourceQuota slices lets pods of the namespace default request 3 {MIG} devices" in warning
    assert warnings(lab.book(**wanted | {"count": 2})) == []


def test_nobody_is_warned_without_a_namespace_or_where_quotas_cannot_be_read(lab: Served) -> None:
    assert warnings(lab.book(**SPAN, count=2, query="?dry_run=true")) == []
    lab.kube.down = True
    assert warnings(lab.book(**SPAN, namespace="default", count=2)) == []


def test_the_owner_of_a_namespace_learns_why_a_pod_was_never_created(lab: Served) -> None:
    event(lab, "FailedCreate", "2026-03-02T10:00:00Z")
    assert lab.ask("GET", WHY).status_code == 404
    lab.cache.of(NAMESPACES).upsert(
        Namespace(metadata=Meta(name="default", annotations={names.OWNER: "alice"}))
    )
    body = lab.ask("GET", WHY).get_json()
    assert body["state"] == "never created"
    assert "Job default/train could not create its pod: exceeded quota: gpus, x." in body["because"]
    assert lab.ask("GET", WHY, user="bob").status_code == 404


def test_a_controller_that_has_created_its_pod_since_is_no_longer_explained_so(lab: Served) -> None:
    lab.signing_in.administrators.add("alice")
    event(lab, "FailedCreate", "2026-03-02T10:00:00Z")
    event(lab, "SuccessfulCreate", "2026-03-02T11:00:00Z")
    problem(lab.ask("GET", WHY), 404)


def test_where_kubectl_alone_knew_why_the_quota_that_is_used_up_is_named(lab: Served) -> None:
    lab.signing_in.administrators.add("alice")
    lab.kube.patch(QUOTAS, "gpus", {"status": {"used": {names.GPU_QUOTA: "4"}}}, namespace="default")
    assert "The ResourceQuota gpus of the namespace default has no GPU left" in lab.ask("GET", WHY).text
    assert "ResourceQuota" not in lab.ask("GET", WHY, user="bob").text
