"""Searches that have found nobody who may be taken: they are not repeated while nothing has changed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from booking.eviction.holder import Holder
from booking.fair_shares.pools import Pool
from cluster.decide.fairshare import Line, Shares, Tenant, Unit, Verdict
from cluster.decide.fairshare.line import Size, size_of
from cluster.decide.fairshare.settings import SECOND
from cluster.process.clock import Clock

AGAIN_AFTER: Final = 10.0
"""Seconds after which a search is repeated: protections end by time alone."""
_SEARCHED: Final = frozenset({"cap", "no-victims", "turn-loss", "victims-share", "worth"})
"""Reasons that a search has found; the others cost nothing to find again."""


@dataclass
class _State:
    """What the failed searches in a pool were decided on."""

    holders: list[Holder]
    amounts: Any
    failed: dict[tuple[Tenant, Size], float] = field(default_factory=dict)
    """When each is repeated, monotonic."""


class Failures:
    """The failed searches of all models. Not thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[str, _State] = {}

    def known(self, model: str, pool: Pool, shares: Shares) -> Callable[[Unit], bool]:
        """Whether a search for a unit of this tenant and size has failed on the present state of the pool."""
        holders, amounts = list(pool.holders.values()), (pool.capacity, shares.held, shares.deserved)
        state = self._states.get(model)
        if state is None or state.amounts != amounts or not _are_same(state.holders, holders):
            state = self._states[model] = _State(holders, amounts)
        failed, now = state.failed, self._clock.monotonic()
        return lambda unit: failed.get((unit.tenant, size_of(unit)), now) > now

    def note(self, model: str, line: Line, verdicts: Mapping[str, Verdict]) -> None:
        """What a pass has found. Args: verdicts: uid of a waiting unit -> why nothing is taken for it."""
        now, failed = self._clock.monotonic(), self._states[model].failed
        for uid, verdict in verdicts.items():
            if verdict.reason in _SEARCHED and uid in line:
                unit = line.unit(uid)
                left = AGAIN_AFTER if verdict.due_in is None else verdict.due_in / SECOND
                failed[unit.tenant, size_of(unit)] = now + min(AGAIN_AFTER, left)


def _are_same(before: list[Holder], after: list[Holder]) -> bool:
    return len(before) == len(after) and all(one is other for one, other in zip(before, after, strict=True))
