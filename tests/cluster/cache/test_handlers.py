"""The cache holds what a reflector reports of each kind: lists, changes and deletions."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, LEASES, NAMESPACES, NODES, PODS, Resource
from cluster.objects.namespaces import Namespace
from tests.fakes.objects import EPOCH, a100, a_booking, a_lease, a_node, a_pod


def a_namespace(name: str, version: int) -> Namespace:
    meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return msgspec.convert({"metadata": meta}, Namespace)


def versioned(obj: Any, version: int) -> Any:
    meta = msgspec.structs.replace(obj.metadata, resource_version=str(version))
    return msgspec.structs.replace(obj, metadata=meta)


@dataclass(frozen=True)
class Kind:
    """One kind of object, and what the cache knows of it."""

    resource: Resource[Any]
    make: Callable[[str, int], Any]
    known: Callable[[ClusterCache], Collection[Any]]
    notifies: bool = True

    def versions(self, cache: ClusterCache) -> dict[str, str]:
        """Name -> resourceVersion of what is known."""
        return {one.metadata.name: one.metadata.resource_version for one in self.known(cache)}


KINDS = [
    Kind(
        PODS,
        lambda name, version: a_pod(name).asks(1).at(version).obj,
        lambda cache: cache.pods.values(),
    ),
    Kind(
        NODES,
        lambda name, version: a_node(name, a100(0, name), version=version),
        lambda cache: cache.nodes.values(),
    ),
    Kind(
        BOOKINGS,
        lambda name, version: versioned(a_booking(name), version),
        lambda cache: cache.bookings.values(),
    ),
    Kind(NAMESPACES, a_namespace, lambda cache: cache.namespaces.values()),
    Kind(
        LEASES,
        lambda name, version: versioned(a_lease(name), version),
        lambda cache: [lease for name in cache.renewals.names() if (lease := cache.renewals.lease(name))],
        notifies=False,
    ),
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.resource.plural)


class Reported:
    """A cache to which a reflector of one kind reports."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.cache = ClusterCache(FakeClock(EPOCH))
        self.changes = 0
        self.cache.on_change(self._count)
        self.handler = self.cache.of(kind.resource)

    def _count(self) -> None:
        self.changes += 1

    def list(self, version: int, **versions: int) -> None:
        self.handler.replace([self.kind.make(*one) for one in versions.items()], str(version))

    def upsert(self, name: str, version: int) -> None:
        self.handler.upsert(self.kind.make(name, version))

    def remove(self, name: str, version: int) -> None:
        self.handler.remove(self.kind.make(name, version))

    @property
    def known(self) -> dict[str, str]:
        """Name, without the prefix of Leases -> resourceVersion."""
        found = self.kind.versions(self.cache)
        return {name.removeprefix(names.NODE_LEASE_PREFIX): version for name, version in found.items()}

    @property
    def reached(self) -> str | None:
        return self.cache.reached.get(self.kind.resource.plural)


@every_kind
def test_watchers_are_notified_of_every_report_except_leases(kind: Kind) -> None:
    """Leases are renewed all the time."""
    reported = Reported(kind)
    reported.list(1, a=1)
    reported.upsert("a", 2)
    reported.remove("a", 3)
    assert reported.changes == (3 if kind.notifies else 0)


@every_kind
def test_the_change_is_made_before_a_watcher_is_notified(kind: Kind) -> None:
    reported, seen = Reported(kind), list[dict[str, str]]()
    reported.cache.on_change(lambda: seen.append(dict(reported.known)))
    reported.upsert("a", 2)
    reported.remove("a", 3)
    assert seen == ([{"a": "2"}, {}] if kind.notifies else [])


NAMES = st.sampled_from("abc")


@every_kind
@given(data=st.data())
def test_after_any_reports_in_order_the_cache_equals_what_is_stored(kind: Kind, data: st.DataObject) -> None:
    """A watch reports each change once, in the order of versions; lists come in between."""
    reported, stored = Reported(kind), dict[str, str]()
    for version in range(1, data.draw(st.integers(1, 12)) + 1):
        name = data.draw(NAMES)
        match data.draw(st.sampled_from(["upsert", "remove", "list"])):
            case "upsert":
                stored[name] = str(version)
                reported.upsert(name, version)
            case "remove" if name in stored:
                del stored[name]
                reported.remove(name, version)
            case _:
                for gone in set(stored) & data.draw(st.sets(NAMES)):
                    del stored[gone]  # while no watch ran
                reported.list(version, **{one: int(known) for one, known in stored.items()})
        assert reported.known == stored
        assert reported.reached == str(version)
