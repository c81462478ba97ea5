"""What tenants were owed and have used: the only facts about shares that remember. Plain values.

Between two changes of the cluster all amounts are constant, so everything is integrated exactly there, apart
from fractions of a GPU-microsecond, which are dropped. Work is GPU-microseconds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import log
from typing import Final

from cluster.decide.fairshare.settings import DEFAULTS, Amount, ShareSettings
from cluster.decide.fairshare.shares import Shares
from cluster.decide.fairshare.tenants import Tenant


@dataclass(frozen=True, slots=True)
class Account:
    """What is known of one tenant or group."""

    lag: int = 0
    """What it deserved and did not have, minus what it had and did not deserve."""
    use: int = 0
    """What it has used, with booked time, weighed by the model's value; it fades. Decides ties alone."""
    withheld: int = 0
    """What it deserved and did not have in this spell of starvation, minus what was destroyed for it."""
    starved_since: int | None = None
    """Since when it has been below its share, while a unit of it waited that some nodes could hold."""


_NOTHING: Final = Account()


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The accounts of one model at an instant."""

    at: int = 0
    """Up to when they are integrated, in microseconds since 1970."""
    accounts: Mapping[Tenant, Account] = field(default_factory=dict)
    loan_since: int | None = None
    """Since when a unit has been due for devices that only protections keep from it."""
    due: Mapping[str, int] = field(default_factory=dict)
    """Uid of a waiting unit -> when devices are taken for it if nothing changes, where that is known."""

    def of(self, node: Tenant) -> Account:
        """The account of a tenant or group."""
        return self.accounts.get(node, _NOTHING)

    def charged(self, nodes: Iterable[Tenant], loss: int) -> "Books":
        """After work was destroyed for a tenant: so much less counts as withheld from it and its group."""
        changed = {one: replace(self.of(one), withheld=max(0, self.of(one).withheld - loss)) for one in nodes}
        return replace(self, accounts={**self.accounts, **changed})


def advance(
    books: Books,
    shares: Shares,
    now: int,
    settings: ShareSettings = DEFAULTS,
    *,
    largest: Mapping[Tenant, Amount] | None = None,
    booked: Mapping[Tenant, Amount] | None = None,
    value: Fraction = Fraction(1),
) -> Books:
    """The books at ``now``. Call it before each change of the cluster, with the shares since ``books.at``.

    Args:
        books: at an earlier instant; a later one stays as it is (a clock that was set back).
        shares: which have not changed since then.
        now: microseconds since 1970.
        settings: half-lives, and how far lag goes.
        largest: GPUs of each tenant's largest waiting unit (``Line.largest``): lag grows far enough for it.
        booked: GPUs that pods of a booking hold: they count as use alone.
        value: of a GPU of this model, for ``use``.
    """
    span = now - books.at
    if span <= 0:
        return books
    largest, booked = _with_groups(largest or {}), shares.tree.sums(booked or {})
    lag_left = 0.5 ** (span / settings.lag_half_life)
    use_left = 0.5 ** (span / settings.use_half_life)
    growth = float(value) * settings.use_half_life / log(2) * (1 - use_left)
    found: dict[Tenant, Account] = {}
    for node in {*books.accounts, *shares.deserved, *booked}:
        account = books.of(node)
        held, share = shares.held.get(node, 0), shares.deserved.get(node, 0)
        waits, starts = bool(shares.wanted.get(node)), account.starved_since
        gained = _times(share - held, span)
        if waits or held > share:
            lag = account.lag + gained
        else:
            lag = int(account.lag * lag_left)
            if not held:
                lag = min(0, lag)
        # What was earned stays: the bound only ends growth.
        most = max(_most_lag(settings, largest.get(node, 0)), abs(account.lag))
        is_starved = waits and held < share
        use = account.use
        if use or held or node in booked:
            use = int(use * use_left + float(held + booked.get(node, 0)) * growth)
        one = Account(
            lag=max(-most, min(most, lag)),
            use=use,
            withheld=account.withheld + gained if is_starved else 0,
            starved_since=(books.at if starts is None else starts) if is_starved else None,
        )
        if one != _NOTHING:
            found[node] = one
    return replace(books, at=now, accounts=found)


def observe(books: Books, shares: Shares) -> Books:
    """The books after a change: who is not starved any more begins a new spell the next time."""
    changed = {
        node: replace(account, withheld=0, starved_since=None)
        for node, account in books.accounts.items()
        if account.starved_since is not None and not shares.is_starved(node)
    }
    return replace(books, accounts={**books.accounts, **changed}) if changed else books


def _times(amount: Amount, span: int) -> int:
    """GPUs for a span, in whole GPU-microseconds, toward zero."""
    if isinstance(amount, int):
        return amount * span
    whole = abs(amount.numerator) * span // amount.denominator
    return whole if amount > 0 else -whole


def _with_groups(largest: Mapping[Tenant, Amount]) -> Mapping[Tenant, Amount]:
    found = dict(largest)
    for tenant, amount in largest.items():
        if tenant.group:
            group = Tenant("", tenant.group)
            found[group] = max(found.get(group, 0), amount)
    return found


def _most_lag(settings: ShareSettings, largest: Amount) -> int:
    return int(settings.most_lag * (settings.turn or DEFAULTS.turn or 0) * max(largest, settings.large_unit))
