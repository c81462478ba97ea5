"""What a pod asks for by extended resources, before kube-scheduler makes the claim and after."""

from typing import Any

import msgspec
import pytest

from cluster import claim_names, names
from cluster.decide.claims.extended import class_of, extended_of, is_by_claim
from cluster.decide.claims.requested import Rules, requested_by
from cluster.decide.claims.terms import Accepted
from cluster.objects.claims import DeviceClass, PodClaims, ResourceClaim
from cluster.objects.demand import demand
from cluster.objects.pods import Pod, container_needs

IMPLICIT = f"{claim_names.CLASS_RESOURCE_PREFIX}gpu"
NIC = f"{claim_names.CLASS_RESOURCE_PREFIX}nic"
OWN = "example.com/gpu"
Json = dict[str, Any]


def a_class(name: str, driver: str, resource: str | None = None, created: int = 1) -> DeviceClass:
    meta = {"name": name, "creationTimestamp": f"2026-11-0{created}T00:00:00Z"}
    spec: Json = {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}
    return msgspec.convert(
        {"metadata": meta, "spec": {**spec, "extendedResourceName": resource}}, DeviceClass, strict=False
    )


CLASSES = {
    one.metadata.name: one
    for one in (
        a_class("gpu", names.DRA_DRIVER),
        a_class("nic", "nic.example.com", "example.com/nic"),
        a_class("own", names.DRA_DRIVER, OWN, created=2),
        a_class("before", "other.example.com", OWN),
        a_class("taken", names.DRA_DRIVER, names.GPU_RESOURCE),
    )
}
RULES = Rules(judge=lambda _: Accepted(frozenset({"GPU-0"}), frozenset({"A100"})))


def a_pod(*apps: Json, inits: tuple[Json, ...] = (), **status: Any) -> Pod:
    def containers(limits: tuple[Json, ...]) -> list[Json]:
        return [{"name": f"c{n}", "resources": {"limits": one}} for n, one in enumerate(limits)]

    spec = {"containers": containers(apps), "initContainers": containers(inits)}
    meta = {"name": "p", "namespace": "team", "uid": "uid-p"}
    return msgspec.convert({"metadata": meta, "spec": spec, "status": status}, Pod)


def of(pod: Pod, made: ResourceClaim | None = None) -> PodClaims | None:
    extended = extended_of(pod, CLASSES, names.DRA_DRIVER, made)
    return requested_by({}, CLASSES, RULES, extended=extended)


@pytest.mark.parametrize(
    ("resource", "called"),
    [(IMPLICIT, "gpu"), (OWN, "own"), (f"{IMPLICIT}s", None), ("example.com/other", None)],
)
def test_a_class_is_found_by_its_own_name_and_by_what_it_names(resource: str, called: str | None) -> None:
    found = class_of(resource, CLASSES.values())
    assert (found.metadata.name if found else None) == called


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (IMPLICIT, True),
        (NIC, True),
        (f"{claim_names.CLASS_RESOURCE_PREFIX}to-come", True),
        (OWN, True),
        ("example.com/fpga", False),
        (names.GPU_RESOURCE, False),
        ("cpu", False),
    ],
)
def test_one_scheduler_has_all_pods_for_which_a_claim_is_made(resource: str, *, expected: bool) -> None:
    assert is_by_claim(a_pod({resource: "1"}), CLASSES) is expected


def test_devices_of_all_containers_count_as_kube_scheduler_counts_them() -> None:
    found = of(a_pod({IMPLICIT: "2"}, {IMPLICIT: "1", OWN: "1", NIC: "5"}, inits=({IMPLICIT: "1"},)))
    assert found is not None
    assert (found.count, found.names, found.uids) == (4, (IMPLICIT, OWN), ())
    assert found.resources == (IMPLICIT, OWN)


def test_what_would_do_is_told_though_nobody_plans_with_it() -> None:
    found = of(a_pod({IMPLICIT: "1"}))
    assert found is not None
    assert (found.accepted, found.problem, found.node) == ({"GPU-0"}, None, None)


@pytest.mark.parametrize("limits", [{NIC: "1"}, {"cpu": "1", "example.com/fpga": "1"}, {IMPLICIT: "0"}])
def test_other_resources_are_none_of_ours(limits: Json) -> None:
    assert of(a_pod(limits)) is None


def a_made_claim(resource: str) -> tuple[Json, ResourceClaim]:
    mappings = [{"containerName": "c0", "resourceName": resource, "requestName": "container-0-request-0"}]
    results = [{"driver": names.DRA_DRIVER, "pool": "n0", "device": "gpu-0"}]
    request = {"name": "container-0-request-0", "exactly": {"deviceClassName": "gpu"}}
    raw = {
        "metadata": {"name": "made", "uid": "made"},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": results}}},
    }
    status = {"resourceClaimName": "made", "requestMappings": mappings}
    return {"extendedResourceClaimStatus": status}, msgspec.convert(raw, ResourceClaim)


@pytest.mark.parametrize("resource", [IMPLICIT, OWN, names.GPU_RESOURCE])
def test_the_claim_that_was_made_has_the_devices_under_each_name(resource: str) -> None:
    """Another scheduler may have satisfied ``nvidia.com/gpu`` so: then it is not asked for twice."""
    status, made = a_made_claim(resource)
    pod = a_pod({resource: "1"}, **status)
    found = of(pod, made)
    assert found is not None
    assert (found.node, found.uids, found.resources) == ("n0", ("made",), (resource,))
    needs = container_needs(msgspec.structs.replace(pod, claims=found))
    assert demand(needs) == {names.CLAIM_RESOURCE: 1}
