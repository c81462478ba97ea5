"""Cached cover equals cover computed again, whatever happens in between."""

from collections.abc import Callable
from datetime import timedelta
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import names
from cluster.cache import ClusterCache
from cluster.cache.cover import Cover, Examples
from cluster.cache.store import Guard, Store
from cluster.decide.booking_use import example_of
from cluster.decide.entitlement import candidate, entitlement
from cluster.decide.ledger import Ledger
from cluster.fake.clock import FakeClock
from cluster.kube import resources
from cluster.kube.resources import BOOKINGS
from cluster.objects.assignment import encode_drift
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from tests.fakes.objects import (
    A100,
    A6000,
    EPOCH,
    PodBuilder,
    a100,
    a6000,
    a_booking,
    a_node,
    a_pod,
    shared_gpu,
)

HOUR = timedelta(hours=1)
NODES, PODS, USERS = ("n0", "n1"), ("p0", "p1", "p2", "p3"), ("alice", "bob")


def of_alice(name: str = "p", *, minutes: int = 0) -> PodBuilder:
    return a_pod(name).of("alice").asks(1).created(EPOCH + timedelta(minutes=minutes))


def in_version(booking: Booking, version: int) -> Booking:
    meta = msgspec.structs.replace(booking.metadata, resource_version=str(version))
    return msgspec.structs.replace(booking, metadata=meta)


class Story:
    """A cache with random changes that concern cover."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        self.version = 0
        for name in NODES:
            self.node(name)

    def next(self) -> int:
        """A resourceVersion."""
        self.version += 1
        return self.version

    def step(self) -> None:
        """Make a random change."""
        happens: tuple[Callable[[], None], ...] = (
            *(self.pod, self.pod, self.bind, self.gone, self.booking, self.booking_gone, self.time),
            *(self.assumed, self.forgotten, self.drift),
        )
        self.random.choice(happens)()

    def node(self, name: str, drift: str | None = None) -> None:
        devices = (a100(0, name), a100(1, name), a6000(2, name))
        self.cache.of(resources.NODES).upsert(a_node(name, *devices, version=self.next(), drift=drift))

    def drift(self) -> None:
        held = {
            f"uid-{self.random.choice(PODS)}": {"main": (self.device(name := self.random.choice(NODES)),)}
        }
        self.node(name, encode_drift(self.random.choice(({}, held))))

    def device(self, node: str) -> str:
        return f"GPU-{node}-{self.random.randrange(3)}"

    def made(self) -> PodBuilder:
        name = self.random.choice(PODS)
        made = a_pod(name).asks(self.random.choice((1, 1, 2))).created(EPOCH - int(name[1]) * HOUR)
        made = made.of(self.random.choice(USERS)).at(self.next())
        return made.with_annotation(names.BOOKING, "b-1") if self.random.random() < 0.3 else made

    def pod(self) -> None:
        made = self.made()
        self.cache.of(resources.PODS).upsert(
            self.random.choice((made, made, made.terminating(), made.ended())).obj
        )

    def bind(self) -> None:
        node = self.random.choice(NODES)
        self.cache.of(resources.PODS).upsert(self.made().on(node, {"main": (self.device(node),)}).obj)

    def gone(self) -> None:
        self.cache.of(resources.PODS).remove(self.made().obj)

    def assumed(self) -> None:
        node = self.random.choice(NODES)
        for pod in self.random.sample([*self.cache.pods.values()], min(1, len(self.cache.pods))):
            with self.cache.locked() as ledger:
                ledger.assume(pod, node, {"main": (self.device(node),)})

    def forgotten(self) -> None:
        with self.cache.locked() as ledger:
            ledger.forget_assumed(f"uid-{self.random.choice(PODS)}")

    def booking(self) -> None:
        start = self.clock.now() + self.random.choice((-1, 0, 1)) * HOUR
        made = a_booking(
            f"b-{self.random.randrange(3)}",
            user=self.random.choice(USERS),
            model=self.random.choice((A100, A100, A6000)),
            count=self.random.choice((1, 2)),
            start=start,
            end=start + 2 * HOUR,
        )
        self.cache.of(BOOKINGS).upsert(in_version(made, self.next()))

    def booking_gone(self) -> None:
        self.cache.of(BOOKINGS).remove(in_version(a_booking(f"b-{self.random.randrange(3)}"), self.next()))

    def time(self) -> None:
        self.clock.advance(self.random.choice((1, 1800, 3600)))

    def computed_again(self) -> dict[str, Booking]:
        """Cover by its definition, from the ledger's holdings and nothing cached."""
        found = []
        for pod in self.cache.pods.values():
            with self.cache.locked() as ledger:
                holding = ledger.holding(pod.metadata.uid)
                node = pod.spec.node_name or (holding.node if holding else None)
                view = ledger.view(node) if node else None
            mine = [one for one in view.holdings if one.uid == pod.metadata.uid] if view else []
            held = {"": tuple(mine[0].devices)} if mine else None
            found.append(candidate(pod, held=held, models=view.models if view else {}))
        return entitlement(self.cache.bookings.values(), [one for one in found if one], self.clock.now())


