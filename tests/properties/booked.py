"""Bookings next to the pods and nodes of ``watched_cache``: everything begins and ends on full hours."""

from datetime import datetime, timedelta
from typing import Final

import msgspec

from cluster import names
from cluster.objects.pods import Pod
from tests.fakes.objects import a_booking
from tests.properties.history import Pick, step
from tests.properties.watched_cache import WatchedCache
from tests.properties.world import MODELS, NAMESPACES, USERS, annotated

HOUR: Final = timedelta(hours=1)
HALF: Final = HOUR / 2
BOOKINGS: Final = 6
"""Bookings that are stored at the same time."""


class Booked(WatchedCache):
    """Somebody books, prolongs, releases; time goes by halves of hours."""

    def __init__(self) -> None:
        self.booked = 0
        super().__init__()

    # --- what happens to bookings ------------------------------------------------------------------------
    @step(3)
    def somebody_books(self, pick: Pick) -> str:
        if len(self.bookings.stored) >= BOOKINGS:
            return self.a_booking_is_forgotten(pick)
        self.booked += 1
        user, model, count, place, begins, lasts = pick.many(3, 3, 4, 6, 4, 3)
        start = self.hour() + (begins - 1) * HOUR
        more = {"namespace": NAMESPACES[place - 4]} if place > 3 else {}
        booking = a_booking(
            f"b-{self.booked}",
            user=USERS[user == 2],
            model=MODELS[model == 2],
            count=(1, 1, 2, 3)[count],
            start=start,
            end=start + (2 + 2 * lasts) * HOUR,
            **more,
        )
        spec = self.bookings.put(booking).spec
        return f"{booking.name}: {spec.user}, {spec.count} x {spec.model} from {spec.start} to {spec.end}"

    def hour(self) -> datetime:
        """The full hour."""
        return self.clock.now().replace(minute=0)

    @step(2)
    def a_booking_changes(self, pick: Pick) -> str:
        if not self.bookings.stored:
            return "there is none"
        booking, longer, count = pick.one(self.bookings.items), pick.between(-1, 2), pick.between(0, 3)
        # Released, it ends with this instant; prolonged, by hours.
        end = booking.spec.end + longer * HOUR if longer >= 0 else max(self.clock.now(), booking.spec.start)
        spec = msgspec.structs.replace(booking.spec, end=end, count=count or booking.spec.count)
        self.bookings.put(msgspec.structs.replace(booking, spec=spec))
        return f"{booking.name} ends {end}"

    @step()
    def a_booking_is_forgotten(self, pick: Pick) -> str:
        if not self.bookings.stored:
            return "there is none"
        booking = pick.one(self.bookings.items)
        self.bookings.drop(booking)
        return booking.name

    @step(3)
    def time_passes(self, pick: Pick) -> str:
        self.clock.advance(pick.between(1, 3) * HALF.total_seconds())
        return str(self.clock.now())

    # --- what the parts do -------------------------------------------------------------------------------
    @step(2)
    def cover_annotations_are_written(self, _pick: Pick) -> str:
        """The reclaimer writes on pods what covers them."""
        cover = self.cache.cover(self.clock.now())
        for uid, pod in list(self.pods.stored.items()):
            if uid in self.known.pods:
                booking = cover.get(uid)
                self._annotate(pod, booking.name if booking else None)
        return f"{len(cover)} are covered"

    def _annotate(self, pod: Pod, name: str | None) -> None:
        if pod.metadata.annotation(names.BOOKING) != name:
            self.pods.put(annotated(pod, names.BOOKING, name))
