"""One pass of taking back: for starved tenants, the cheapest legal victims. All or nothing for each unit."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Final, Literal

from cluster.decide.fairshare.books import Books
from cluster.decide.fairshare.legality import Case, Tier, Verdict
from cluster.decide.fairshare.line import Line, Size, size_of
from cluster.decide.fairshare.search import Found, Places, Rules, Search
from cluster.decide.fairshare.settings import DEFAULTS, Amount, ShareSettings
from cluster.decide.fairshare.shares import Shares
from cluster.decide.fairshare.tenants import Tenant
from cluster.decide.fairshare.units import Running, Unit

WITHIN_SHARES: Final[tuple[Tier, ...]] = ("spare", "group")
TIERS: Final[tuple[Tier, ...]] = (*WITHIN_SHARES, "ahead", "anybody", "movable")
MOST_FORESEEN: Final = 20
"""Units for which a pass finds out when devices will be taken, at most: that is a search more for each."""
_Moved = Callable[[Mapping[str, Running], AbstractSet[str]], frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reclaim:
    """Units that are taken so that another one starts."""

    unit: Unit
    kind: Literal[1, 2]
    """2: it starts in a turn, and is protected for ``settings.turn``."""
    found: Found
    """Devices, units that leave, and what that destroys."""
    moved: frozenset[str] = frozenset()
    """Uids of those that find room elsewhere at once: it must be kept for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a pass decides."""

    reclaims: tuple[Reclaim, ...]
    shares: Shares
    """After them."""
    books: Books
    """What was destroyed for a tenant is charged to it, loans begin or end, and who is due when is known."""
    verdicts: Mapping[str, Verdict]
    """Uid of a waiting unit of a starved tenant for which nothing is taken now -> why."""


@dataclass(kw_only=True)
class Pass:
    """The inputs of a pass. Amounts are those after everything free was granted."""

    line: Line
    shares: Shares
    books: Books
    """Integrated up to now."""
    running: Mapping[str, Running]
    """Pod's uid -> the evictable unit that it belongs to."""
    places: Places
    settings: ShareSettings = DEFAULTS
    node_gpus: Amount = 8
    """Devices of the largest node."""
    is_known_to_fail: Callable[[Unit], bool] = field(default=lambda _: False)
    """Whether a search for a unit of this tenant and size has failed, and nothing has changed since then."""


def reclaim(inputs: Pass) -> Outcome:
    """The reclaims of this pass, the most starved tenant first."""
    one = _Round(inputs)
    made = tuple(one.run())
    books = one.books
    loan = (books.loan_since or books.at) if one.is_due else None
    return Outcome(
        reclaims=made,
        shares=one.shares,
        books=replace(books, loan_since=loan, due=one.due),
        verdicts=one.verdicts,
    )


def is_legal(
    case: Case, victims: Mapping[str, Running], lost: int, moved: frozenset[str] = frozenset()
) -> Verdict:
    """The last check before an eviction, on fresh shares: the class that the reclaim still has.

    Args:
        case: the unit that gets the devices, as if it were still waiting without a hold.
        victims: the units that have not left yet, by uid, as if none of them had been taken.
        lost: what their eviction destroys, in GPU-microseconds.
        moved: those of them that find room elsewhere.
    """
    return case.judge(_losses(victims, moved), lost)


