"""Whether devices may be taken for a unit, and from whom: the one function that plans, checks and explains.

Class 1: its tenant stays within its share, and so does everybody who loses something; of another group, the
group as a whole. The sum of deficits falls by exactly what is given, among tenants of one group and among
groups, so this ends and is never reversed. Class 2, a turn: the unit does not fit into its tenant's share, or
takes something of others' shares, and its tenant has paid for that by waiting.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

from cluster.decide.fairshare.books import Books
from cluster.decide.fairshare.settings import DEFAULTS, Amount, ShareSettings
from cluster.decide.fairshare.shares import Shares
from cluster.decide.fairshare.tenants import Tenant
from cluster.decide.fairshare.units import Unit

Tier = Literal["spare", "group", "ahead", "anybody", "movable"]
"""From whom is taken first: who keeps the share; members of another group that keeps its share as a whole, as
where they hold one GPU each; for a turn also who had more than the share so far; anybody who is less behind;
and then also units that find room elsewhere at once, and the tenant's own."""
Reason = Literal[
    "", "not-starved", "patience", "lag", "victims-share", "worth", "turn-loss", "cap", "no-victims"
]
"""Why nothing is taken now; empty: it may be."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a unit may have the devices of others."""

    kind: Literal[0, 1, 2]
    """Its class; 0: not now."""
    reason: Reason = ""
    due_in: int | None = None
    """Microseconds until this reason is gone if no amount changes; None where time alone does nothing."""


