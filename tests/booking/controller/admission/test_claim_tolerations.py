"""Each claim tolerates what is kept for it, and nothing that is kept for another."""

from typing import Any

import pytest

from booking.controller.admission.claim_tolerations import tolerating
from cluster import names

MAKER = "system:serviceaccount:kube-system:resource-claim-controller"
OWNER = {"kind": "Pod", "name": "train", "uid": "uid-of-train", "controller": True}
Json = dict[str, Any]


def tolerations(
    *given: Json,
    creator: str = "bob",
    name: str | None = "shared",
    owners: tuple[Json, ...] = (),
    request_uid: str = "r-1",
) -> list[Json]:
    """Of a claim after admission."""
    meta = {"ownerReferences": list(owners)} | ({"name": name} if name else {"generateName": "shared-"})
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "tolerations": list(given)}}
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
