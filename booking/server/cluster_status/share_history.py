"""Who has held and deserved how many GPUs without a booking within a day, for a picture.

It is sampled by this process and kept in its memory alone: a server that starts again begins anew.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from booking.eviction.holder_cache import HolderCache
from booking.eviction.settings import EvictionSettings
from booking.fair_shares.queue import ModelQueue, queues
from booking.policy.fair_shares import FairShares
from booking.server.cluster_status.snapshot import take
from booking.server.cluster_status.viewer import Viewer
from cluster.cache import ClusterCache
from cluster.decide.fairshare import Tenant
from cluster.process.clock import Clock
from cluster.process.probes import Check

EVERY: Final = 60.0
"""Seconds between two samples; one that says nothing new is not kept."""
KEPT: Final = timedelta(hours=24)
MOST_NAMED: Final = 6
"""Other users who are shown by name; the rest are shown together."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The shares of one model from an instant on."""

    at: datetime
    gpus: int = 0
    """GPUs that are shared."""
    held: Mapping[Tenant, int] = field(default_factory=dict)
    deserved: Mapping[Tenant, float] = field(default_factory=dict)

    def says_as(self, other: "Sample") -> bool:
        """Whether both say the same of different instants."""
        return (self.gpus, self.held, self.deserved) == (other.gpus, other.held, other.deserved)


class ShareHistory:
    """Thread-safe; ``run`` is the body of a thread."""

    def __init__(
        self,
        cache: ClusterCache,
        clock: Clock,
        terms: EvictionSettings,
        *,
        unready_reason: Check,
        fair_shares: Callable[[], FairShares],
    ) -> None:
        """Args: unready_reason: why the cache cannot be trusted now: nothing is sampled then."""
        self._cache, self._clock, self._terms = cache, clock, terms
        self._unready_reason, self._fair_shares = unready_reason, fair_shares
        self._lock = threading.Lock()
        self._samples: dict[str, tuple[Sample, ...]] = {}

    def samples(self) -> Mapping[str, Sequence[Sample]]:
        """Model -> its samples of the last day, the oldest first."""
        with self._lock:
            return dict(self._samples)

    def run(self, stop: threading.Event) -> None:
        """Sample until ``stop`` is set."""
        while not self._clock.wait(stop, EVERY):
            self.reconcile()

    def reconcile(self) -> None:
        """Take a sample."""
        if self._unready_reason() is not None:
            return
        snapshot = take(self._cache, self._clock, self._terms)
        found = queues(snapshot, HolderCache(), self._fair_shares())
        with self._lock:
            for model in {*found, *self._samples}:
                self._note(model, _sample(snapshot.now, found.get(model)))

    def _note(self, model: str, sample: Sample) -> None:
        before = self._samples.get(model, ())
        later = [one for one in before if one.at > sample.at - KEPT]
        # The one that was in force when the day began counts from then on.
        kept = [*before[len(before) - len(later) - 1 :]] if len(later) < len(before) else later
        if not kept or not kept[-1].says_as(sample):
            kept.append(sample)
        if kept == [sample] and not sample.held and not sample.deserved:
            self._samples.pop(model, None)
        else:
            self._samples[model] = tuple(kept)


def _sample(now: datetime, queue: ModelQueue | None) -> Sample:
    if queue is None:
        return Sample(now)
    tenants = [tenant for tenant in queue.shares.deserved if tenant.user]
    return Sample(
        at=now,
        gpus=queue.capacity,
        held={tenant: held for tenant in tenants if (held := int(queue.shares.held.get(tenant, 0)))},
        deserved={tenant: round(queue.deserves(tenant), 2) for tenant in tenants},
    )


@dataclass(frozen=True, slots=True)
class HeldOverTime:
    """What a user held at each instant of ``SharesOverTime``."""

    user: str | None
    """None: several others together, or one who is not to be named."""
    is_mine: bool
    held: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SharesOverTime:
    """The shares of a model within a day, as a user may see them."""

    model: str
    until: datetime
    times: tuple[datetime, ...]
    """From each on the values at the same place hold, until the next or ``until``."""
    gpus: tuple[int, ...]
    users: tuple[HeldOverTime, ...]
    """The viewer first, unnamed others last."""
    deserved: tuple[float, ...]
    """What the viewer deserved."""


def shares_over_time(
    samples: Mapping[str, Sequence[Sample]], now: datetime, viewer: Viewer
) -> Iterator[SharesOverTime]:
    """All models of which there are samples."""
    for model, known in sorted(samples.items()):
        times = tuple(max(one.at, now - KEPT) for one in known)
        yield SharesOverTime(
            model=model,
            until=now,
            times=times,
            gpus=tuple(one.gpus for one in known),
            users=tuple(_users(known, viewer)),
            deserved=tuple(
                sum(due for tenant, due in one.deserved.items() if tenant.user == viewer.who.user)
                for one in known
            ),
        )


def _users(known: Sequence[Sample], viewer: Viewer) -> Iterator[HeldOverTime]:
    total: Counter[str] = Counter()
    for one in known:
        for tenant, gpus in one.held.items():
            total[tenant.user] += gpus
    mine = viewer.who.user
    others = [user for user, _ in total.most_common() if user != mine and viewer.may_name_user(user)]
    named = sorted(others[:MOST_NAMED])
    yield HeldOverTime(user=mine, is_mine=True, held=_held(known, {mine}))
    for name in named:
        yield HeldOverTime(user=name, is_mine=False, held=_held(known, {name}))
    if rest := total.keys() - {mine, *named}:
        yield HeldOverTime(user=None, is_mine=False, held=_held(known, rest))


def _held(known: Sequence[Sample], users: AbstractSet[str]) -> tuple[int, ...]:
    return tuple(sum(gpus for tenant, gpus in one.held.items() if tenant.user in users) for one in known)