@dataclass(frozen=True)
class Case:
    """A waiting unit that asks for devices of others, at one instant."""

    unit: Unit
    shares: Shares
    books: Books
    """Integrated up to this instant."""
    settings: ShareSettings = DEFAULTS
    node_gpus: Amount = 8
    """Devices of the largest node."""

    @cached_property
    def path(self) -> tuple[Tenant, ...]:
        """The unit's nodes of the tree, from the top down to its tenant."""
        return self.shares.tree.path(self.unit.tenant)

    @property
    def excess(self) -> Amount:
        """How far the tenant would be above its share with the unit."""
        return self._excess(self.unit.tenant, 0)

    def may_ask(self) -> Verdict:
        """Whether it is the unit's time, whoever would lose something for it.

        Its class is that which it has if nobody falls below a share.
        """
        tenant, account = self.unit.tenant, self.books.of(self.unit.tenant)
        if not self.shares.is_starved(tenant):
            return Verdict(0, "not-starved")
        since = self.books.at if account.starved_since is None else account.starved_since
        left = since + self.settings.reclaim_after - self.books.at
        if left > 0:
            return Verdict(0, "patience", left)
        if self.excess == 0:
            return Verdict(1)
        return Verdict(2) if self._has_waited_for(tenant, self.excess) else self._lagging(tenant, self.excess)

    def turn_due_in(self) -> int | None:
        """Microseconds until the tenant has waited long enough for a turn of it, if no amount changes.

        None where it needs no turn, or time alone does nothing.
        """
        first, excess = self.may_ask(), self.excess
        if not excess or first.reason == "not-starved":
            return None
        lag = self._lagging(self.unit.tenant, excess).due_in
        return None if lag is None else max(lag, first.due_in or 0)

    def judge(self, losses: Mapping[Tenant, Amount], lost: int) -> Verdict:
        """Whether these tenants may lose so many GPUs to the unit.

        Args:
            losses: tenant -> GPUs of its units that leave, without those that find room elsewhere at once.
            lost: what that destroys, in GPU-microseconds.
        """
        shares, own = self.shares, losses.get(self.unit.tenant, 0)
        taken = sum(losses.values())
        if taken > max(2 * self._given(taken), self.node_gpus):
            return Verdict(0, "cap")
        others = {one: amount for one, amount in losses.items() if one != self.unit.tenant and amount}
        theirs = self._theirs(others)
        mine = self.path if any(one.group != self.unit.tenant.group for one in others) else self.path[-1:]
        gone = shares.tree.sums(losses)
        excess = {node: self._excess(node, gone.get(node, 0)) for node in mine}
        below = {node: self._below(node, gone[node]) for node in theirs}
        is_within = not any(below[node] for node in below if not self._is_inside_another(node))
        if not own and not any(excess.values()) and is_within:
            return self._worth(self.destroyed_before(taken, lost))
        return self._turn(excess, below, theirs, lost=lost, given=self._given(taken))

    def destroyed_before(self, taken: Amount, lost: int) -> int:
        """What of a loss was worked before this spell of starvation began, in GPU-microseconds.

        Only this is weighed against what was withheld. The work that victims do while the unit waits grows as
        fast as what is withheld: weighed too, it would put off the day for ever where nothing is saved.
        """
        since = self.books.of(self.unit.tenant).starved_since
        elapsed = 0 if since is None else self.books.at - since
        return max(0, int(lost - taken * elapsed))

    def allowance(self, tenant: Tenant, tier: Tier) -> Amount | Fraction:
        """How many GPUs a tenant may lose to the unit at most, whatever others lose."""
        amounts = []
        for node, against in self._theirs({tenant: 1}).items():
            if tier == "group" and self._is_inside_another(node):
                continue
            over = self.shares.held.get(node, 0) - self.shares.deserved.get(node, 0)
            lag, turn = self.books.of(node).lag, self.settings.turn
            if tier in {"spare", "group"} or turn is None:
                amounts.append(over)
            elif tier == "ahead":
                amounts.append(max(0, over) + Fraction(max(0, -lag), turn))
            else:
                amounts.append(over + Fraction(self.books.of(against).lag - lag, turn))
        return max(0, min(amounts))

    # --- inside --------------------------------------------------------------------------------------
    def _theirs(self, others: Iterable[Tenant] | Mapping[Tenant, Amount]) -> dict[Tenant, Tenant]:
        """Every node that would lose something, with the node of the unit's path that it is compared with."""
        found: dict[Tenant, Tenant] = {}
        for tenant in others:
            for node in self.shares.tree.path(tenant):
                if node not in self.path:
                    is_below_root = not node.user or not node.group
                    found[node] = self.path[0] if is_below_root else self.path[-1]
        return found

    def _is_inside_another(self, node: Tenant) -> bool:
        """Whether it is a tenant of another group: what that gives back is divided within it afterwards."""
        return bool(node.user and node.group) and node.group != self.unit.tenant.group

    def _excess(self, node: Tenant, gone: Amount) -> Amount:
        gained = self.unit.gpus - gone
        return max(0, self.shares.held.get(node, 0) + gained - self.shares.deserved.get(node, 0))

    def _below(self, node: Tenant, gone: Amount) -> Amount:
        return max(0, self.shares.deserved.get(node, 0) - (self.shares.held.get(node, 0) - gone))

    def _given(self, taken: Amount) -> Amount:
        """What others gain: the unit, and whoever is starved where more is freed (a gang leaves whole)."""
        return max(self.unit.gpus, min(taken, self.shares.starvation))

    def _worth(self, lost: int) -> Verdict:
        """Class 1: what was withheld is worth what is destroyed."""
        withheld, tenant = self.books.of(self.unit.tenant).withheld, self.unit.tenant
        missing = self.settings.worth * lost - withheld
        if missing <= 0:
            return Verdict(1)
        return Verdict(
            0, "worth", -(-missing // self.shares.lacks(tenant)) if self.shares.lacks(tenant) else None
        )

    def _turn(
        self,
        excess: Mapping[Tenant, Amount],
        below: Mapping[Tenant, Amount],
        theirs: Mapping[Tenant, Tenant],
        *,
        lost: int,
        given: Amount,
    ) -> Verdict:
        """Class 2: paid for by time waited, and not too dear."""
        settings, turn = self.settings, self.settings.turn
        for node, amount in excess.items():
            if not self._has_waited_for(node, amount):
                return self._lagging(node, amount)
        if turn is None:
            return Verdict(0, "lag")
        for node, against in theirs.items():
            missing = self.books.of(node).lag + below[node] * turn - self.books.of(against).lag
            if missing >= 0:
                return Verdict(0, "victims-share")
        if settings.turn_loss is not None and lost > settings.turn_loss * given * turn:
            return Verdict(0, "turn-loss")
        return Verdict(2)

    def _has_waited_for(self, node: Tenant, excess: Amount) -> bool:
        turn = self.settings.turn
        return turn is not None and self.shares.lacks(node) > 0 and self.books.of(node).lag >= excess * turn

    def _lagging(self, node: Tenant, excess: Amount) -> Verdict:
        turn, lacks = self.settings.turn, self.shares.lacks(node)
        if turn is None or not lacks:
            return Verdict(0, "lag")
        return Verdict(0, "lag", max(0, -(-(excess * turn - self.books.of(node).lag) // lacks)))
