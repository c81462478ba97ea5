"""Each claim tolerates what is kept for it, and nothing that is kept for another."""

from typing import Any

import msgspec
import pytest

from booking.controller.admission.admission_review import GroupKind, Request, UserInfo
from booking.controller.admission.claim_tolerations import (
    MAKERS,
    MOST,
    mark_claim,
    tolerating,
)
from cluster import claim_names, names

MAKER = "system:serviceaccount:kube-system:resource-claim-controller"
OWNER = {"kind": "Pod", "name": "train", "uid": "uid-of-train", "controller": True}
Json = dict[str, Any]


def tolerations(
    *given: Json,
    creator: str = "bob",
    name: str | None = "shared",
    owners: tuple[Json, ...] = (),
    request_uid: str = "r-1",
    **more: Any,
) -> list[Json]:
    """Of a claim after admission."""
    meta = {"ownerReferences": list(owners)} | ({"name": name} if name else {"generateName": "shared-"})
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "tolerations": list(given), **more}}
    claim = {"metadata": meta, "spec": {"devices": {"requests": [request]}}}
    spec = tolerating(claim, creator=creator, namespace="vision", request=request_uid)
    found: list[Json] = spec["devices"]["requests"][0]["exactly"]["tolerations"]
    return found


def test_a_claim_from_a_template_tolerates_what_is_kept_for_its_pod() -> None:
    (ours,) = tolerations(creator=MAKER, owners=(OWNER,))
    assert (ours["key"], ours["value"]) == (names.HELD_TAINT, "uid-of-train")


def test_an_owner_that_a_user_writes_is_not_believed() -> None:
    (ours,) = tolerations(owners=(OWNER,))
    assert ours["value"] == "vision.shared"


@pytest.mark.parametrize(
    "forged",
    [
        {"operator": "Exists"},
        {"key": names.HELD_TAINT, "operator": "Exists"},
        {"key": names.CONFLICT_TAINT, "value": "true"},
        {"key": "", "value": "x"},
        {"key": claim_names.UNHEALTHY_TAINT, "operator": "Exists"},
    ],
)
def test_what_would_tolerate_any_held_device_is_removed(forged: Json) -> None:
    own = {"key": "example.com/slow", "operator": "Exists"}
    assert [one.get("key") for one in tolerations(forged, own)] == ["example.com/slow", names.HELD_TAINT]


@pytest.mark.parametrize("name", [None, "a" * 100])
def test_no_value_is_longer_than_a_taints(name: str | None) -> None:
    (ours,) = tolerations(name=name)
    assert ours["value"].isalnum()
    assert len(ours["value"]) <= 63


def test_no_two_claims_without_a_name_tolerate_the_same() -> None:
    assert tolerations(name=None) != tolerations(name=None, request_uid="r-2")


def test_every_alternative_gets_it() -> None:
    ways = [{"name": "a", "deviceClassName": "gpu"}, {"name": "b", "deviceClassName": "gpu"}]
    claim = {"metadata": {"name": "x"}, "spec": {"devices": {"requests": [{"firstAvailable": ways}]}}}
    spec = tolerating(claim, creator="bob", namespace="vision", request="r-1")
    (request,) = spec["devices"]["requests"]
    assert [len(way["tolerations"]) for way in request["firstAvailable"]] == [1, 1]


def test_an_administrators_access_may_look_at_an_unhealthy_device() -> None:
    sick = {"key": claim_names.UNHEALTHY_TAINT, "operator": "Exists"}
    assert sick in tolerations(sick, adminAccess=True)


def reviewed(devices: Json, creator: str) -> str | None:
    """Why the webhook refuses a claim."""
    claim = {"metadata": {"name": "x"}, "spec": {"devices": devices}}
    question = Request(
        uid="r",
        kind=GroupKind(group="resource.k8s.io", kind="ResourceClaim"),
        operation="CREATE",
        user_info=UserInfo(username=creator),
        namespace="vision",
        object=msgspec.Raw(msgspec.json.encode(claim)),
    )
    return mark_claim(question).refused


@pytest.mark.parametrize(("strategy", "is_refused"), [("MPS", True), ("TimeSlicing", False)])
def test_what_the_driver_would_refuse_is_not_created_but_from_a_template(
    *, strategy: str, is_refused: bool
) -> None:
    """Of one from a template the pod is told."""
    parameters = {"kind": "GpuConfig", "sharing": {"strategy": strategy}}
    config = [{"requests": ["gpu"], "opaque": {"driver": names.DRA_DRIVER, "parameters": parameters}}]
    devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}], "config": config}
    assert (reviewed(devices, "bob") is not None) == is_refused
    assert all(reviewed(devices, maker) is None for maker in MAKERS)


def test_a_claim_without_room_for_our_toleration_is_refused() -> None:
    own = [{"key": f"example.com/{number}"} for number in range(MOST)]
    assert len(tolerations(*own[1:])) == MOST
    way = {"name": "a", "deviceClassName": "gpu", "tolerations": own}
    message = reviewed({"requests": [{"name": "gpu", "firstAvailable": [way]}]}, "bob")
    assert message is not None
    assert "gpu/a" in message
