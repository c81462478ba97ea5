"""What of fair shares no object of Kubernetes tells: what was owed, and whose pods were taken. One ConfigMap.

A crash loses what was owed within a minute. A record that is missing or cannot be read is empty: then nothing
is taken back until somebody has had too little for a while again.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import msgspec
import structlog

from booking.fair_shares.stored_record import KEY, StoredAccount, StoredRecord, books_of, decoded
from cluster import names
from cluster.decide.fairshare import Account, Books
from cluster.decide.fairshare.settings import DAY, MINUTE
from cluster.kube.errors import Conflict, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import CONFIG_MAPS
from cluster.objects.gangs import gang_of
from cluster.objects.meta import UNREADABLE
from cluster.objects.pods import Pod

T = TypeVar("T")
log = structlog.get_logger(__name__)

TOGETHER: Final = 15 * MINUTE
"""Within so long all pods of a gang leave, whatever notice each of them has."""
MOST_OF_BOOKS: Final = 600_000
MOST_OF_TAKEN: Final = 200_000
MOST_OF_DUE: Final = 100_000
"""Bytes of each part; a ConfigMap has at most 1 MiB. What would decide least is left out: an account that is
missing begins anew."""


@dataclass
class Record:
    """The record in memory."""

    books: dict[str, Books] = field(default_factory=dict)
    """Model -> what tenants were owed and have used."""
    taken: dict[str, list[int]] = field(default_factory=dict)
    """``owner_key`` -> when pods of the owner were taken within the last day."""

    def with_taken(self, more: Mapping[str, Iterable[int]]) -> "Record":
        """The record with what was taken before it was read."""
        taken = {key: [*self.taken.get(key, ()), *more.get(key, ())] for key in {*self.taken, *more}}
        return Record(books=self.books, taken=taken)

    def note_taken(self, pod: Pod, now: int) -> None:
        """A pod was taken for the share of another user; pods of a gang count once."""
        before = self.taken.setdefault(owner_key(pod), [])
        if not before or gang_of(pod) is None or now - before[-1] > TOGETHER:
            before.append(now)
        self.taken = {key: kept for key, at in self.taken.items() if (kept := _of_a_day(at, now))}


def owner_key(pod: Pod) -> str:
    """Equal for a pod and those that come in its place: its gang, its controller's uid, or else its name."""
    gang, controller = gang_of(pod), pod.metadata.controller
    if gang is not None:
        return gang.key
    return controller.uid if controller else pod.key


class RecordStore:
    """Reads and writes the ConfigMap. Raises ApiError where the API server does not answer."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace
        self._saved: StoredRecord | None = None
        """What this process wrote last."""

    def load(self, now: int) -> Record:
        """The record as it was written last; what was owed since then is not counted."""
        try:
            found = self._kube.get(CONFIG_MAPS, names.SHARES_RECORD, namespace=self._namespace)
        except NotFound:
            return Record()
        try:
            stored = decoded((found.data or {}).get(KEY, "{}"))
        except UNREADABLE as error:
            log.warning("the record of fair shares cannot be read, so it begins anew", error=str(error))
            return Record()
        return Record(
            books={model: _later(books, now) for model, books in books_of(stored).items()},
            taken={key: kept for key, at in stored.taken.items() if (kept := _of_a_day(at, now))},
        )

    def save(self, record: Record, now: int) -> None:
        """Write the record, if it is another than this process wrote last."""
        loans = {model: one.loan_since for model, one in record.books.items() if one.loan_since is not None}
        stored = StoredRecord(
            books=_written(record.books),
            taken=_newest(record.taken),
            loans=loans,
            due=_earliest(record.books),
        )
        is_empty = self._saved is None and not any(stored.books.values()) and not stored.taken
        if is_empty or stored == self._saved:
            return
        data = {KEY: msgspec.json.encode(msgspec.structs.replace(stored, at=now)).decode()}
        try:
            self._kube.patch(CONFIG_MAPS, names.SHARES_RECORD, {"data": data}, namespace=self._namespace)
        except NotFound:
            body: dict[str, Any] = {"metadata": {"name": names.SHARES_RECORD}, "data": data}
            try:
                self._kube.create(CONFIG_MAPS, body, namespace=self._namespace)
            except Conflict:
                log.info("another process has created the record of fair shares")
                return
        self._saved = stored


def _later(books: Books, now: int) -> Books:
    """The books of an instant before: for a while nobody has looked who is starved, and what is owed."""
    unknown = max(0, now - books.at)
    accounts = {
        tenant: one if one.starved_since is None else replace(one, starved_since=one.starved_since + unknown)
        for tenant, one in books.accounts.items()
    }
    return replace(books, at=now, accounts=accounts)


def _written(books: Mapping[str, Books]) -> dict[str, tuple[StoredAccount, ...]]:
    """The accounts that decide most: who is starved now, then by what was owed, then by use."""
    every = (
        (model, StoredAccount(tenant.user, tenant.group, **_amounts(one)))
        for model, of_model in books.items()
        for tenant, one in of_model.accounts.items()
    )
    found: dict[str, list[StoredAccount]] = {}
    for model, one in _within(every, _weight, most=MOST_OF_BOOKS):
        found.setdefault(model, []).append(one)
    return {
        model: tuple(sorted(them, key=lambda one: (one.user, one.group)))
        for model, them in sorted(found.items())
    }


def _amounts(one: Account) -> dict[str, Any]:
    return {"lag": one.lag, "use": one.use, "withheld": one.withheld, "starved_since": one.starved_since}


def _weight(one: tuple[str, StoredAccount]) -> Any:
    account = one[1]
    return account.starved_since is None, -abs(account.lag), -account.use, account.user, account.group


def _newest(taken: Mapping[str, list[int]]) -> dict[str, tuple[int, ...]]:
    every = ((key, tuple(at)) for key, at in taken.items())
    return dict(sorted(_within(every, lambda one: (-one[1][-1], one[0]), most=MOST_OF_TAKEN)))


def _earliest(books: Mapping[str, Books]) -> dict[str, dict[str, int]]:
    every = ((at, model, uid) for model, one in books.items() for uid, at in one.due.items())
    found: dict[str, dict[str, int]] = {}
    for at, model, uid in sorted(_within(every, lambda one: one, most=MOST_OF_DUE)):
        found.setdefault(model, {})[uid] = at
    return found


def _within(every: Iterable[T], weight: Callable[[T], Any], *, most: int) -> list[T]:
    """The first of them that have room in so many bytes."""
    found, size = [], 0
    for one in sorted(every, key=weight):
        size += len(msgspec.json.encode(one))
        if size > most:
            break
        found.append(one)
    return found


def _of_a_day(instants: Iterable[int], now: int) -> list[int]:
    return [instant for instant in instants if instant > now - DAY]
