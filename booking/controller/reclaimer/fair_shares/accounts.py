"""What everybody holds and deserves now, and was owed until now: followed from pass to pass, and recorded."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from booking.controller.reclaimer.fair_shares.lines import Lines
from booking.controller.reclaimer.fair_shares.record import Record, RecordStore
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from booking.eviction.holder_cache import HolderCache
from booking.fair_shares.pools import Pool, pools_of
from booking.fair_shares.standing import settings_of, tenant_of, tree_of, value_of
from booking.policy.fair_shares import FairShares
from cluster.decide.eviction.costs import microseconds
from cluster.decide.fairshare import EQUAL, Books, Shares, Tenant, advance, deserve, observe
from cluster.decide.fairshare.settings import SECOND, Amount
from cluster.objects.hold import Hold
from cluster.objects.pods import Pod, is_live
from cluster.process.clock import Clock

SAVED_EVERY: Final = 60.0
"""Seconds after which the record is written again, if it says anything new."""
TRIED_EVERY: Final = 5.0
"""Seconds after which the record is read or written again when that has failed."""
UNKNOWN: Final = deserve(EQUAL, 0, {}, {})
"""The shares of a time in which nobody waited: what was held then counts for nobody."""


class Accounts:
    """The accounts of a controller that leads. Not thread-safe."""

    def __init__(self, clock: Clock, store: RecordStore) -> None:
        self._clock = clock
        self._store = store
        self.is_informed = False
        """Whether the record has been read."""
        self._tried, self._every = 0.0, 0.0
        """When the record was read or written last, monotonic, and seconds until the next time."""
        self.record = Record()
        """What is remembered."""
        self.shares: dict[str, Shares] = {}
        """Model -> who holds and deserves what, after the last pass."""
        self._owed: dict[str, tuple[Shares, Mapping[Tenant, Amount]]] = {}
        """Model -> by what is owed since the last pass, and everybody's largest unit that waits. Whose others
        have still to leave waits."""

    def forget(self) -> None:
        """Another process leads, or fair shares are off."""
        self.rest()
        self.record, self.is_informed, self._every = Record(), False, 0.0

    def rest(self) -> None:
        """Nobody waits: nothing is owed."""
        self.shares, self._owed = {}, {}

    def books(self, model: str) -> Books:
        """What everybody was owed of a model, up to the last pass."""
        return self.record.books.get(model, Books())

    # --- the record ----------------------------------------------------------------------------------
    def remember(self) -> None:
        """Read the record where that has not been done, and write it now and then.

        Raises:
            ApiError: the API server did not answer, or refused.
        """
        now, monotonic = microseconds(self._clock.now()), self._clock.monotonic()
        if monotonic - self._tried < self._every:
            return
        self._tried, self._every = monotonic, TRIED_EVERY
        if self.is_informed:
            self._store.save(self.record, now)
        else:
            self.inform()
        self._every = SAVED_EVERY

    def inform(self) -> None:
        """Read the record, if that has not been done.

        Raises:
            ApiError: the API server did not answer, or refused.
        """
        if not self.is_informed:
            now = microseconds(self._clock.now())
            self.record = self._store.load(now).with_taken(self.record.taken)
            self.is_informed = True

    def note_taken(self, victim: Pod) -> None:
        """A pod was evicted for the share of another user; it is recorded within seconds."""
        self.record.note_taken(victim, microseconds(self._clock.now()))
        self._every = min(self._every, TRIED_EVERY)

    # --- a pass --------------------------------------------------------------------------------------
    def advance(
        self,
        pools: Mapping[str, Pool],
        lines: Lines,
        snapshot: ReclaimerSnapshot,
        *,
        holder_cache: HolderCache,
        settings: FairShares,
    ) -> None:
        """What everybody holds and deserves now, and was owed until now."""
        now, terms = microseconds(snapshot.now), settings_of(settings)
        starting = about_to_start(snapshot)
        before_them = (
            pools_of(snapshot.without_holds(frozenset(starting)), holder_cache, settings) if starting else {}
        )
        for model in sorted(pools.keys() | self.shares.keys()):
            pool, line, tree = pools.get(model, Pool()), lines.line(model), tree_of(settings, model)
            before, largest = self._owed.get(model, (UNKNOWN, {}))
            books = advance(
                self.record.books.get(model, Books(at=now)),
                before,
                now,
                terms,
                largest=largest,
                booked=pool.booked if self._owed.get(model) else {},
                value=value_of(settings, model),
            )
            owed = shares = deserve(tree, pool.capacity, pool.held, line.wanted)
            theirs = _wanted_by(starting, model, snapshot, settings)
            if theirs:
                wanted = _sum(line.wanted, theirs)
                owed = deserve(tree, pool.capacity, before_them.get(model, pool).held, wanted)
            self.shares[model], self._owed[model] = shares, (owed, line.largest)
            self.record.books[model] = observe(books, owed)

    def begin_no_loan(self, model: str) -> None:
        """Nobody is due for devices of a model that others have."""
        self.record.books[model] = replace(self.books(model), loan_since=None, due={})

    def granted(self, model: str, units: Iterable[tuple[Tenant, Amount]]) -> None:
        """These have got devices."""
        changes: dict[Tenant, Amount] = {}
        for tenant, gpus in units:
            changes[tenant] = changes.get(tenant, 0) + gpus
        self.shares[model] = self.shares[model].after(changes)


def about_to_start(snapshot: ReclaimerSnapshot) -> Mapping[str, Hold]:
    """The holds in turns of pods for which others have still to leave: until then these have the devices."""
    return {
        uid: hold
        for uid, hold in snapshot.turns.items()
        if hold.turn and any((one := snapshot.pods.get(victim)) and is_live(one) for victim in hold.victims)
    }


def with_leeway(books: Books, shares: Shares, tenant: Tenant) -> Books:
    """The books as if what a controller that crashes may lose of the record had been owed to the tenant."""
    span, accounts = round(2 * SAVED_EVERY * SECOND), dict(books.accounts)
    for node in shares.tree.path(tenant):
        account = books.of(node)
        accounts[node] = replace(account, lag=account.lag + int(shares.lacks(node) * span))
    return replace(books, accounts=accounts)


def _wanted_by(
    holds: Mapping[str, Hold], model: str, snapshot: ReclaimerSnapshot, settings: FairShares
) -> dict[Tenant, Amount]:
    """What those pods want that are to have devices of a model."""
    found: dict[Tenant, Amount] = {}
    for uid, hold in holds.items():
        need = snapshot.needs.get(uid)
        if need is not None and need.model == model:
            tenant = tenant_of(snapshot.pods[uid], settings)
            found[tenant] = found.get(tenant, 0) + len(hold.devices)
    return found


def _sum(one: Mapping[Tenant, Amount], other: Mapping[Tenant, Amount]) -> dict[Tenant, Amount]:
    return {key: one.get(key, 0) + other.get(key, 0) for key in {*one, *other}}
