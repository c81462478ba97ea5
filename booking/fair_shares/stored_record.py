"""The record of fair shares as it is stored: the controller writes it, the booking server reads it. Pure."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from cluster.decide.fairshare import Account, Books, Tenant
from cluster.objects.meta import Versioned, ready

KEY: Final = "shares.json"
"""The key of the ConfigMap."""


class StoredAccount(msgspec.Struct, frozen=True, omit_defaults=True):
    """The account of a tenant, or of a group (``user`` is empty)."""

    user: str
    group: str = ""
    lag: int = 0
    use: int = 0
    withheld: int = 0
    starved_since: int | None = None


@ready
class StoredRecord(Versioned, frozen=True, kw_only=True):
    """``KEY``: instants in microseconds since 1970, work in GPU-microseconds."""

    at: int = 0
    books: Mapping[str, tuple[StoredAccount, ...]] = {}
    """Model -> the accounts of tenants and groups."""
    taken: Mapping[str, tuple[int, ...]] = {}
    loans: Mapping[str, int] = {}
    """Model -> since when a unit has been due for devices that only protections keep from it."""
    due: Mapping[str, Mapping[str, int]] = {}
    """Model -> uid of a waiting pod, or key of a gang -> when devices are taken for it if nothing changes."""


def decoded(text: str) -> StoredRecord:
    """The record of a text. Raises: one of ``UNREADABLE``: it cannot be read."""
    return msgspec.json.decode(text, type=StoredRecord)


def books_of(stored: StoredRecord) -> Mapping[str, Books]:
    """Model -> the books at the instant at which they were written."""
    return {
        model: Books(
            at=stored.at,
            accounts=_accounts(them),
            loan_since=stored.loans.get(model),
            due=stored.due.get(model, {}),
        )
        for model, them in stored.books.items()
    }


def _accounts(stored: Iterable[StoredAccount]) -> dict[Tenant, Account]:
    return {
        Tenant(one.user, one.group): Account(
            lag=one.lag, use=one.use, withheld=one.withheld, starved_since=one.starved_since
        )
        for one in stored
    }
