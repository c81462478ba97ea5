"""Pods that ask by an extended resource for which kube-scheduler makes a claim."""

from dataclasses import dataclass
from typing import Any

from cluster import claim_names, names
from cluster.decide.claims.extended import INSTEAD
from cluster.objects.claims import PodClaims
from cluster.objects.pods import Pod
from tests.booking.controller.admission.fake_cluster_view import FakeClusterView, a_pod, reviewed

RESOURCE = f"{claim_names.CLASS_RESOURCE_PREFIX}{names.DRA_DRIVER}"


OURS = PodClaims(count=1, counts=(1,), names=(RESOURCE,), resources=(RESOURCE,))


@dataclass
class View(FakeClusterView):
    """A view in which the resource is one of our driver's."""

    by_claims: PodClaims | None = OURS

    def is_by_claims(self, _pod: Pod) -> bool:
        return True


def asking() -> dict[str, Any]:
    pod = a_pod()
    pod["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: "1"}, "requests": {RESOURCE: "1"}}
    return pod


def test_it_is_opportunistic_though_its_user_has_a_booking_and_waits_behind_no_gate() -> None:
    pod, outcome = reviewed(
        asking(), view=View(has="full"), claims=True, queue_gate=True, gives_turns=lambda: True
    )
    assert outcome.kind == "opportunistic"
    spec = pod["spec"]
    assert (spec["schedulerName"], spec["priorityClassName"]) == (
        names.SCHEDULER_NAME,
        names.OPPORTUNISTIC_CLASS,
    )
    assert not spec.get("schedulingGates")
    assert names.BOOKING not in pod["metadata"]["annotations"]
    assert RESOURCE in outcome.warnings[0]
    assert INSTEAD in outcome.warnings


def test_where_no_gpu_is_free_it_may_start_without_one() -> None:
    pod, outcome = reviewed(asking(), view=View(has="full"), claims=True, unbooked="strip")
    assert outcome.kind == "stripped"
    resources = pod["spec"]["containers"][0]["resources"]
    assert not any(resources.values())


def test_for_other_drivers_devices_it_gets_our_scheduler_alone() -> None:
    pod, outcome = reviewed(asking(), view=View(by_claims=None), claims=True)
    assert outcome.kind == "guided"
    assert pod["spec"]["schedulerName"] == names.SCHEDULER_NAME
    assert "priorityClassName" not in pod["spec"]


def test_where_claims_cannot_be_booked_nothing_changes() -> None:
    assert reviewed(asking(), view=View())[1].kind == "untouched"
