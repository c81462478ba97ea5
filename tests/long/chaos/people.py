"""People who book for later, shorten and cancel, or move the end of running bookings forth and back."""

import threading
from datetime import timedelta
from typing import Final

from cluster.kube.errors import ApiError
from cluster.objects.cover_annotations import text_of
from cluster.process.clock import SystemClock
from devcluster.demo.rest import Json
from devcluster.errors import ClusterError
from tests.long.accounts import Account
from tests.long.chaos.guaranteed_bookings import BOOKINGS, moment
from tests.long.fire.harm import share

EVERY: Final = 1.0
"""Seconds between two deeds of somebody."""
AHEAD: Final = timedelta(hours=1)
LONG: Final = timedelta(days=2)
SHORTER_BY: Final = timedelta(hours=7)
SHORT: Final = timedelta(hours=12)
"""What is left of a booking when its owner has no more use for it."""
CANCELS: Final = 0.2


class Planner:
    """Has one booking for later, at most."""

    def __init__(self, account: Account, seed: str, model: str) -> None:
        self._account = account
        self._seed = seed
        self._model = model
        self._clock = SystemClock()
        self.deeds = {"book": 0, "shorten": 0, "cancel": 0}
        """Of each kind, how many were answered."""

    def run(self, stop: threading.Event) -> None:
        """Run until ``stop`` is set."""
        while not self._clock.wait(stop, EVERY):
            self.turn()

    def turn(self) -> None:
        """One deed; after a call without an answer the bookings are read again in the next turn."""
        try:
            deed = self._deed()
        except ClusterError:
            return
        if deed:
            self.deeds[deed] += 1

    def _deed(self) -> str | None:
        rest = self._account.rest
        listed = rest.ask("GET", BOOKINGS)
        if listed.is_refusal:
            return None
        planned = [one for one in listed.body["bookings"] if one["state"] == "planned"]
        if not planned:
            start = self._clock.now() + AHEAD
            request: Json = {"start": text_of(start), "end": text_of(start + LONG), "model": self._model}
            return None if rest.book(**request, count=1).is_refusal else "book"
        (one,) = planned
        path, length = f"{BOOKINGS}/{one['id']}", moment(one["end"]) - moment(one["start"])
        tired = share(self._seed, self._account.name, str(sum(self.deeds.values()))) < CANCELS
        if tired or length < SHORT:
            return None if rest.ask("DELETE", path).is_refusal else "cancel"
        end = text_of(moment(one["end"]) - SHORTER_BY)
        return None if rest.ask("PATCH", path, {"end": end}).is_refusal else "shorten"


class Owner:
    """Has one GPU booked for all the time, and has its end put back and forth."""

    def __init__(self, account: Account, model: str) -> None:
        self._account = account
        self._model = model
        self._clock = SystemClock()
        self.changes = 0
        """That were answered."""

    def run(self, stop: threading.Event) -> None:
        """Run until ``stop`` is set."""
        while not self._clock.wait(stop, EVERY):
            try:
                self._turn()
            except (ApiError, ClusterError):  # what has no answer is asked again
                continue

    def _turn(self) -> None:
        rest = self._account.rest
        listed = rest.ask("GET", BOOKINGS)
        if listed.is_refusal:
            return
        active = [one for one in listed.body["bookings"] if one["state"] == "active"]
        assert len(active) <= 1, f"{self._account.name} was given more than one booking: {active}"
        if not active:
            rest.book(model=self._model, count=1, duration="P3D")
            return
        (one,) = active
        by = AHEAD if self.changes % 2 else -AHEAD
        end = text_of(moment(one["end"]) + by)
        if not rest.ask("PATCH", f"{BOOKINGS}/{one['id']}", {"end": end}).is_refusal:
            self.changes += 1