@settings(max_examples=60)
@given(st.randoms(use_true_random=False))
def test_the_cached_cover_equals_a_fresh_computation(random: Random) -> None:
    story = Story(random)
    for _ in range(60):
        story.step()
        if random.random() < 0.7:  # several changes may come between two questions
            now = story.clock.now()
            expected = story.computed_again()
            assert story.cache.cover(now) == expected
            for uid, pod in story.cache.pods.items():
                assert story.cache.cover_of(pod, now) == expected.get(uid)


class TestUserCoverage:
    @pytest.fixture
    def bookings(self) -> Store[Booking]:
        made = Store(Guard(), BOOKINGS, reads_ahead=True)
        made.upsert(a_booking("now"))
        made.upsert(a_booking("over", start=EPOCH - 2 * HOUR, end=EPOCH))
        made.upsert(a_booking("later", start=EPOCH + HOUR))
        made.upsert(a_booking("other", user="bob"))
        return made

    @pytest.fixture
    def cover(self, bookings: Store[Booking]) -> Cover:
        return Cover(Ledger(), bookings)

    def test_a_user_has_all_their_own_bookings_running_or_not_and_no_others(self, cover: Cover) -> None:
        found = cover.user_coverage(of_alice().obj, EPOCH)
        assert {booking.name for booking in found.bookings} == {"now", "over", "later"}
        assert {uid: booking.name for uid, booking in found.covered.items()} == {"uid-p": "now"}

    def test_for_a_known_pod_the_known_state_counts(self, cover: Cover) -> None:
        known = of_alice().at(2).obj
        cover.list_pod(known)
        assert cover.user_coverage(of_alice().obj, EPOCH).pods == {"uid-p": known}

    def test_an_unknown_pod_is_counted_for_this_question_alone(self, cover: Cover) -> None:
        cover.list_pod(of_alice("younger", minutes=1).obj)
        found = cover.user_coverage(of_alice().obj, EPOCH)
        assert set(found.pods) == {"uid-p", "uid-younger"}
        assert set(found.covered) == {"uid-p"}
        assert set(cover.all(EPOCH)) == {"uid-younger"}

    @pytest.mark.parametrize("builder", [a_pod().asks(1), a_pod().asks(1).of("")])
    def test_a_pod_without_a_user_has_no_bookings_and_no_other_pods(
        self, cover: Cover, builder: PodBuilder
    ) -> None:
        pod = builder.obj
        found = cover.user_coverage(pod, EPOCH)
        assert (found.bookings, found.pods, found.covered) == ((), {"uid-p": pod}, {})
        assert not cover.may_cover(pod, EPOCH)

    def test_a_barred_pod_leaves_its_booking_to_another_pod(self, cover: Cover) -> None:
        for minutes, name in enumerate(("p", "q")):
            cover.list_pod(of_alice(name, minutes=minutes).obj)
        barred = frozenset({("uid-p", "now")})
        found = cover.user_coverage(of_alice().obj, EPOCH, barred)
        assert (set(found.covered), found.barred) == ({"uid-q"}, barred)
        assert set(cover.all(EPOCH, barred)) == {"uid-q"}
        assert set(cover.all(EPOCH)) == {"uid-p"}

    def test_a_pod_that_is_barred_for_another_user_changes_nothing(self, cover: Cover) -> None:
        cover.list_pod(of_alice().obj)
        assert set(cover.all(EPOCH, frozenset({("uid-x", "now"), ("uid-y", "other")}))) == {"uid-p"}

    @pytest.mark.parametrize(
        ("hours", "may"),
        [(-3, False), (-2, True), (-1, True), (0, True), (47, True), (48, True), (100, False)],
    )
    def test_a_pod_may_be_covered_while_any_booking_of_its_user_runs(
        self, cover: Cover, bookings: Store[Booking], hours: int, *, may: bool
    ) -> None:
        bookings.upsert(a_booking("later", start=EPOCH + HOUR, end=EPOCH + 49 * HOUR))
        assert cover.may_cover(of_alice().obj, EPOCH + hours * HOUR) is may

    def test_a_pod_that_changes_hands_counts_for_its_new_user(self, cover: Cover) -> None:
        before = of_alice().obj
        cover.list_pod(before)
        assert {by.name for by in cover.all(EPOCH).values()} == {"now"}
        cover.unlist_pod(before)
        cover.list_pod(of_alice().of("bob").at(2).obj)
        assert {by.name for by in cover.all(EPOCH).values()} == {"other"}

    def test_removing_a_pod_that_was_never_listed_changes_nothing(self, cover: Cover) -> None:
        cover.list_pod(of_alice("q").obj)
        cover.unlist_pod(of_alice("p").obj)
        cover.unlist_pod(a_pod("r").obj)
        assert set(cover.all(EPOCH)) == {"uid-q"}