class _Round:
    def __init__(self, inputs: Pass) -> None:
        self._inputs, self._settings = inputs, inputs.settings
        self.shares, self.books = inputs.shares, inputs.books
        self.verdicts: dict[str, Verdict] = {}
        self.is_due = False
        self.due: dict[str, int] = {}
        """Uid of a waiting unit -> when devices are taken for it, if nothing changes."""
        self._foreseen = 0
        self._search = Search(inputs.places, inputs.running)
        tiers = TIERS if inputs.settings.turn is not None else WITHIN_SHARES
        has_groups = any(node.group for node in inputs.shares.deserved)
        self._tiers = tuple(tier for tier in tiers if tier != "group" or has_groups)
        self._known_for: Case | None = None
        self._known: dict[Tier, dict[Tenant, Amount]] = {}
        """What tenants may lose to the unit of this case."""
        self._gone: set[str] = set()
        """Uids of units that have been given devices, or taken, in this pass."""

    def run(self) -> Iterator[Reclaim]:
        """The reclaims, each on the amounts that those before it have left."""
        tried: set[tuple[Tenant, Size]] = set()
        while made := self._next(tried):
            self._settle(made)
            yield made

    def _next(self, tried: set[tuple[Tenant, Size]]) -> Reclaim | None:
        for unit in self._asking():
            one = (unit.tenant, size_of(unit))
            if one in tried:
                continue
            if self._inputs.is_known_to_fail(unit):
                self.is_due = self.is_due or self._inputs.books.loan_since is not None
                if unit.uid in self._inputs.books.due:
                    self.due[unit.uid] = self._inputs.books.due[unit.uid]
            elif made := self._serve(unit):
                return made
            tried.add(one)
        return None

    def _asking(self) -> Iterator[Unit]:
        """Units of starved tenants: first of the one that has the least of its share, its units in order."""
        shares = self.shares
        starved = [one for one in self._inputs.line.tenants if shares.is_starved(one)]
        of_share = {one: Fraction(shares.held.get(one, 0)) / shares.deserved[one] for one in starved}
        for tenant in sorted(starved, key=lambda one: (of_share[one], one)):
            yield from self._inputs.line.firsts(tenant, self._gone)

    def _serve(self, unit: Unit) -> Reclaim | None:
        case = Case(unit, self.shares, self.books, self._settings, self._inputs.node_gpus)
        verdict = case.may_ask()
        if verdict.kind:
            made, verdict = self._attempt(case)
            if made is not None:
                return made
            if verdict.reason in {"no-victims", "worth"}:
                self._look_ahead(case, verdict)
        self.verdicts[unit.uid] = verdict
        return None

    def _look_ahead(self, case: Case, verdict: Verdict) -> None:
        """Who could leave without protections: whether the unit is due, and when devices are taken for it."""
        lends = self._settings.lends and verdict.reason == "no-victims" and not self.is_due
        if not lends and self._foreseen >= MOST_FORESEEN:
            return
        self._foreseen += 1
        made, later = self._attempt(case, ignores_protection=True)
        self.is_due = self.is_due or (lends and made is not None)
        known = [one.due_in for one in (verdict, later) if one.due_in is not None]
        if known:
            self.due[case.unit.uid] = self.books.at + min(known)

    def _attempt(self, case: Case, *, ignores_protection: bool = False) -> tuple[Reclaim | None, Verdict]:
        """The first tier with a legal set that is not too dear; the verdict if nothing is taken.

        ``ignores_protection``: the verdict says for how long protections, and what is lost, stand against it.
        """
        best, before = Verdict(0, "no-victims"), None
        for tier in self._tiers:
            most = self._allowances(case, tier)
            if tier != "movable" and most == before:
                continue  # the same would be found
            before = most
            moved = self._movable if tier == "movable" and self._inputs.places.moves else _nothing_moves
            found = self._search.cheapest(
                case.unit, self._rules(case, tier, moved, ignores_protection=ignores_protection)
            )
            if found is None:
                continue
            moves = moved(found.units, found.nodes)
            verdict = case.judge(_losses(found.units, moves), found.lost)
            if ignores_protection and (verdict.kind or verdict.due_in is not None):
                verdict = replace(verdict, due_in=max(verdict.due_in or 0, self._protected_for(found)))
            if verdict.kind:
                return Reclaim(unit=case.unit, kind=verdict.kind, found=found, moved=moves), verdict
            if verdict.reason == "worth":
                return None, verdict
            best = verdict
        return None, best

    def _rules(self, case: Case, tier: Tier, moved: _Moved, *, ignores_protection: bool) -> Rules:
        """Who may leave in this tier."""
        most = self._allowances(case, tier)

        def permits(units: Mapping[str, Running], nodes: AbstractSet[str]) -> bool:
            return case.judge(_losses(units, moved(units, nodes)), 0).kind != 0

        may_leave = self._filter(case, tier, most, ignores_protection=ignores_protection)
        if tier == "movable" and self._inputs.places.moves:
            return Rules(may_leave=may_leave, permits=permits)
        return Rules(
            may_leave=may_leave, permits=permits, most=lambda one: most.get(one, 0), givers=most.keys()
        )

    def _allowances(self, case: Case, tier: Tier) -> Mapping[Tenant, Amount]:
        """Tenant -> what it may lose in this tier; only those who may lose a unit."""
        if self._known_for is not case:
            self._known_for, self._known = case, {}
        if tier not in self._known:
            own = case.unit.tenant
            self._known[tier] = {
                tenant: most
                for tenant, smallest in self._search.smallest.items()
                if tenant != own and (most := case.allowance(tenant, tier)) >= smallest
            }
            if tier == "movable" and own in self._search.smallest:
                self._known[tier][own] = self.shares.held.get(own, 0)
        return self._known[tier]

    def _protected_for(self, found: Found) -> int:
        """Microseconds until no unit of them is protected."""
        now = self.books.at
        ends = (self._protected_until(one) for one in found.units.values())
        return max(0, max(ends, default=now) - now)

    def _protected_until(self, one: Running) -> int:
        lent_since = self._inputs.books.loan_since
        is_on_loan = (
            lent_since is not None and one.since >= lent_since and self.shares.over(one.unit.tenant) > 0
        )
        return one.protected_until(self._settings, self.books.at, is_on_loan=is_on_loan)

    def _movable(self, units: Mapping[str, Running], nodes: AbstractSet[str]) -> frozenset[str]:
        return self._inputs.places.elsewhere(units.values(), nodes)

    def _filter(
        self, case: Case, tier: Tier, most: Mapping[Tenant, Amount], *, ignores_protection: bool
    ) -> Callable[[Running], bool]:
        """Whether a unit may leave in this tier, judged alone."""
        own, now = case.unit.tenant, self.books.at

        def may_leave(one: Running) -> bool:
            tenant = one.unit.tenant
            if one.unit.uid in self._gone:
                return False
            if not ignores_protection and self._protected_until(one) > now:
                return False
            if tenant == own:
                return tier == "movable" and (
                    one.unit.gpus < case.unit.gpus or one.unit.created > case.unit.created
                )
            if one.unit.gpus <= most.get(tenant, 0):
                return True
            return (
                tier == "movable"
                and self._inputs.places.moves
                and bool(self._inputs.places.elsewhere((one,)))
            )

        return may_leave

    def _settle(self, made: Reclaim) -> None:
        changes: dict[Tenant, Amount] = {made.unit.tenant: made.unit.gpus}
        for tenant, amount in _losses(made.found.units, made.moved).items():
            changes[tenant] = changes.get(tenant, 0) - amount
        case = Case(made.unit, self.shares, self.books)
        taken = sum(one.unit.gpus for one in made.found.units.values())
        loss = int(self._settings.worth * case.destroyed_before(taken, made.found.lost))
        self.books = self.books.charged(case.path, loss)
        self.shares = self.shares.after(changes)
        self._gone |= {made.unit.uid, *made.found.units}
        self._inputs.places.settle(made.unit, made.found.selections)
        self._search.settled()


def _nothing_moves(_units: Mapping[str, Running], _nodes: AbstractSet[str]) -> frozenset[str]:
    return frozenset()


def _losses(units: Mapping[str, Running], moved: frozenset[str]) -> dict[Tenant, Amount]:
    found: dict[Tenant, Amount] = {}
    for uid, one in units.items():
        if uid not in moved:
            found[one.unit.tenant] = found.get(one.unit.tenant, 0) + one.unit.gpus
    return found
