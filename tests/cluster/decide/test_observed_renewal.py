from datetime import timedelta

import msgspec

from cluster.decide.ledger.liveness import UNRESPONSIVE_AFTER, Liveness
from cluster.decide.observed_renewal import LATE, renewed_at
from cluster.decide.renewals import Renewals
from cluster.kube.resources import LEASES
from cluster.objects.nodes import Lease
from tests.fakes.objects import EPOCH, a_lease


class Reader:
    """Sees renewals of one Lease; its monotonic clock shows 0 at EPOCH."""

    def __init__(self) -> None:
        self.liveness = Liveness()
        self.renewals = Renewals()
        self._version = 0

    def sees(self, *, written: float, at: float) -> None:
        """Deliver a renewal whose ``renewTime`` is ``written`` seconds after EPOCH."""
        self._version += 1
        lease: Lease = a_lease(renewed=EPOCH + timedelta(seconds=written), version=self._version)
        now = EPOCH + timedelta(seconds=at)
        self.liveness.apply_lease(lease, monotonic=at, now=now)
        self.renewals.apply_lease(lease, monotonic=at, now=now)

    def age(self, at: float) -> float:
        found = self.renewals.age(a_lease().metadata.name, monotonic=at)
        assert found is not None
        return found

    def is_alive(self, at: float) -> bool:
        return self.liveness.state("n0", monotonic=at) == "alive"


def test_a_renewal_delivered_late_after_an_outage_is_no_sign_of_life() -> None:
    """Law L6: the mirror, or an agent, was unresponsive all the time."""
    reader = Reader()
    reader.sees(written=0, at=0)
    reader.sees(written=10, at=200)
    assert reader.age(200) == 190
    assert not reader.is_alive(200)


def test_queued_renewals_are_old_and_the_first_new_one_counts() -> None:
    reader = Reader()
    reader.sees(written=0, at=0)
    for number in range(1, 6):
        reader.sees(written=10 * number, at=200)
    assert reader.age(200) == 150
    reader.sees(written=201, at=201)
    assert reader.age(201) == 0
    assert reader.is_alive(201)


def test_a_writer_that_was_unresponsive_is_alive_with_its_next_renewal() -> None:
    reader = Reader()
    reader.sees(written=0, at=0)
    reader.sees(written=200, at=200)
    assert reader.age(200) == 0


def test_renewals_that_come_a_little_late_count_from_when_they_are_seen() -> None:
    reader = Reader()
    reader.sees(written=0, at=0)
    reader.sees(written=10, at=10 + LATE)
    assert reader.age(10 + LATE) == 0


def test_a_writer_whose_clock_was_set_back_is_trusted_again_with_its_second_renewal() -> None:
    reader = Reader()
    reader.sees(written=0, at=0)
    reader.sees(written=1, at=61)  # a minute back, a minute of silence
    assert reader.age(61) == 60
    reader.sees(written=11, at=71)
    assert reader.age(71) == 0
    reader.sees(written=-3600, at=81)
    assert reader.age(81) == 0


def test_a_slow_clock_never_makes_an_agent_unresponsive_even_after_months() -> None:
    reader = Reader()
    for number in range(30_000):
        reader.sees(written=9.99 * number, at=10 * number)
    assert reader.age(10 * 29_999) == 0
    assert reader.is_alive(10 * 29_999 + UNRESPONSIVE_AFTER - 1)


def test_the_clock_of_a_new_holder_is_not_compared_with_the_former_one_s() -> None:
    renewals, name = Renewals(), "lease"
    for holder, written, at in (("a", 0, 0.0), ("b", 1, 300.0)):
        body = {"metadata": {"name": name, "uid": "u"}, "spec": {"holderIdentity": holder}}
        body["spec"]["renewTime"] = EPOCH + timedelta(seconds=written)
        renewals.apply_lease(_lease(body), monotonic=at, now=EPOCH + timedelta(seconds=at))
    assert renewals.age(name, monotonic=300.0) == 0


def test_a_renewal_never_counts_from_later_than_it_is_seen() -> None:
    future = EPOCH + timedelta(days=1)
    assert renewed_at(future, EPOCH, seen=5.0, seen_before=0.0, at_before=0.0) == 5.0


def _lease(body: object) -> Lease:
    return msgspec.convert(body, LEASES.type)
