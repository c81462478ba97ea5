from datetime import datetime, timedelta

import msgspec

from cluster import names
from cluster.decide.renewals import WATCH_STALE_AFTER, Renewals
from cluster.objects.nodes import Lease
from tests.fakes.objects import EPOCH

NAME = names.SCHEDULER_LEASE


def a_lease(
    *, renewed: datetime | None = EPOCH, version: int = 1, holder: str = "host_1", seconds: int | None = 15
) -> Lease:
    meta = {"name": NAME, "uid": "uid", "resourceVersion": str(version)}
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed}
    return msgspec.convert({"metadata": meta, "spec": spec}, Lease)


class Reader:
    """Its monotonic clock shows 1000 at EPOCH; its wall clock may be wrong."""

    def __init__(self) -> None:
        self.renewals = Renewals()

    def sees(self, lease: Lease, after: float, *, wrong: float = 0.0) -> None:
        now = EPOCH + timedelta(seconds=after + wrong)
        self.renewals.apply_lease(lease, monotonic=1000 + after, now=now)

    def holder(self, after: float, *, wrong: float = 0.0) -> str | None:
        now = EPOCH + timedelta(seconds=after + wrong)
        return self.renewals.holder(NAME, monotonic=1000 + after, now=now)

    def age(self, after: float) -> float | None:
        return self.renewals.age(NAME, monotonic=1000 + after)


def renewed_after(seconds: float, version: int, holder: str = "host_1") -> Lease:
    return a_lease(renewed=EPOCH + timedelta(seconds=seconds), version=version, holder=holder)


def test_a_lease_that_was_never_seen_has_no_holder() -> None:
    reader = Reader()

    assert reader.holder(0) is None
    assert reader.age(0) is None
    assert reader.renewals.lease(NAME) is None


def test_a_lease_is_held_for_its_duration() -> None:
    reader = Reader()
    reader.sees(a_lease(), 0)

    assert reader.holder(14.9) == "host_1"
    assert reader.holder(15) is None


def test_at_first_sight_the_age_is_taken_from_the_lease() -> None:
    reader = Reader()
    reader.sees(a_lease(), 40)

    assert reader.age(40) == 40
    assert reader.holder(40) is None


def test_a_renewal_prolongs_it_and_an_older_one_does_not() -> None:
    reader = Reader()
    reader.sees(a_lease(version=2), 0)
    reader.sees(renewed_after(10, 3), 10)
    reader.sees(a_lease(version=2), 20)

    assert reader.age(20) == 10
    assert reader.holder(20) == "host_1"


def test_the_same_renewal_seen_again_prolongs_nothing() -> None:
    reader = Reader()
    reader.sees(a_lease(version=2), 0)
    reader.sees(a_lease(version=3), 14)

    assert reader.holder(16) is None


def test_a_renewal_that_is_read_long_after_it_was_made_has_run_out() -> None:
    reader = Reader()
    reader.sees(a_lease(), 0)

    reader.sees(renewed_after(2, 2), 20)

    assert reader.age(20) == 18
    assert reader.holder(20) is None


def test_a_wall_clock_that_is_set_back_prolongs_nothing() -> None:
    reader = Reader()
    reader.sees(a_lease(), 0)

    assert reader.holder(14, wrong=-3600) == "host_1"
    assert reader.holder(16, wrong=-3600) is None


def test_another_holder_takes_over_and_a_released_lease_has_no_holder() -> None:
    reader = Reader()
    reader.sees(a_lease(), 0)

    reader.sees(renewed_after(5, 2, "other_2"), 5)
    assert reader.holder(5) == "other_2"

    reader.sees(renewed_after(6, 3, ""), 6)
    assert reader.holder(6) is None


def test_a_lease_without_duration_or_renewal_has_no_holder() -> None:
    for lease in (a_lease(seconds=None), a_lease(renewed=None)):
        reader = Reader()
        reader.sees(lease, 0)

        assert reader.holder(0) is None


def test_a_deleted_lease_is_forgotten() -> None:
    reader = Reader()
    reader.sees(a_lease(), 0)
    assert reader.renewals.names() == (NAME,)

    reader.renewals.forget_lease(NAME)

    assert reader.renewals.names() == ()
    assert reader.holder(0) is None


def test_a_recreated_lease_of_the_same_name_counts_by_its_text() -> None:
    reader = Reader()
    reader.sees(a_lease(version=9), 0)
    fresh = a_lease(version=3)
    fresh = msgspec.structs.replace(fresh, metadata=msgspec.structs.replace(fresh.metadata, uid="another"))

    reader.sees(fresh, 12)

    assert reader.age(12) == 12


def test_a_time_without_any_renewal_is_reported_from_its_start_until_long_after() -> None:
    reader = Reader()
    assert reader.renewals.since_watch_stale(monotonic=1000) is None
    reader.sees(renewed_after(0, 1), 0)
    reader.sees(renewed_after(10, 2), 10)
    assert reader.renewals.since_watch_stale(monotonic=1010 + WATCH_STALE_AFTER) is None
    assert reader.renewals.since_watch_stale(monotonic=1011 + WATCH_STALE_AFTER) == 0
    reader.sees(renewed_after(70, 3), 70)
    assert reader.renewals.since_watch_stale(monotonic=1070) == 0
    reader.sees(renewed_after(75, 4), 75)
    assert reader.renewals.since_watch_stale(monotonic=1080) == 10


def test_a_reader_that_starts_after_an_outage_recognises_it_by_the_renew_times() -> None:
    reader = Reader()
    reader.sees(renewed_after(-60, 1), 0)
    reader.sees(renewed_after(1, 2), 1)
    assert reader.renewals.since_watch_stale(monotonic=1001) == 0
