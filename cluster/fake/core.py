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
    """What admission is asked about: an object that is to be created, and by whom.

    As a webhook of the real server sees it: before a name is made of ``generateName`` (the object has no name
    then), before uid and creation time are given, before it is checked whether the name is taken.
    """

    plural: str
    namespace: str | None
    obj: Json
    user: str
    dry_run: bool = False


Admission = Callable[[Attributes], Json]
"""Gives the object as it shall be stored; an ApiError refuses it."""


@dataclass(frozen=True)
class Call:
    """One call of the API server."""

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
        """Uids of pods that a PodDisruptionBudget protects."""
        self.admission: Admission | None = None
        self.calls: list[Call] = []
        self._calls_kept = calls_kept
        self.numbers = itertools.count(1)

    @contextmanager
    def call(
        self, user: str, verb: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Iterator[Request]:
        """Record a call, and let go wrong what shall go wrong with it."""
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
        """An object.

        Raises:
            NotFound: there is none.
        """
        state = self.store.find(resource.plural, namespace, name)
        if state is None:
            raise refusal(request, 404, "NotFound", f'{resource.plural} "{name}" not found')
        return state

    def now(self) -> datetime:
        """What the server's clock says, aware UTC."""
        return self.clock.now()


def text_of(instant: datetime) -> str:
    """An instant as metadata holds it: to the second."""
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")
