"""A device counts as spoiled once kube-scheduler knows its rule, and as long as that stands."""

from typing import Any

from cluster import names
from cluster.cache import ClaimOptions, ClusterCache
from cluster.fake import FakeClock, FakeKube
from cluster.kube.resources import TAINT_RULES
from cluster.objects.claims import KNOWN_AFTER
from extender.state.spoiled_devices import SpoiledDevices


def test_a_rule_counts_once_it_is_old_enough_and_until_it_is_removed() -> None:
    clock = FakeClock()
    kube, store = FakeKube(clock), ClusterCache(clock, claims=ClaimOptions()).of(TAINT_RULES)
    devices = SpoiledDevices(store, clock, names.DRA_DRIVER)
    where = {"driver": names.DRA_DRIVER, "pool": "n0", "device": "gpu-0"}
    spec: dict[str, Any] = {"deviceSelector": where, "taint": {"key": names.CONFLICT_TAINT}}
    for name, label in (("twice", names.CONFLICT_TAINT), ("held", names.HOLD_OF)):
        store.upsert(
            kube.put(TAINT_RULES, {"metadata": {"name": name, "labels": {label: "x"}}, "spec": spec})
        )
    assert devices.on("n0") == frozenset()
    clock.advance(KNOWN_AFTER)
    assert devices.on("n0") == {"gpu-0"}
    assert devices.on("n1") == frozenset()
    store.remove(kube.get(TAINT_RULES, "twice"))
    assert devices.on("n0") == frozenset()
