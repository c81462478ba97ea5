"""Shared by all callers of the API server in memory: its state, its lock, and the record of their calls."""

import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from cluster.fake.errors import refusal
from cluster.fake.faults import Faults
from cluster.fake.listing import Pages
from cluster.fake.state import Json, State
from cluster.fake.store import Store
from cluster.fake.watching import Watches
from cluster.kube.errors import Request
from cluster.kube.resources import Resource
from cluster.process.clock import Clock

ADMINISTRATOR: Final = "kubernetes-admin"
"""The default caller."""


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """The input of admission: an object to be created, and its creator.

    As a webhook of the real server sees it: before a name is made from ``generateName`` (so the object may
    have no name), before uid and creation time are set, and before the check whether the name is taken.
    """

    plural: str
    namespace: str | None
    obj: Json
    user: str
    dry_run: bool = False


Review = Callable[[Json], Json]
"""Returns the ``status`` of a question that is answered and never stored, such as a TokenReview."""
Admission = Callable[[Attributes], Json]
"""Returns the object as it will be stored; an ApiError refuses it."""


@dataclass(frozen=True)
class Call:
    """One call to the API server."""

    verb: str
    path: str
    sent: bytes | None = None
    user: str = ADMINISTRATOR

    @property
    def body(self) -> Json | None:
        """What was sent, decoded again each time."""
        return None if self.sent is None else msgspec.json.decode(self.sent)


class ServerCore:
    """The server behind its endpoints. The thread that holds its lock has exclusive access."""

    def __init__(self, clock: Clock, *, streams_lists: bool, history: int, calls_kept: int) -> None:
        self.lock = threading.RLock()
        self.clock = clock
        self.store = Store(history=history)
        self.watches = Watches(self.store, self.lock, streams_lists=streams_lists)
        self.pages = Pages(self.store)
        self.faults = Faults()
        self.protected: set[str] = set()
        """Uids of pods that a PodDisruptionBudget protects, without there being one."""
        self.forbidden: dict[str, tuple[int, str]] = {}
        """Uids of pods whose eviction a webhook denies -> the code and message of its answer."""
        self.admission: Admission | None = None
        self.reviews: dict[str, Review] = {}
        """Kind that is answered and not stored, by its plural -> what answers it."""
        self.calls: list[Call] = []
        self._calls_kept = calls_kept
        self.numbers = itertools.count(1)

    @contextmanager
    def call(
        self, user: str, verb: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Iterator[Request]:
        """Record a call, and let the faults happen that wait for it; the lock is held inside."""
        with self.lock:
            sent = None if body is None else msgspec.json.encode(body)
            self.calls.append(Call(verb, path, sent, user))
            if len(self.calls) > 2 * self._calls_kept:
                del self.calls[: self._calls_kept]
            request = Request(verb, path)
            self.faults.strike_before(request)
            yield request
            self.faults.strike_after(request)

    def found(self, request: Request, resource: Resource[Any], namespace: str | None, name: str) -> State:
        """A stored object.

        Raises:
            NotFound: there is no such object.
        """
        state = self.store.find(resource.plural, namespace, name)
        if state is None:
            raise refusal(request, 404, "NotFound", f'{resource.plural} "{name}" not found')
        return state

    def now(self) -> datetime:
        """The time of the server's clock, aware UTC."""
        return self.clock.now()


def text_of(instant: datetime) -> str:
    """An instant as it is written in metadata: to the second."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
