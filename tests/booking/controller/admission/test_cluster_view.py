"""The webhook's view of the cluster."""

import msgspec

from booking.controller.admission.cluster_view import CachedClusterView
from booking.controller.admission.owner import PodNamespace
from cluster import names
from cluster.cache import ClusterCache
from cluster.decide.identity import Rule
from cluster.fake.clock import FakeClock
from cluster.kube.resources import BOOKINGS, NAMESPACES, PODS
from cluster.objects.namespaces import Namespace
from tests.fakes.objects import EPOCH, a_booking, a_pod


def test_a_namespace_has_the_values_that_administrators_wrote() -> None:
    cache = ClusterCache(FakeClock(EPOCH))
    view = CachedClusterView(cache)
    assert view.namespace("lab") == PodNamespace(name="lab")
    made = {"name": "lab", "annotations": {names.OWNER: "alice", names.NEVER_EVICT: "true"}}
    cache.of(NAMESPACES).upsert(msgspec.convert({"metadata": made}, Namespace))
    assert view.namespace("lab") == PodNamespace(name="lab", owner="alice", is_protected=True)


def test_labels_are_resolved_for_users_with_bookings_and_users_in_the_settings() -> None:
    cache = ClusterCache(FakeClock(EPOCH))
    anybody = (Rule(source="jupyterhub", match=".+"),)
    view = CachedClusterView(cache, rules=anybody, known=["bob@b"])
    assert view.users_by_label()["bob-40b"] == {"bob@b"}
    assert "alice-40a" not in view.users_by_label()
    cache.of(BOOKINGS).upsert(a_booking(user="alice@a"))
    assert view.users_by_label()["alice-40a"] == {"alice@a"}
    assert view.users_by_label()["bob-40b"] == {"bob@b"}
    cache.of(BOOKINGS).remove(a_booking(user="alice@a"))
    assert "alice-40a" not in view.users_by_label()


def test_a_new_pod_counts_among_its_users_pods() -> None:
    cache = ClusterCache(FakeClock(EPOCH))
    booking = a_booking()
    cache.of(BOOKINGS).upsert(booking)
    cache.of(BOOKINGS).upsert(a_booking("b-2", user="bob"))
    first = a_pod("first").of("alice").asks(1).created(EPOCH).obj
    cache.of(PODS).upsert(first)
    new = a_pod("~").of("alice").asks(1).obj
    user_coverage = CachedClusterView(cache).user_coverage(new, EPOCH)
    assert user_coverage.bookings == (booking,)
    assert user_coverage.pods == {first.metadata.uid: first, new.metadata.uid: new}
    assert user_coverage.covered == {first.metadata.uid: booking}
