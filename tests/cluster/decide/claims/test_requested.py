"""What the claims of a pod ask for."""

from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.decide.claims.requested import Accepted, Rules, Terms, requested_by
from cluster.objects.claims import DeviceClass, PodClaims, ResourceClaim

CLASSES = {
    name: msgspec.convert(
        {"spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}}, DeviceClass
    )
    for name, driver in (("gpu", names.DRA_DRIVER), ("nic", "nic.example.com"))
}
Json = dict[str, Any]


def judge(terms: Terms) -> Accepted:
    return (
        Accepted(frozenset({"GPU-0"}), frozenset({"A100"})) if len(terms) < 3 else Accepted(unknown=terms[-1])
    )


RULES = Rules(judge=judge)


def exactly(of: str = "gpu", *expressions: str, key: str = "mine", **more: Any) -> Json:
    selectors = [{"cel": {"expression": one}} for one in expressions]
    tolerations = [{"key": names.HELD_TAINT, "value": key}]
    return {"deviceClassName": of, "selectors": selectors, "tolerations": tolerations, **more}


def a_claim(*requests: Json, uid: str = "c", held: tuple[str, ...] = (), **more: Any) -> ResourceClaim:
    devices = {"requests": [{"name": "r", **one} for one in requests], **more}
    status: Json = {}
    if held:
        results = [{"driver": names.DRA_DRIVER, "pool": "n0", "device": one} for one in held]
        status = {"allocation": {"devices": {"results": results}}}
    raw = {"metadata": {"name": uid, "uid": uid}, "spec": {"devices": devices}, "status": status}
    return msgspec.convert(raw, ResourceClaim)


def of(*claims: ResourceClaim | None, are_new: bool = False) -> PodClaims | None:
    return requested_by({f"c{n}": one for n, one in enumerate(claims)}, CLASSES, RULES, are_new=are_new)


def test_requests_for_our_devices_are_counted_and_judged() -> None:
    found = of(a_claim({"exactly": exactly(count=2)}), a_claim({"exactly": exactly("nic")}, uid="other"))
    assert found is not None
    assert (found.count, found.names, found.uids, found.key) == (2, ("c0",), ("c",), "mine")
    assert (found.problem, found.accepted, found.models) == (None, {"GPU-0"}, {"A100"})


def test_what_is_allocated_is_held_and_needs_no_judgement() -> None:
    found = of(a_claim({"exactly": exactly()}, held=("gpu-3",)))
    assert found is not None
    assert [one.device for one in found.held] == ["gpu-3"]
    assert (found.node, found.accepted) == ("n0", None)


@pytest.mark.parametrize(
    "claim",
    [
        a_claim({"exactly": exactly("nic")}),
        a_claim({"exactly": exactly("of-no-class")}),
        a_claim({"exactly": exactly(adminAccess=True)}),
    ],
)
def test_a_pod_without_a_claim_for_our_devices_asks_for_nothing(claim: ResourceClaim) -> None:
    assert of(claim) is None


@pytest.mark.parametrize(
    "claims",
    [
        (a_claim({"exactly": exactly()}), None),
        (a_claim({"exactly": exactly()}, {"exactly": exactly("gpu", "x")}),),
        (a_claim({"firstAvailable": [exactly(name="a"), exactly(name="b", count=2)]}),),
        (a_claim({"exactly": exactly(allocationMode="All")}),),
        (a_claim({"exactly": exactly(capacity={"requests": {"memory": "30Gi"}})}),),
        (a_claim({"exactly": exactly(count=2)}, constraints=[{"matchAttribute": "x/y"}]),),
        (a_claim({"exactly": exactly(key="")}),),
        (a_claim({"exactly": exactly()}), a_claim({"exactly": exactly(key="another")}, uid="d")),
        (a_claim({"exactly": exactly("gpu", "x", "y")}),),
    ],
)
def test_nothing_is_accepted_where_it_is_not_known_what_would_do(
    claims: tuple[ResourceClaim | None, ...],
) -> None:
    found = of(*claims)
    assert found is not None
    assert found.problem
    assert found.accepted == frozenset()


def test_a_claim_that_admission_is_about_to_mark_needs_no_mark() -> None:
    found = of(a_claim({"exactly": exactly(key="")}), are_new=True)
    assert found is not None
    assert found.problem is None
