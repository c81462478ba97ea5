"""What claims say of pods in the cache, in whatever order it comes (law L9)."""

from itertools import permutations
from typing import Any

import msgspec
import pytest

from cluster import claim_names, names
from cluster.cache import ClaimOptions, ClusterCache
from cluster.decide.entitlement import candidate
from cluster.fake.clock import FakeClock
from cluster.kube.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, Resource
from cluster.objects.inventory import encode_inventory
from tests.fakes.objects import a100

DEVICE = msgspec.structs.replace(a100(0, "n0"), resource=names.CLAIM_RESOURCE, claimed_as="gpu-0")
CLASS = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "'gpu.nvidia.com'"}}]}}
INVENTORY = {names.INVENTORY: encode_inventory((DEVICE,))}
NODE = {"metadata": {"name": "n0", "uid": "n0", "annotations": INVENTORY}}


def claim(*users: str, version: str = "5", is_allocated: bool = True) -> dict[str, Any]:
    results = [{"driver": names.DRA_DRIVER, "pool": "n0", "device": "gpu-0"}]
    reserved = [{"resource": "pods", "uid": uid, "name": uid} for uid in users]
    status = (
        {"allocation": {"devices": {"results": results}}, "reservedFor": reserved} if is_allocated else {}
    )
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    meta = {"name": "shared", "namespace": "vision", "uid": "claim", "resourceVersion": version}
    return {"metadata": meta, "spec": {"devices": {"requests": [request]}}, "status": status}


