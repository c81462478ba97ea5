"""What of fair shares no object of Kubernetes tells: what was owed, and whose pods were taken. One ConfigMap.

A crash loses what was owed within a minute. A record that is missing or cannot be read is empty: then nothing
is taken back until somebody has had too little for a while again.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import structlog

from cluster import names
from cluster.decide.fairshare import Account, Books, Tenant
from cluster.decide.fairshare.settings import DAY
from cluster.kube.errors import Conflict, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import CONFIG_MAPS
from cluster.objects.meta import UNREADABLE, Versioned, ready
from cluster.objects.pods import Pod

log = structlog.get_logger(__name__)

KEY: Final = "shares.json"
"""The key of the ConfigMap."""


class _Account(msgspec.Struct, frozen=True, omit_defaults=True):
    user: str
    group: str = ""
    lag: int = 0
    use: int = 0
    withheld: int = 0
    starved_since: int | None = None


@ready
class _Stored(Versioned, frozen=True, kw_only=True):
    """``KEY``: instants in microseconds since 1970, work in GPU-microseconds."""

    at: int = 0
    books: Mapping[str, tuple[_Account, ...]] = {}
    """Model -> the accounts of tenants and groups."""
    taken: Mapping[str, tuple[int, ...]] = {}


@dataclass
class Record:
    """The record in memory."""

    books: dict[str, Books] = field(default_factory=dict)
    """Model -> what tenants were owed and have used."""
    taken: dict[str, list[int]] = field(default_factory=dict)
    """``owner_key`` -> when pods of the owner were taken within the last day."""

    @property
    def is_worth_saving(self) -> bool:
        """Whether it says more than an empty one."""
        return bool(self.taken) or any(books.accounts for books in self.books.values())

    def note_taken(self, pod: Pod, now: int) -> None:
        """A pod was taken for the share of another user."""
        self.taken.setdefault(owner_key(pod), []).append(now)
        self.taken = {key: kept for key, at in self.taken.items() if (kept := _of_a_day(at, now))}


def owner_key(pod: Pod) -> str:
    """Equal for a pod and those that come in its place: its controller's uid, else its name."""
    controller = pod.metadata.controller
    return controller.uid if controller else pod.key


class RecordStore:
    """Reads and writes the ConfigMap. Raises ApiError where the API server does not answer."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube = kube
        self._namespace = namespace

    def load(self, now: int) -> Record:
        """The record as it was written last; what was owed since then is not counted."""
        try:
            found = self._kube.get(CONFIG_MAPS, names.SHARES_RECORD, namespace=self._namespace)
        except NotFound:
            return Record()
        try:
            stored = msgspec.json.decode((found.data or {}).get(KEY, "{}"), type=_Stored)
        except UNREADABLE as error:
            log.warning("the record of fair shares cannot be read, so it begins anew", error=str(error))
            return Record()
        return Record(
            books={model: Books(at=now, accounts=_accounts(them)) for model, them in stored.books.items()},
            taken={key: kept for key, at in stored.taken.items() if (kept := _of_a_day(at, now))},
        )

    def save(self, record: Record, now: int) -> None:
        """Write the record."""
        stored = _Stored(
            at=now,
            books={model: tuple(_written(books)) for model, books in record.books.items()},
            taken={key: tuple(at) for key, at in record.taken.items()},
        )
        data = {KEY: msgspec.json.encode(stored).decode()}
        try:
            self._kube.patch(CONFIG_MAPS, names.SHARES_RECORD, {"data": data}, namespace=self._namespace)
        except NotFound:
            body: dict[str, Any] = {"metadata": {"name": names.SHARES_RECORD}, "data": data}
            try:
                self._kube.create(CONFIG_MAPS, body, namespace=self._namespace)
            except Conflict:
                log.info("another process has created the record of fair shares")


def _accounts(stored: Iterable[_Account]) -> dict[Tenant, Account]:
    return {
        Tenant(one.user, one.group): Account(
            lag=one.lag, use=one.use, withheld=one.withheld, starved_since=one.starved_since
        )
        for one in stored
    }


def _written(books: Books) -> Iterable[_Account]:
    for tenant, one in sorted(books.accounts.items()):
        yield _Account(
            user=tenant.user,
            group=tenant.group,
            lag=one.lag,
            use=one.use,
            withheld=one.withheld,
            starved_since=one.starved_since,
        )


def _of_a_day(instants: Iterable[int], now: int) -> list[int]:
    return [instant for instant in instants if instant > now - DAY]
