"""What of fair shares is remembered: it fits into its object, is written where it says more, and counts."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from booking.controller.reclaimer.fair_shares.accounts import SAVED_EVERY, Accounts
from booking.controller.reclaimer.fair_shares.record import Record, RecordStore, owner_key
from booking.fair_shares.stored_record import KEY
from cluster import names
from cluster.decide.eviction.costs import microseconds
from cluster.decide.fairshare import Account, Books, Tenant
from cluster.decide.fairshare.settings import HOUR
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError, Refusal, Request, refused
from cluster.kube.resources import CONFIG_MAPS
from tests.fakes.objects import a_pod

NOW = 100 * 24 * HOUR
NAMESPACE = "gpu-booking"


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def store(kube: FakeKube) -> RecordStore:
    return RecordStore(kube, NAMESPACE)


def of(accounts: Mapping[Tenant, Account]) -> Record:
    return Record(books={"A100": Books(at=NOW, accounts=accounts)})


def writes(kube: FakeKube) -> int:
    return sum(call.verb != "GET" for call in kube.calls)


def test_the_record_of_ten_thousand_users_fits_into_its_object(kube: FakeKube, store: RecordStore) -> None:
    starved = Account(lag=-HOUR, withheld=HOUR, starved_since=NOW - HOUR)
    accounts = {
        Tenant(f"user-number-{n:05}@example.org", "vision"): Account(lag=n * 10**9, use=n * 10**9)
        for n in range(10_000)
    }
    record = of(accounts | {Tenant("zoe"): starved})
    record.taken = {f"{n:036}": [NOW - HOUR, NOW] for n in range(10_000)}
    store.save(record, NOW)
    written = kube.get(CONFIG_MAPS, names.SHARES_RECORD, namespace=NAMESPACE).data[KEY]
    assert len(written) < 1 << 20
    found = store.load(NOW)
    assert found.books["A100"].of(Tenant("zoe")) == starved
    kept, last = found.books["A100"].accounts, Tenant("user-number-09999@example.org", "vision")
    assert kept[last] == accounts[last]


def test_pods_of_a_gang_that_leave_together_are_one() -> None:
    record = Record()
    for minutes in (0, 10, 60):
        for name in ("a", "b"):
            pod = a_pod(name).with_annotation(names.GANG, "g").with_annotation(names.GANG_SIZE, "2").obj
            record.note_taken(pod, NOW + minutes * HOUR // 60)
    assert list(record.taken.values()) == [[NOW, NOW + HOUR]]


def test_the_same_record_is_not_written_again(kube: FakeKube, store: RecordStore) -> None:
    store.save(Record(), NOW)
    assert writes(kube) == 0
    record = of({Tenant("alice"): Account(use=7)})
    store.save(record, NOW)
    before = writes(kube)
    store.save(record, NOW + HOUR)
    assert writes(kube) == before
    store.save(of({Tenant("alice"): Account(use=8)}), NOW + HOUR)
    assert writes(kube) == before + 1


def test_nobody_was_starved_while_nobody_looked(store: RecordStore) -> None:
    account = Account(withheld=5, starved_since=NOW - 20)
    store.save(of({Tenant("alice"): account}), NOW)
    found = store.load(NOW + HOUR).books["A100"]
    assert found.of(Tenant("alice")) == replace(account, starved_since=NOW + HOUR - 20)


def test_what_is_foreseen_is_kept_with_what_is_owed(store: RecordStore) -> None:
    due = {"uid-alice": NOW + HOUR}
    accounts = {Tenant("alice"): Account(starved_since=NOW)}
    store.save(Record(books={"A100": Books(at=NOW, accounts=accounts, due=due)}), NOW)
    assert store.load(NOW + 1).books["A100"].due == due


class TestAnotherLeader:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def accounts(self, clock: FakeClock, store: RecordStore) -> Accounts:
        return Accounts(clock, store)

    def test_what_it_takes_before_it_has_read_the_record_counts(
        self, clock: FakeClock, store: RecordStore, accounts: Accounts
    ) -> None:
        now, pod = microseconds(clock.now()), a_pod("b0").obj
        before = Record()
        before.note_taken(pod, now - HOUR)
        store.save(before, now)
        accounts.note_taken(pod)
        accounts.remember()
        assert accounts.record.taken == {owner_key(pod): [now - HOUR, now]}
        clock.advance(SAVED_EVERY)
        accounts.remember()
        assert store.load(now).taken == {owner_key(pod): [now - HOUR, now]}

    def test_a_refused_request_is_not_repeated_at_each_pass(
        self, clock: FakeClock, kube: FakeKube, accounts: Accounts
    ) -> None:
        forbidden = refused(Request("GET", "configmaps"), Refusal(code=403, message="no right"))
        kube.fail("GET", forbidden)
        with pytest.raises(ApiError):
            accounts.remember()
        before = len(kube.calls)
        for _ in range(8):
            clock.advance(0.5)
            accounts.remember()
        assert len(kube.calls) == before
