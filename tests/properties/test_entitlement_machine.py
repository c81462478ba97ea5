"""Entitlement through long histories: cover follows its definition, at every instant."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from cluster import names
from cluster.kube.resources import BOOKINGS
from cluster.objects.bookings import Booking
from tests.properties.booked import HALF, Booked
from tests.properties.history import Machine, Pick, by_hypothesis, length, step
from tests.properties.watched_cache import AT_ONCE
from tests.properties.world import annotated

MOMENT: Final = timedelta(microseconds=1)


class EntitlementMachine(Booked):
    """Bookings and pods in a cache, and Bookings that are read ahead of the watch."""

    def __init__(self) -> None:
        self.late: tuple[Booking, ...] = ()
        super().__init__()

    @step(2)
    def a_pod_comes_back(self, pick: Pick) -> str:
        """In the place of another, with the instant at which that one was created."""
        if not self.pods.stored:
            return "there is none"
        pod = pick.one(self.pods.items)
        self.pods.drop(pod)
        self.created += 1
        name = f"p{self.created}"
        first = pod.metadata.annotation(names.FIRST_CREATED) or _text(pod.metadata.creation_timestamp)
        fresh = annotated(annotated(pod, names.FIRST_CREATED, first), names.ASSIGNED, None)
        meta = msgspec.structs.replace(
            fresh.metadata,
            name=name,
            uid=f"uid-{name}",
            creation_timestamp=self.clock.now(),
            deletion_timestamp=None,
        )
        spec = msgspec.structs.replace(pod.spec, node_name=None)
        status = msgspec.structs.replace(pod.status, phase="Pending")
        self.pods.put(msgspec.structs.replace(pod, metadata=meta, spec=spec, status=status))
        return f"{pod.metadata.name} as {name}"

    @step(2)
    def bookings_are_read(self, _pick: Pick) -> None:
        """Somebody reads them all, without waiting for the watch; the answer takes its time."""
        self.late = self.bookings.items

    @step(2)
    def what_was_read_arrives(self, _pick: Pick) -> None:
        for booking in self.late:
            mine, version = self.known.bookings.get(booking.name), int(booking.metadata.resource_version)
            self.cache.of(BOOKINGS).upsert(booking)
            # What list and watch have reported and what is not there is gone.
            if version >= (int(mine.metadata.resource_version) if mine else self.bookings_version):
                self.known.bookings[booking.name] = booking
        self.late = ()

    @step(2)
    def another_pod_takes_no_cover_away(self, pick: Pick) -> str:
        """A pod that is covered and annotated as such stays covered, whatever other pod comes."""
        for _ in range(2):
            self.catch_up()
            self.cover_annotations_are_written(pick)
        self.catch_up()
        now = self.clock.now()
        before = {
            uid: booking.name
            for uid, booking in self.cache.cover(now).items()
            if self.pods.stored[uid].metadata.annotation(names.BOOKING) == booking.name
        }
        message = self.a_pod_is_created(pick) if len(self.pods.stored) < AT_ONCE else "nobody comes"
        self.catch_up()
        after = {uid: booking.name for uid, booking in self.cache.cover(now).items()}
        assert before.items() <= after.items()
        return message

    # --- what must be true -------------------------------------------------------------------------------
    def check(self) -> None:
        now = self.clock.now()
        for instant in (now - MOMENT, now, now + MOMENT, now + HALF):
            self._compare(instant)

    def _compare(self, now: datetime) -> None:
        cover = self.cache.cover(now)
        assert {uid: booking.name for uid, booking in cover.items()} == self.known.cover(now)
        used: dict[str, int] = {}
        for uid, booking in cover.items():
            pod = self.known.pods[uid]
            gpus = self.known.coverable(pod, booking)
            assert gpus is not None
            assert booking.spec.start <= now < booking.spec.end
            used[booking.name] = used.get(booking.name, 0) + gpus
        assert all(number <= self.known.bookings[name].spec.count for name, number in used.items())
        for uid, pod in self.known.pods.items():
            one = self.cache.cover_of(pod, now)
            assert one is cover.get(uid)

    def settle(self) -> None:
        self.catch_up()
        self.check()


def _text(instant: datetime | None) -> str:
    assert instant is not None
    return instant.isoformat()


TestEntitlement = by_hypothesis(EntitlementMachine, examples=15)


def test_cover_follows_its_definition_through_a_long_history(
    play: Callable[[type[Machine]], int],
) -> None:
    assert play(EntitlementMachine) == length()
