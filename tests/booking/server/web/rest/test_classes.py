"""The class of each holder of a GPU, by REST, on the page and by the command line."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.kube.resources import BOOKINGS, LEASES, NAMESPACES, NODES, PODS
from cluster.objects.bookings import Booking
from cluster.objects.cover_annotations import text_of
from cluster.objects.meta import Meta
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod
from tests.booking.server.web.pages.site import Site, page_text
from tests.booking.server.web.served import Served
from tests.fakes.objects import PodBuilder, a100, a_booking, a_lease, a_node, a_pod

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
NO_GUARANTEE: Final = datetime(1900, 1, 1, tzinfo=UTC)
"""What MAIA's webhook writes there."""


def cluster(served: Served, *pods: PodBuilder | Pod, bookings: tuple[Booking, ...] = ()) -> None:
    """A node whose GPUs these pods hold, in their order."""
    served.cache.of(NODES).replace([a_node("n0", *(a100(index) for index in range(4)))])
    served.cache.of(LEASES).upsert(a_lease("n0", renewed=served.clock.now()))
    for booking in bookings:
        served.cache.of(BOOKINGS).upsert(booking)
    for pod in pods:
        served.cache.of(PODS).upsert(pod if isinstance(pod, Pod) else pod.obj)


def holding(served: Served, name: str = "train", *, index: int = 0, hours: float = 3) -> PodBuilder:
    """A pod of alice's that has had a GPU for some hours."""
    held = {"main": (f"GPU-n0-{index}",)}
    return a_pod(name).of("alice").created(served.clock.now() - hours * HOUR).asks(1).on("n0", held)


def over(served: Served, **more: Any) -> Booking:
    """A booking of alice's that was over an hour ago."""
    now = served.clock.now()
    return a_booking(**{"start": now - DAY, "end": now - HOUR, **more})


def holders(served: Served, user: str = "alice") -> dict[int, dict[str, Any]]:
    """Index of a GPU -> what is shown of its holder."""
    answer = served.ask("GET", "/api/v1/now", user=user).get_json()
    return {gpu["index"]: gpu["pods"][0] for gpu in answer["nodes"][0]["devices"] if gpu["pods"]}


def classes(served: Served, user: str = "alice") -> list[str]:
    return [holder["class"] for _, holder in sorted(holders(served, user).items())]


def following(served: Served) -> list[str]:
    return [one["name"] for one in served.ask("GET", "/api/v1/now").get_json()["next"]]


def test_a_pod_that_a_booking_covers_is_booked(served: Served) -> None:
    now = served.clock.now()
    cluster(served, holding(served), bookings=(a_booking(start=now - HOUR, end=now + DAY),))
    assert classes(served) == ["booked"]


def test_a_pod_whose_booking_is_over_is_expired_and_may_be_evicted(served: Served) -> None:
    cluster(served, holding(served), bookings=(over(served),))
    assert classes(served) == ["expired"]
    assert following(served) == ["train"]


def test_a_past_terminate_at_makes_a_pod_expired_and_a_future_one_does_not(
    served: Served,
) -> None:
    now = served.clock.now()

    def annotated(name: str, index: int, until: datetime) -> PodBuilder:
        pod = holding(served, name, index=index).with_annotation(names.BOOKING, "b-9")
        return pod.with_annotation(names.TERMINATE_AT, text_of(until))

    cluster(served, annotated("a", 0, now - HOUR), annotated("b", 1, now + HOUR))
    assert classes(served) == ["expired", "opportunistic"]


def of_maia(served: Served, name: str, index: int, until: datetime) -> PodBuilder:
    return holding(served, name, index=index).with_annotation(names.TERMINATE_AT, text_of(until))


def test_a_pod_that_maia_has_granted_a_gpu_is_granted_until_then_where_maia_is_enabled(
    tmp_path: Path,
) -> None:
    served = Served(tmp_path, terms=EvictionSettings(maia=True))
    with closing(served.store):
        now = served.clock.now()
        pods = [
            of_maia(served, f"p{index}", index, until)
            for index, until in enumerate((now + HOUR, now - HOUR, NO_GUARANTEE))
        ]
        cluster(served, *pods)
        assert classes(served) == ["granted", "expired", "opportunistic"]
        assert [holders(served)[index]["until"] for index in range(3)] == [text_of(now + HOUR), None, None]
        assert following(served) == ["p1", "p2"]


def test_annotations_of_maia_are_ignored_where_it_is_not_enabled(served: Served) -> None:
    now = served.clock.now()
    cluster(served, of_maia(served, "a", 0, now + HOUR), of_maia(served, "b", 1, now - HOUR))
    assert classes(served) == ["opportunistic", "opportunistic"]
    assert holders(served)[0]["until"] is None


def test_a_pod_that_may_not_be_evicted_is_protected_for_whatever_reason(served: Served) -> None:
    daemon = holding(served).of_a_daemon_set()
    protected = holding(served, "lab", index=1).obj
    protected = msgspec.structs.replace(
        protected, metadata=msgspec.structs.replace(protected.metadata, namespace="protected")
    )
    served.cache.of(NAMESPACES).upsert(
        Namespace(metadata=Meta(name="protected", annotations={names.NEVER_EVICT: "true"}))
    )
    partly = holding(served, "partly", index=2).asks(1, container="second")
    cluster(served, daemon, protected, partly, bookings=(over(served),))
    assert classes(served) == ["protected", "protected", "protected"]
    assert following(served) == []


def test_the_class_of_a_pod_is_shown_to_everybody_and_its_end_is_not(tmp_path: Path) -> None:
    served = Served(tmp_path, terms=EvictionSettings(maia=True))
    with closing(served.store):
        cluster(served, of_maia(served, "p", 0, served.clock.now() + HOUR))
        assert holders(served, "bob")[0] == {
            "namespace": None,
            "name": None,
            "user": None,
            "class": "granted",
            "booking": None,
            "until": None,
            "memory_used_mib": None,
            "share": None,
        }


def test_the_page_shows_the_class_of_each_pod_as_a_word(tmp_path: Path) -> None:
    site = Site(tmp_path, terms=EvictionSettings(maia=True))
    with closing(site.store):
        now = site.clock.now()
        cluster(
            site,
            holding(site, "covered"),
            of_maia(site, "maias", 1, now + HOUR),
            of_maia(site, "old", 2, now - HOUR),
            holding(site, "plugin", index=3).of_a_daemon_set(),
            bookings=(a_booking(start=now - HOUR, end=now + DAY),),
        )
        text = page_text(site.see("/now"))
        for row in (
            "GPU 0 in use: booked default/covered , alice, until Tue 3 Mar 10:00",
            "GPU 1 in use: granted default/maias , alice, until Mon 2 Mar 11:00",
            "GPU 2 lent: booking over default/old , alice",
            "GPU 3 in use: protected default/plugin , alice",
        ):
            assert row in text
        assert "1 lent 0 idle though booked 3 in use" in text
