"""The booking server's memory while people book, change, release, list and view pages, for some minutes.

``SOAK_MINUTES=30 pytest -s tests/booking/server/web/soak_memory.py`` takes a third of that, in halves on both
databases, or as long as ``LEAST`` requests take. What the server may keep (caches of its own and of SQLite's
connections) is bounded, and full after the warm-up: afterwards less than ``BOUNDS`` remains of each request.
"""

import http.client
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
import pytest

from cluster.process.clock import SystemClock
from tests.bench.child import child
from tests.booking.server.web.soak_server import INTERVAL, PEOPLE
from tests.databases import KINDS, a_database
from tests.fakes.dice import Dice
from tests.fakes.objects import A100, A6000

pytestmark = pytest.mark.timeout(0)

SECONDS: Final = 60 * float(os.environ.get("SOAK_MINUTES", "30")) / 6
LEAST: Final = 30_000
"""Requests."""
WARM_UP: Final = 0.4
"""Of the requests."""
BOUNDS: Final = {"bytes": 100, "blocks": 0.5}
"""What may remain of a request: not even one small object, which is a block."""
ASKERS: Final = 8
FINE: Final = {HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.CONFLICT}
"""Done, or refused by the rules or for lack of GPUs."""
PAGES: Final = ("/", "/mine", "/now", "/api/v1/availability", "/api/v1/me")
OF_ROOT: Final = ("/admin", "/admin/bookings", "/admin/audit", "/admin/denied", "/api/v1/admin/audit")


class Sample(msgspec.Struct, frozen=True):
    """How large the server was after how many requests."""

    requests: int
    bytes: int
    """In memory."""
    blocks: int
    """Of Python's allocator."""


def growth(samples: Sequence[Sample], what: str) -> float:
    """Bytes or blocks per request: the median slope from a sample of the first third to one of the last.

    Python gets its memory in pieces of 1 MiB: one more in so many requests is less than the bound.
    """
    pairs = zip(samples, samples[2 * len(samples) // 3 :], strict=False)
    return median(
        (getattr(later, what) - getattr(sample, what)) / (later.requests - sample.requests)
        for sample, later in pairs
    )


def too_much(samples: Sequence[Sample]) -> set[str]:
    """The kinds of memory that grew by more than their bound."""
    return {what for what, bound in BOUNDS.items() if growth(samples, what) > bound}


class Asker:
    """A client that sends one request after the other."""

    def __init__(self, port: int, number: int, answered: Counter[str]) -> None:
        self._line = http.client.HTTPConnection("127.0.0.1", port)
        self._dice = Dice(7, number)
        self._answered = answered

    def ask(self) -> None:
        """Send a few requests of one user."""
        who = f"u{self._dice.below(PEOPLE)}"
        deeds = (self._view, self._administer, *[self._later] * 3, *[self._book] * 5)
        deeds[self._dice.below(len(deeds))](who)

    def close(self) -> None:
        """No more requests."""
        self._line.close()

    def _book(self, who: str) -> None:
        """Book from now on; half of the bookings are then changed, and most given back."""
        body = {**self._request(), "duration": f"PT{1 + self._dice.below(20)}H"}
        booked = self._send("POST", "/api/v1/bookings", who, body, key=self._dice.below(2))
        if "id" in booked:
            self._change_and_end(who, booked)

    def _later(self, who: str) -> None:
        """Book the last of the offered slots."""
        body = {**self._request(), "duration": f"PT{1 + self._dice.below(20)}H"}
        slots = self._send("POST", "/api/v1/slots", who, body).get("slots")
        if slots:
            slot = slots[-1]
            booked = self._send("POST", "/api/v1/bookings", who, {**body, "start": slot["start"]})
            if "id" in booked:
                self._change_and_end(who, booked)

    def _change_and_end(self, who: str, booked: dict[str, Any]) -> None:
        path = f"/api/v1/bookings/{booked['id']}"
        if self._dice.below(2):
            self._send("PATCH", path, who, {"count": 1 + self._dice.below(3)})
        if self._dice.below(3):
            verb = {"active": ("POST", f"{path}/release"), "planned": ("DELETE", path)}
            self._send(*verb[booked["state"]], who, {})

    def _view(self, who: str) -> None:
        self._send("GET", PAGES[self._dice.below(len(PAGES))], who)
        self._send("GET", "/api/v1/bookings?past=true&limit=20", who)

    def _administer(self, _who: str) -> None:
        self._send("GET", OF_ROOT[self._dice.below(len(OF_ROOT))], "root")

    def _request(self) -> dict[str, Any]:
        return {"model": (A100, A6000)[self._dice.below(2)], "count": 1 + self._dice.below(4)}

    def _send(
        self, method: str, path: str, who: str, body: dict[str, Any] | None = None, *, key: int = 0
    ) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {who}-token", "Content-Type": "application/json"}
        if key:
            headers["Idempotency-Key"] = f"{who}-{self._dice.below(2**60)}"
        self._line.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self._line.getresponse()
        text = answer.read()
        assert answer.status in FINE, f"{method} {path} was answered with {answer.status}: {text.decode()}"
        self._answered[f"{method} {answer.status}"] += 1
        is_json = answer.headers["Content-Type"] == "application/json"
        return dict(json.loads(text)) if is_json else {}


def soaked(port: int, memory: Path) -> tuple[list[Sample], Counter[str]]:
    """Run all clients; the samples after the warm-up, and how the requests were answered."""
    clock, end, samples = SystemClock(), threading.Event(), list[Sample]()
    tallies = [Counter[str]() for _ in range(ASKERS)]

    def work(number: int) -> None:
        asker = Asker(port, number, tallies[number])
        while not end.is_set():
            asker.ask()
        asker.close()

    def request_count() -> int:
        return sum(tally.total() for tally in tallies)

    begin = clock.monotonic()
    with ThreadPoolExecutor(ASKERS) as pool:
        working = [pool.submit(work, number) for number in range(ASKERS)]
        while clock.monotonic() < begin + SECONDS or request_count() < LEAST:
            if any(each.done() for each in working):
                break
            clock.wait(end, INTERVAL)
            if memory.exists():
                samples.append(Sample(request_count(), *map(int, memory.read_text().split())))
        end.set()
        for each in working:
            each.result()
    warm = [sample for sample in samples if sample.requests > WARM_UP * request_count()]
    return warm, sum(tallies, Counter[str]())


@pytest.mark.parametrize("kind", KINDS)
def test_the_memory_of_each_request_is_given_back(kind: str, tmp_path: Path) -> None:
    with child("tests.booking.server.web.soak_server", str(tmp_path), a_database(kind, tmp_path)) as port:
        samples, answered = soaked(int(port), tmp_path / "memory")
    for sample in samples[:: max(1, len(samples) // 10)]:
        sys.stdout.write(
            f"  {sample.requests} requests: {sample.bytes / 2**20:.1f} MiB, {sample.blocks} blocks\n"
        )
    grown = {what: growth(samples, what) for what in BOUNDS}
    sys.stdout.write(f"{kind}: per request {grown}, of {dict(sorted(answered.items()))}\n")
    assert too_much(samples) == set()