class TestBookings:
    @pytest.mark.parametrize(
        ("known", "comes", "is_taken"),
        [
            pytest.param(5, 6, True, id="newer"),
            pytest.param(5, 5, True, id="the same again"),
            pytest.param(5, 4, False, id="older"),
            pytest.param(None, 8, True, id="new, since the list"),
            pytest.param(None, 7, True, id="new, as of the list"),
            pytest.param(None, 6, False, id="deleted before the list"),
        ],
    )
    def test_only_a_newer_state_of_a_booking_counts(
        self, known: int | None, comes: int, *, is_taken: bool
    ) -> None:
        bookings = Store(Guard(), BOOKINGS, reads_ahead=True)
        bookings.replace([] if known is None else [in_version(a_booking(count=1), known)], "7")
        bookings.upsert(in_version(a_booking(count=2), comes))
        assert [booking.spec.count for booking in bookings.live.values()] == (
            [2] if is_taken else ([] if known is None else [1])
        )

    def test_a_list_keeps_bookings_read_since_and_drops_those_it_lacks(self) -> None:
        bookings = Store(Guard(), BOOKINGS, reads_ahead=True)
        bookings.upsert(in_version(a_booking("read-since", count=2), 9))
        bookings.upsert(in_version(a_booking("gone"), 3))
        bookings.replace([in_version(a_booking("read-since"), 8), in_version(a_booking("new"), 4)], "8")
        assert {name: booking.spec.count for name, booking in bookings.live.items()} == {
            "read-since": 2,
            "new": 1,
        }

    def test_a_late_event_does_not_bring_a_deleted_booking_back(self) -> None:
        bookings = Store(Guard(), BOOKINGS, reads_ahead=True)
        bookings.upsert(in_version(a_booking(), 5))
        bookings.remove(in_version(a_booking(), 6))
        bookings.upsert(in_version(a_booking(), 5))
        assert bookings.live == {}
        bookings.upsert(in_version(a_booking(), 7))
        assert set(bookings.live) == {"b-1"}

    def test_a_booking_that_changes_hands_covers_its_new_user(self) -> None:
        bookings = Store(Guard(), BOOKINGS, reads_ahead=True)
        cover = Cover(Ledger(), bookings)
        pods: list[Pod] = [of_alice().obj, of_alice("q").of("bob").obj]
        for pod in pods:
            cover.list_pod(pod)
        bookings.upsert(a_booking())
        assert [cover.may_cover(pod, EPOCH) for pod in pods] == [True, False]
        bookings.upsert(in_version(a_booking(user="bob"), 2))
        assert [cover.may_cover(pod, EPOCH) for pod in pods] == [False, True]
        assert set(cover.all(EPOCH)) == {"uid-q"}


@given(
    changes=st.lists(st.tuples(st.integers(0, 3), st.sampled_from((0, 40_000, 80_000, None))), max_size=12)
)
def test_the_example_of_a_model_is_the_least_of_all_nodes_whichever_have_changed(
    changes: list[tuple[int, int | None]],
) -> None:
    ledger = Ledger()
    examples = Examples(ledger)
    for version, (number, memory) in enumerate(changes, 1):
        node = f"n{number}"
        if memory is None:
            ledger.forget_node(node)
        else:
            devices = (shared_gpu(0, node, memory=memory),) if memory else (a6000(0, node),)
            ledger.apply_node(a_node(node, *devices, version=version))
        assert examples.of(A100) == example_of(ledger.all_views().values())(A100)
