"""L10 of turns beyond a share, and of gangs: judged once devices are kept for all pods of a unit.

What a user is owed is followed here a second time, from above: what the share is above what is held, while
anybody waits, less what was held above the share, and never below 0. A turn is for whoever is below the
share, and has been owed that much. What is taken for a gang within shares lowers the sum of deficits by as
much.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Final

from cluster.objects.gangs import gang_of
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, is_live
from tests.laws.changes import Change
from tests.laws.cover import cover
from tests.laws.devices import advertised_devices, held, hold_on, needed
from tests.laws.l10 import is_owed, pool_of, waiting
from tests.laws.standings import Pool, Standings, Tenant, innocent_under_any
from tests.laws.state import State

AT_LEAST: Final = Fraction(4, 5)
"""Of what a turn costs: devices that are about to be freed count for others here until they are."""


@dataclass(frozen=True)
class _Unit:
    """A pod, or a gang's pods, for all of which devices are kept."""

    model: str
    holds: dict[str, Hold]
    pod: Pod

    @property
    def given(self) -> int:
        return sum(len(hold.devices) for hold in self.holds.values())

    def victims(self, state: State) -> list[Pod]:
        uids = {uid for hold in self.holds.values() for uid in hold.victims}
        return [pod for uid in sorted(uids) if (pod := state.pods.get(uid)) is not None and is_live(pod)]

    def pool(self, state: State, now: datetime, standings: Standings) -> Pool:
        """As if it still waited, and nobody had been asked to leave for it."""
        return pool_of(self.model, state, now, standings, without=frozenset(self.holds))


class Owing:
    """What everybody is owed, and who got a turn for that."""

    def __init__(self) -> None:
        self._owed: dict[tuple[str, Tenant], Fraction] = {}
        """(Model, tenant) -> GPU-seconds, at most."""
        self._last: tuple[datetime, State] | None = None
        self._begun: dict[str, tuple[datetime, State]] = {}
        """Gang -> when its first pod got a hold."""

    def see(self, change: Change, state: State, policies: Sequence[Standings]) -> Iterator[str]:
        """What a change breaks.

        Args:
            change: what happened.
            state: after it.
            policies: by any of which it may have been decided, the newest first.
        """
        before, after = change.pods or (None, None)
        if change.plural not in {"bookings", "nodes"} and not any(p and needed(p) for p in (before, after)):
            return
        self._follow(change.instant, policies)
        self._last = (change.instant, state)
        hold = hold_on(after) if after else None
        if after is None or hold is None or hold.need != "share" or (before and hold_on(before)):
            return
        mates = mates_of(after, state)
        moments, gang = [(change.instant, state)], gang_of(after)
        if gang is not None:
            moments.append(self._begun.setdefault(gang.key, moments[0]))
        unit = _unit(after, hold, mates, state)
        if unit is None:
            return
        if gang is not None:
            del self._begun[gang.key]
        each = ((now, seen, one) for now, seen in moments for one in policies)
        yield from innocent_under_any([*self._wrong(unit, *case)] for case in each)

    # --- inside ---------------------------------------------------------------------------------------
    def _follow(self, now: datetime, policies: Sequence[Standings]) -> None:
        if self._last is None:
            return
        at, state = self._last
        seconds = Fraction((now - at).total_seconds())
        if seconds <= 0 or not any(waiting(state, cover(state, at))):
            return
        for model in {d.model for node in state.nodes.values() for d in advertised_devices(node)}:
            gained: dict[Tenant, Fraction] = {}
            for standings in policies:
                pool = pool_of(model, state, at, standings)
                for node, due in pool.deserved().items():
                    gain = (due - pool.held(node)) * seconds
                    gained[node] = max(gain, gained.get(node, gain))
            for node, gain in gained.items():
                self._owed[model, node] = max(Fraction(0), self._owed.get((model, node), Fraction(0)) + gain)

    def _wrong(self, unit: _Unit, now: datetime, state: State, standings: Standings) -> Iterator[str]:
        pool, mine = unit.pool(state, now, standings), standings.tenant_of(unit.pod)
        due, holds = pool.deserved(), pool.holds[mine]
        if is_owed(unit.pod):
            share, owed = due.get(mine, Fraction(0)), self._owed.get((unit.model, mine), Fraction(0))
            cost = max(Fraction(0), holds + unit.given - share) * unit.holds[unit.pod.metadata.uid].turn
            if holds >= share:
                yield f"{unit.pod.key} gets a turn, whose owner holds {holds} and deserves {float(share):g}."
            elif owed < AT_LEAST * cost:
                yield (
                    f"{unit.pod.key} gets a turn that costs {float(cost):.0f} GPU-seconds, and its owner is"
                    f" owed {float(owed):.0f} at most."
                )
            return
        moved = Counter({mine: unit.given})
        for victim in unit.victims(state):
            moved[standings.tenant_of(victim)] -= len(held(victim, state))
        for fall in pool.shortfalls(mine, unit.given, moved) if unit.victims(state) else ():
            yield (
                f"{unit.given} GPUs are taken for the gang of {unit.pod.key}, and the sum of what users lack"
                f" falls by {float(fall):.3g}."
            )


def mates_of(pod: Pod, state: State) -> Sequence[Pod]:
    """The pods of its gang that have no node, itself included; the pod alone if it has none."""
    gang = gang_of(pod)
    if gang is None:
        return (pod,)
    free = state.by_node[""].pods.values() if "" in state.by_node else ()
    return [one for one in free if is_live(one) and gang_of(one) == gang]


def _unit(pod: Pod, hold: Hold, mates: Sequence[Pod], state: State) -> _Unit | None:
    """What is judged: gangs for all pods of which devices are kept, and single pods in a turn."""
    holds = {one.metadata.uid: hold_on(one) for one in mates}
    kept = {uid: one for uid, one in holds.items() if one is not None and one.need == "share"}
    if len(kept) < len(holds) or (gang_of(pod) is None and not is_owed(pod)):
        return None
    known = state.nodes.get(hold.node)
    devices = advertised_devices(known) if known else ()
    model = next((device.model for device in devices if device.uuid in hold.devices), None)
    return None if model is None else _Unit(model, kept, pod)