def share(name: str, *users: str, memory: int) -> dict[str, Any]:
    """A claim for so many GiB of the device."""
    raw = claim(*users)
    raw["metadata"] |= {"name": name, "uid": name}
    raw["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"memory": f"{memory}Gi"}}
    (result,) = raw["status"]["allocation"]["devices"]["results"]
    result |= {"request": "gpu", "shareID": name, "consumedCapacity": {"memory": f"{memory}Gi"}}
    return raw


def pod(uid: str, *claims: str) -> dict[str, Any]:
    named = [{"name": f"g{n}", "resourceClaimName": one} for n, one in enumerate(claims or ("shared",))]
    meta = {"name": uid, "namespace": "vision", "uid": uid, "resourceVersion": "4"}
    return {
        "metadata": meta,
        "spec": {"nodeName": "n0", "resourceClaims": named},
    }


PARTS: tuple[tuple[Resource[Any], dict[str, Any]], ...] = (
    (NODES, NODE),
    (DEVICE_CLASSES, CLASS),
    (RESOURCE_CLAIMS, claim("a", "b")),
    (PODS, pod("a")),
    (PODS, pod("b")),
)


def cache_of(*parts: tuple[Resource[Any], dict[str, Any]]) -> ClusterCache:
    cache = ClusterCache(FakeClock(), claims=ClaimOptions())
    for resource, raw in parts:
        cache.of(resource).upsert(msgspec.convert(raw, resource.type))
    return cache


@pytest.mark.parametrize("order", list(permutations(range(len(PARTS)))))
def test_two_pods_of_one_claim_are_its_holders_in_any_order(order: tuple[int, ...]) -> None:
    cache = cache_of(*(PARTS[number] for number in order))
    with cache.locked() as ledger:
        view = ledger.view("n0")
    assert view.holders(DEVICE.uuid) == ("a", "b")
    assert view.held[DEVICE.uuid].whole == 1
    assert view.conflicts == ()
    assert set(cache.pods) == {"a", "b"}


def test_a_claim_holds_its_device_when_its_pod_is_gone_until_kubernetes_takes_it() -> None:
    cache = cache_of(*PARTS[:4])
    gone = msgspec.convert(
        pod("a") | {"metadata": pod("a")["metadata"] | {"resourceVersion": "6"}}, PODS.type
    )
    cache.of(PODS).remove(gone)
    with cache.locked() as ledger:
        assert ledger.view("n0").holders(DEVICE.uuid) == ("claim",)
    cache.of(RESOURCE_CLAIMS).upsert(
        msgspec.convert(claim(version="7", is_allocated=False), RESOURCE_CLAIMS.type)
    )
    with cache.locked() as ledger:
        assert ledger.view("n0").is_unheld(DEVICE.uuid)


def test_a_device_of_two_claims_is_a_conflict() -> None:
    other = claim("c", version="8")
    other["metadata"] |= {"name": "other", "uid": "other"}
    cache = cache_of(*PARTS, (RESOURCE_CLAIMS, other))
    with cache.locked() as ledger:
        assert ledger.view("n0").conflicts == (DEVICE.uuid,)


def test_a_device_that_the_inventory_does_not_name_is_held_and_unknown() -> None:
    cache = cache_of(*PARTS[1:4])
    with cache.locked() as ledger:
        assert ledger.view("n0").unknown == {names.CLAIM_RESOURCE: 1}


def test_where_claims_cannot_be_booked_nothing_of_them_is_read() -> None:
    cache = ClusterCache(FakeClock())
    cache.of(PODS).upsert(msgspec.convert(pod("a"), PODS.type))
    assert not cache.pods


def test_an_older_state_of_a_pod_does_not_hide_what_its_claim_gets_later() -> None:
    """We read pods ourselves, so the watch may be behind: claims then belong to the newer state."""
    cache = cache_of(*PARTS[:2], (RESOURCE_CLAIMS, claim("a", is_allocated=False)))
    newer, older = pod("a"), pod("a")
    newer["metadata"]["resourceVersion"] = "9"
    for raw in (newer, older):
        cache.of(PODS).upsert(msgspec.convert(raw, PODS.type))
    cache.of(RESOURCE_CLAIMS).upsert(msgspec.convert(claim("a", version="10"), RESOURCE_CLAIMS.type))
    with cache.locked() as ledger:
        assert ledger.view("n0").holders(DEVICE.uuid) == ("a",)


SHARES: tuple[tuple[Resource[Any], dict[str, Any]], ...] = (
    (NODES, NODE),
    (RESOURCE_CLAIMS, share("ten", "a", "b", memory=10)),
    (RESOURCE_CLAIMS, share("twenty", "b", memory=20)),
    (PODS, pod("a", "ten")),
    (PODS, pod("b", "ten", "twenty")),
    (PODS, pod("c", "thirty")),
    (RESOURCE_CLAIMS, share("thirty", "c", memory=30)),
)


def test_shares_by_claims_are_added_up_and_never_beside_a_claim_for_all() -> None:
    order = (*SHARES[:2], *SHARES[3:4], *SHARES[5:])
    for parts in (order, order[::-1]):
        cache = cache_of((DEVICE_CLASSES, CLASS), *parts)
        with cache.locked() as ledger:
            view = ledger.view("n0")
        use = view.held[DEVICE.uuid]
        assert (use.whole, use.shares, use.memory, use.slots) == (0, 2, 40 * 1024, 2)
        assert view.holders(DEVICE.uuid) == ("a", "c")
        assert not view.conflicts
        assert not view.is_unheld(DEVICE.uuid)
        assert not view.room(DEVICE).is_whole
    for much in (share("fifty", memory=50), claim() | {"metadata": {**claim()["metadata"], "uid": "all"}}):
        cache = cache_of(*order, (DEVICE_CLASSES, CLASS), (RESOURCE_CLAIMS, much))
        with cache.locked() as ledger:
            assert ledger.view("n0").conflicts == (DEVICE.uuid,)


def test_a_claim_that_two_pods_have_is_one_share_and_a_pod_may_have_two_claims_on_a_device() -> None:
    cache = cache_of((DEVICE_CLASSES, CLASS), *SHARES[:3], SHARES[4])
    with cache.locked() as ledger:
        assert ledger.view("n0").held[DEVICE.uuid].memory == 30 * 1024
    cache = cache_of((DEVICE_CLASSES, CLASS), *SHARES[:2], SHARES[3], (PODS, pod("b", "ten")))
    with cache.locked() as ledger:
        assert ledger.view("n0").held[DEVICE.uuid].memory == 10 * 1024


EXTENDED = f"{claim_names.CLASS_RESOURCE_PREFIX}gpu"


def asking(node: str | None, **status: Any) -> dict[str, Any]:
    raw = pod("a")
    raw["metadata"]["annotations"] = {names.USER: "alice"}
    limits = {"limits": {EXTENDED: "1"}}
    raw["spec"] = {"containers": [{"name": "main", "resources": limits}], "nodeName": node}
    return {**raw, "status": status}


BY_RESOURCE: tuple[tuple[Resource[Any], dict[str, Any]], ...] = (
    (NODES, NODE),
    (DEVICE_CLASSES, CLASS),
    (RESOURCE_CLAIMS, claim("a") | {"metadata": claim()["metadata"] | {"ownerReferences": [{"uid": "a"}]}}),
    (PODS, asking("n0", extendedResourceClaimStatus={"resourceClaimName": "shared"})),
)


@pytest.mark.parametrize("order", list(permutations(range(len(BY_RESOURCE)))))
def test_the_claim_for_an_extended_resource_is_its_pods_in_any_order(order: tuple[int, ...]) -> None:
    cache = cache_of(*(BY_RESOURCE[number] for number in order))
    with cache.locked() as ledger:
        assert ledger.view("n0").holders(DEVICE.uuid) == ("a",)
    assert candidate(cache.pods["a"], held=None, models={}) is None, "no booking covers it"


def test_a_claim_of_another_pod_is_not_believed_to_be_the_one_for_its_extended_resources() -> None:
    cache = cache_of(*BY_RESOURCE[:2], (RESOURCE_CLAIMS, claim("b")), BY_RESOURCE[3])
    with cache.locked() as ledger:
        assert ledger.view("n0").holders(DEVICE.uuid) == ("claim",)
