"""The watcher of the laws: sees every change of the objects and says at once which law is broken.

Pure but for the clock that it is given: ``memory.watch_memory`` and ``live.LiveWatch`` show it what happens.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final

from booking.policy.fair_shares import FairShares
from cluster import names
from cluster.kube.resources import Object
from cluster.process.clock import Clock
from deviceplugin.allocation.pod_devices import PodDevices
from tests.laws import l1, l2, l3, l4, l5, l6, l9, l10, l10_turns
from tests.laws.broken import LawBrokenError
from tests.laws.changes import WATCHED, Change
from tests.laws.claims import KINDS, ClaimedPods, Stored
from tests.laws.devices import decided_at, hold_on
from tests.laws.history import History
from tests.laws.l9 import Fingerprint, fingerprint_of
from tests.laws.standings import Policies, innocent_under_any
from tests.laws.state import State
from tests.laws.versions import Versions
from tests.laws.watch_events import WatchEvents
from tests.laws.window import Window

Judge = Callable[[Change, State, datetime], Iterable[str]]
"""What a change breaks if it was decided in this state at this instant: sentences."""

AT_ONCE: Final[tuple[tuple[str, Judge], ...]] = (
    (l1.LAW, l1.named_twice),
    (l2.LAW, l2.deleted_while_booked),
    (l4.LAW, l4.deleted_as_by_its_user),
    (l6.LAW, l6.acted_in_doubt),
    (l6.LAW, l6.vouched_in_doubt),
    (l9.LAW, l9.forgotten),
    (l9.LAW, l9.deleted_by_another_database),
    (l9.LAW, l9.of_another_database),
    (l9.LAW, l9.older_than_reported),
)
"""Judged in the state just before the write: no lag excuses them."""
DECIDED: Final[tuple[tuple[str, Judge], ...]] = (
    (l1.LAW, l1.named_though_drifted),
    (l2.LAW, l2.taken_while_booked),
    (l2.LAW, l2.ended_without_end),
    (l3.LAW, l3.unjust_hold),
    (l3.LAW, l3.evicted_without_hold),
    (l5.LAW, l5.overbooked),
    (l6.LAW, l6.bound_in_silence),
    (l6.LAW, l6.evicted_in_silence),
    (l6.LAW, l6.ended_in_silence),
    (l6.LAW, l6.demoted_in_doubt),
    (l6.LAW, l6.acted_by_a_wrong_clock),
    (l9.LAW, l9.goes_on_with_anothers_bookings),
)
"""Innocent if right in any state of the leeway before the write."""
PLANNED: Final[tuple[Judge, ...]] = (l3.unjust_hold,)
"""Of these: those whose maker says on which versions they were decided. They must be right on these; where
none are named (for a pod with claims: none of its claims), or it is no longer known how it was then, in any
state of the leeway like all others."""


class LawWatcher:
    """Watches laws L1 to L6, L9 and L10."""

    def __init__(
        self,
        clock: Clock,
        *,
        leeway: float = 0.0,
        settles: float = 0.0,
        claims: bool = False,
        driver: str = names.DRA_DRIVER,
    ) -> None:
        """Watch nothing yet.

        Args:
            clock: the cluster's.
            leeway: seconds between the read and the write of an honest decision.
            settles: seconds for which what kubelets do and what they say may differ.
            claims: whether pods may have devices by claims.
            driver: name of the driver that gives these.
        """
        self._clock = clock
        self._claimed = ClaimedPods(clock, driver) if claims else None
        self.kinds: Final = {**WATCHED, **KINDS} if claims else WATCHED
        """What it must be shown."""
        self._settles = timedelta(seconds=settles)
        self._lock = threading.RLock()
        self._window = Window(timedelta(seconds=leeway))
        self._versions = Versions()
        self._delivered = WatchEvents()
        self._history = History()
        self._kubelets: dict[str, PodDevices] = {}
        self._believed: dict[str, l1.Claims] = {}
        self._comebacks = l4.Comebacks()
        self._unvouched = l9.Unvouched()
        self._takings = l10.Takings()
        self._owing = l10_turns.Owing()
        self._policies = Policies()
        self._havings = l1.Havings()
        self._doubles: dict[tuple[str, ...], datetime] = {}
        self._reported: set[str] = set()
        self._expected: dict[str, list[LawBrokenError]] = {}
        self._first: LawBrokenError | None = None
        self._is_shown = False

    # --- what happens --------------------------------------------------------------------------------
    def know(self, plural: str, items: Iterable[Object]) -> None:
        """Every object of a kind as it is, however it came to that: nothing of it is judged."""
        with self._lock:
            now = self._clock.now()
            self._delivered.forget(plural)
            if self._claimed:
                plural, items = self._claimed.listed(plural, items)
            self._window.put(self.state.knowing(plural, items, now), now)
            self._versions.begin(self.state, now, self._stored)
            self._comebacks.know(self.state)

    def see(self, change: Change) -> None:
        """One change, in the order of the resourceVersions.

        Raises:
            LawBrokenError: it breaks a law that is not expected to break.
        """
        with self._lock:
            try:
                for one in tuple(self._claimed.changes(change)) if self._claimed else (change,):
                    self._see(one)
            finally:
                if change.plural in KINDS:
                    self._delivered.put(change)
                    self._versions.put(change.version, change.instant, self.state, self._stored)

    @property
    def _stored(self) -> Stored | None:
        return self._claimed.stored if self._claimed else None

    def known(self, plural: str, obj: Object) -> Any:
        """An object as it was last seen, None when it was not."""
        if self._claimed and plural not in WATCHED:
            return self._claimed.known(plural, obj)
        return self.state.object(plural, obj)

    def _see(self, change: Change) -> None:
        with self._lock:
            self._history.add(change)
            found = [*self._judged(change)]
            self._delivered.put(change)
            self._window.put(self.state.after(change), change.instant)
            self._versions.put(change.version, change.instant, self.state, self._stored)
            found += [(l4.LAW, wrong) for wrong in self._comebacks.see(change, self.state)]
            found += [(l9.LAW, wrong) for wrong in self._unvouched.see(change)]
            found += [(l10.LAW, wrong) for wrong in self._takings.see(change, self.state)]
            policies = self._policies.in_force(change.instant)
            found += [(l10.LAW, wrong) for wrong in self._owing.see(change, self.state, policies)]
            if l1.may_matter(change):
                found += self._doubly_had(change.instant)
            self._break(found)

    def kubelet(self, node: str, holdings: PodDevices) -> None:
        """What the kubelet's checkpoint of a node says now.

        Raises:
            LawBrokenError: a device has two users.
        """
        with self._lock:
            self._kubelets[node] = holdings
            self._break(self._doubly_had(self._clock.now()))

    def believed(self, node: str, claims: l1.Claims) -> None:
        """What the kubelet of a node believes now to be prepared for claims.

        Raises:
            LawBrokenError: a device has two users.
        """
        with self._lock:
            self._believed[node] = claims
            self._break(self._doubly_had(self._clock.now()))

    def divide_by(self, shares: FairShares) -> None:
        """From now on the policy says this of users and groups; before anything everybody weighs the same."""
        with self._lock:
            self._policies.put(shares, self._clock.now())

    def fault(self, message: str) -> None:
        """A fault begins or ends now: it is written in the history, and the 60 s of law L4 start again."""
        with self._lock:
            now = self._clock.now()
            self._window.fault(now)
            self._history.note(now, f"FAULT: {message}")

    def note(self, message: str) -> None:
        """Something that explains the history."""
        with self._lock:
            self._history.note(self._clock.now(), message)

    # --- questions -----------------------------------------------------------------------------------
    @property
    def state(self) -> State:
        """The cluster after the newest change."""
        return self._window.newest

    def check(self, until: datetime | None = None) -> None:
        """Raise the first breach that was found, and what time alone has brought about since.

        Args:
            until: up to which instant it has seen what happened; None: now.

        Raises:
            LawBrokenError: a law was broken.
        """
        with self._lock:
            if self._first is not None:
                self._is_shown = True
                raise self._first
            now = until or self._clock.now()
            late = self._comebacks.overdue(self.state, now, self._window.last_fault)
            self._break([*self._doubly_had(now), *((l4.LAW, wrong) for wrong in late)])

    def unfinished(self) -> list[str]:
        """Sentences about pods that are not back yet, leftovers, and pods that wait though there is room."""
        with self._lock:
            return [wrong for _, wrong in self._unfinished()]

    def _unfinished(self) -> Iterator[tuple[str, str]]:
        yield from ((l4.LAW, wrong) for wrong in self._comebacks.missing_keys(self.state))
        yield from ((l4.LAW, wrong) for wrong in l4.left_over(self.state))
        yield from ((l4.LAW, f"{key[0]} seems to be in use twice.") for key in self._doubles)
        now = self._clock.now()
        refused = ([*l10.refused_though_free(self.state, now, p)] for p in self._policies.in_force(now))
        yield from ((l10.LAW, wrong) for wrong in innocent_under_any(refused))

    def finish(self) -> None:
        """The end of a test, in a cluster that is quiet: check, and nothing may be left over or missing.

        Raises:
            LawBrokenError: a law was broken.
        """
        with self._lock:
            self.check()
            self._break(list(self._unfinished()))

    def begin(self, what: str) -> None:
        """A new test: what was found before, expected, or is not back yet is that of another.

        Raises:
            LawBrokenError: a law was broken after the end of the test before, with no check since.
        """
        with self._lock:
            unseen = None if self._is_shown else self._first
            self._history.clear()
            self._history.note(self._clock.now(), what)
            self._comebacks = l4.Comebacks()
            self._comebacks.know(self.state)
            self._takings = l10.Takings()
            self._owing = l10_turns.Owing()
            self._reported.clear()
            self._expected.clear()
            self._first, self._is_shown = None, False
            if unseen is not None:
                raise unseen

    @contextmanager
    def expecting(self, *laws: str) -> Iterator[list[LawBrokenError]]:
        """Inside, these laws may break and do not raise; at the end each of them must have been broken."""
        found: list[LawBrokenError] = []
        with self._lock:
            self._expected.update(dict.fromkeys(laws, found))
        try:
            yield found
        finally:
            with self._lock:
                for law in laws:
                    self._expected.pop(law, None)
        unbroken = sorted(set(laws) - {error.law for error in found})
        assert not unbroken, (
            f"{', '.join(unbroken)} should have been broken here, and the watcher saw nothing."
        )

    def fingerprint(self) -> Fingerprint:
        """All that must be the same before and after a restart in a quiet cluster (law L9)."""
        with self._lock:
            return fingerprint_of(self.state)

    # --- inside --------------------------------------------------------------------------------------
    def _judged(self, change: Change) -> Iterator[tuple[str, str]]:
        for law, judge in AT_ONCE:
            yield from ((law, wrong) for wrong in judge(change, self.state, change.instant))
        read_at = decided_at(change)
        for law, judge in (*DECIDED, (l10.LAW, self._unfair_turn)):
            wrongs: list[str] = []
            planned = [*self._planned(change, read_at)] if judge in PLANNED else []
            for state, instant in planned or self._window.moments(change.instant, read_at):
                now = [*judge(change, state, instant)]
                if not now:
                    wrongs = []
                    break
                wrongs = wrongs or now
            yield from ((law, wrong) for wrong in wrongs)
        begin = self._window.begin(change.instant)
        yield from ((l6.LAW, wrong) for wrong in l6.planned_on_stale_state(change, self._delivered, begin))

    def _unfair_turn(self, change: Change, state: State, now: datetime) -> list[str]:
        policies = self._policies.in_force(now)
        return innocent_under_any([*l10.unfair_turn(change, state, now, one)] for one in policies)

    def _planned(self, change: Change, read_at: datetime | None) -> Iterator[tuple[State, datetime]]:
        """What the maker of a plan says to have known, with instants of the leeway."""
        _, after = change.pods or (None, None)
        hold = hold_on(after) if after else None
        if after is None or hold is None:
            return
        begin, until = self._window.begin(change.instant), change.instant
        at = min(max(read_at, begin), until) if read_at else until
        for state in self._versions.planned_on(after, hold, begin=begin):
            for instant in dict.fromkeys((at, until, begin)):
                yield state, instant

    def _doubly_had(self, now: datetime) -> list[tuple[str, str]]:
        """Devices that two pods have had for longer than kubelets need to say that one has ended."""
        doubles = self._havings.doubles(self.state, self._kubelets, self._believed)
        self._doubles = {key: self._doubles.get(key, now) for key in doubles}
        return [(l1.LAW, doubles[key]) for key, at in self._doubles.items() if now - at >= self._settles]

    def _break(self, found: Iterable[tuple[str, str]]) -> None:
        """Remember the new breaches; raise the first that is not expected."""
        raised: LawBrokenError | None = None
        for law, message in found:
            if message in self._reported:
                continue
            self._reported.add(message)
            self._history.note(self._clock.now(), f"LAW {law} BROKEN: {message}")
            error = LawBrokenError(law, message, self._history.lines)
            if law in self._expected:
                self._expected[law].append(error)
            else:
                raised = raised or error
        if raised is not None:
            self._first = self._first or raised
            raise raised
