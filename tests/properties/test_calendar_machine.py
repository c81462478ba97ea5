"""Bookings through long histories on a real database: what is guaranteed can be kept (laws L5, L9).

The reference knows the rules and the sum of devices. Where one node must have them all, or nodes are blocked,
the sum is not enough: a refusal may then be right that the sum would not give, and plans say what is kept.
Who keeps what is stored is notified late, again, in another order or not at all (``calendars_and_mirror``).
"""

import secrets
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError
from booking.server.records import BookingChange, BookingRequest, Record
from booking.server.service import BookingService
from booking.server.store import open_store
from cluster.fake.clock import START
from tests.fakes.objects import A100, A6000
from tests.fakes.principals import an_administrator, somebody
from tests.properties.booking_reference import (
    COOLDOWN,
    FIXED_AHEAD,
    HOUR,
    LIVE,
    LONGER,
    SECOND,
    TICK,
    TOLERANCE,
    Want,
)
from tests.properties.calendars_and_mirror import CalendarsAndMirror
from tests.properties.history import Machine, Pick, by_hypothesis, length, step

POLICY: Final = Limits(
    cooldown=Duration(seconds=7200),
    shortest=Duration(seconds=3600),
    longest=Duration(seconds=6 * 3600),
    horizon=Duration(days=1),
)
USERS: Final = tuple(f"u{number}" for number in range(6))
ROOT: Final = an_administrator()
AT_FIRST: Final = Capacity({A100: {"n0": 2, "n1": 1}, A6000: {"n1": 2}})
NODES: Final = ("n0", "n1", "n2")


def drawn_capacity(pick: Pick) -> Capacity:
    """None to two GPUs of each model on each node."""
    counts = iter(pick.many(*[3] * 2 * len(NODES)))
    return Capacity({model: {node: n for node in NODES if (n := next(counts))} for model in (A100, A6000)})


class CalendarMachine(CalendarsAndMirror):
    """Everything begins and ends on ticks of ten minutes; seconds come from releases alone."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix=f"calendar-{secrets.token_hex(4)}-")
        self.url = f"sqlite:///{Path(self.folder.name) / 'bookings.db'}"
        self.now_there = AT_FIRST
        self.most = AT_FIRST.total(A100)
        """A100s that there have been at one time."""
        self.rival: Callable[[], object] | None = None
        self.audited = 0
        self.changes = 0
        self.open()
        self.store_id = self.store.store_id
        self.second_store = open_store(self.url)
        self.second = BookingService(self.second_store, self.clock, POLICY, lambda: self.now_there)

    def open(self) -> None:
        """A process of the booking server."""
        self.store = open_store(self.url)
        self.service = BookingService(self.store, self.clock, POLICY, self.capacity)
        self.start_process()

    def close(self) -> None:
        self.end_readers()
        self.second_store.close()
        self.store.close()
        self.folder.cleanup()

    def capacity(self) -> Capacity:
        """What there is; asked before each transaction, so that somebody may come between."""
        rival, self.rival = self.rival, None
        if rival:
            rival()
        return self.now_there

    # --- what happens ------------------------------------------------------------------------------------
    @step(6)
    def somebody_books(self, pick: Pick) -> str:
        user, request = self._request(pick)
        return self._book(self.service, user, request)

    @step(2)
    def two_book_at_once(self, pick: Pick) -> str:
        """One of them, in another process, comes between the other's question and its transaction."""
        (user, request), (other, booking_request) = self._request(pick), self._request(pick)
        booking_request = booking_request if pick.chance(3) else request
        outcomes: list[str] = []
        self.rival = lambda: outcomes.append(self._book(self.second, other, booking_request))
        outcomes.append(self._book(self.service, user, request))
        return " and ".join(outcomes)

    @step(4)
    def a_booking_is_changed(self, pick: Pick) -> str:
        """Another end, another start, more GPUs or fewer; by its owner, or by an administrator."""
        if (mine := self._one(pick)) is None:
            return "there is none"
        which, begins, ends, number, by = pick.many(7, 12, 40, 4, 3)
        tick = self._tick()
        change = BookingChange(
            start=tick + (begins - 2) * TICK if which & 1 else msgspec.UNSET,
            end=tick + (ends - 1) * TICK if which & 2 or not which else msgspec.UNSET,
            count=number if which & 4 else msgspec.UNSET,
        )
        who = somebody(mine.user) if by else ROOT
        return self._change(who, mine, change)

    @step(2)
    def a_booking_is_given_back(self, pick: Pick) -> str:
        return self._end(pick, "release")

    @step(2)
    def a_booking_is_cancelled(self, pick: Pick) -> str:
        return self._end(pick, "cancel")

    @step(4)
    def time_passes(self, pick: Pick) -> str:
        seconds = pick.one((0.4, 600, 1800, 3600, 7200))
        # Back on the tick after a fraction.
        rest = (-(self.clock.monotonic() % 600)) % 600 if seconds > 1 else 0
        self.clock.advance(seconds + rest)
        return str(self.clock.now())

    @step()
    def nodes_come_and_go(self, pick: Pick) -> str:
        self.now_there = drawn_capacity(pick)
        self.most = max(self.most, self.now_there.total(A100))
        return str(self.now_there)

    @step()
    def a_node_is_maintained_or_is_not_any_more(self, pick: Pick) -> str:
        node, begins, lasts, number, ends = pick.many(2, 12, 12, 3, 2)
        if ends and self.blocks:
            gone = self.blocks.pop(pick.between(0, len(self.blocks) - 1))
            assert self.service.remove_block(ROOT, gone.id) == gone
            self._wrote()
            return f"{gone.node} is back"
        start = self._tick() + (begins + 1) * TICK
        known = any(f"n{node}" in on for on in self.now_there.devices.values())
        try:
            block = self.service.add_block(
                ROOT,
                node=f"n{node}",
                start=start,
                end=start + (1 + lasts) * TICK,
                reason="new fans",
                count=number or None,
            )
        except RefusedError:
            assert not known
            return f"n{node} is unknown"
        assert known
        self.blocks.append(block)
        self._wrote()
        return f"{block.count or 'all'} of {block.node} from {block.start} to {block.end}"

    @step()
    def somebody_is_exempted(self, pick: Pick) -> str:
        user, lasts = USERS[pick.between(0, len(USERS) - 1)], pick.between(1, 6)
        start = self._now()
        exemption = self.service.add_exemption(
            ROOT,
            user=user,
            start=start,
            end=start + lasts * HOUR,
            limits={"longest": "PT9H", "cooldown": "PT0S"},
            reason="a deadline",
        )
        self.exempt.append(exemption)
        self.audited += 1
        return f"{user} until {exemption.end}"

    @step()
    def the_server_starts_again(self, _pick: Pick) -> None:
        before = self.store.records_ending_after(START)
        self.end_readers()
        self.store.close()
        self.open()
        assert self.store.store_id == self.store_id
        assert self.store.records_ending_after(START) == before

    @step(2)
    def somebody_asks_what_is_free(self, pick: Pick) -> str:
        begins, lasts, which = pick.many(20, 20, 2)
        model = (A100, A6000)[which]
        if model not in self.now_there.devices:
            return f"{model} is unknown"
        start = self._tick() + begins * TICK
        end = start + (1 + lasts) * TICK
        overview = self.service.overview(ROOT, start, end)
        booked = overview.booked[model]
        for instant in self._instants(max(start, self._now()), end):
            used = sum(each.count for each in booked if each.start <= instant < each.end)
            assert used == self._used(model, instant)
        return f"{model} from {start} to {end}"

    # --- requests and their answers -------------------------------------------------------------------
    def _request(self, pick: Pick) -> tuple[str, BookingRequest]:
        who, which, number, begins, lasts, how = pick.many(6, 12, 5, 40, 24, 8)
        start = self._tick() + (begins - 3) * TICK if how else None
        return USERS[who], BookingRequest(
            model=A100 if which < 8 else A6000 if which < 11 else "NVIDIA-NOTHING",
            count=(1, 2, 3, 4, 0)[number],
            start=start,
            end=(start or self._now()) + (3 + 2 * lasts) * TICK,
            topology="any" if how % 2 else None,
        )

    def _book(self, service: BookingService, user: str, request: BookingRequest) -> str:
        description = (
            f"{user} {request.count} x {request.model} from {request.start or 'now'} to {request.end}"
        )
        wanted = self._wanted(request)
        try:
            record = service.create(somebody(user), request)
        except RefusedError as refused:
            rules = self._refused(refused, wanted, fits=self._is_right(user, request))
            return f"{description}: refused by {rules}"
        # Asked now: somebody else may have come between.
        fits, kept = self._is_right(user, request), self._kept(wanted.model)
        assert fits, "what may not be booked was booked"
        self.changes = record.change
        self.audited += 1
        self.books.append(record)
        assert (record.user, record.count, record.end) == (user, request.count, request.end)
        self._accepted(record, kept)
        return f"{description}: {record.id}"

    def _change(self, who: Principal, mine: Record, change: BookingChange) -> str:
        """The whole booking as it should become, judged without itself."""
        description, now = f"{mine.id} to {change}", self._now()
        state = mine.state(self.clock.now())
        end = mine.end if change.end is msgspec.UNSET else change.end
        requested_start = mine.start if change.start is msgspec.UNSET else change.start
        number = mine.count if change.count is msgspec.UNSET else change.count
        is_now = now - TOLERANCE <= requested_start < now and requested_start != mine.start
        start = now if is_now else requested_start
        topology = None if mine.count == 1 != number else mine.topology
        wanted = Want(mine.model, number, start, end, number > 1 and topology != "any")
        ends = state == "active" and mine.start == requested_start and mine.start < end <= self.clock.now()
        ends = ends and change.end is not msgspec.UNSET
        gives_back = mine.start <= start and end <= mine.end and 1 <= number <= mine.count
        is_right = state in LIVE and self._may_become(mine, requested_start, wanted, gives_back=gives_back)
        fits = is_right and (
            gives_back
            or ((number <= mine.count or self._exists(wanted)) and self._sum_fits(wanted, without=mine))
        )
        kept = self._kept(mine.model)
        try:
            after = self.service.change(who, mine.id, change, expected=mine.version, reason="because")
        except RefusedError as refused:
            assert not ends
            rules = self._refused(refused, wanted, fits=fits, without=mine)
            return f"{description}: refused by {rules}"
        self._replace(mine, after)
        if ends:
            assert (after.released, after.waived) == (now, who is ROOT)
            return f"{description}: released"
        assert fits, "what may not become of it became of it"
        assert (after.start, after.end, after.count) == (start, end, number)
        if not gives_back:
            self._accepted(after, kept)
        return f"{description}: changed"

    def _end(self, pick: Pick, how: str) -> str:
        if (record := self._one(pick)) is None:
            return "there is none"
        who = ROOT if pick.chance(4) else somebody(record.user)
        now = self.clock.now()
        is_right = record.state(now) == ("active" if how == "release" else "planned")
        try:
            changed = getattr(self.service, how)(who, record.id, reason="because")
        except RefusedError:
            assert not is_right
            return f"{how} of {record.id} is refused"
        assert is_right
        by = {"ended_by": ROOT.user, "reason": "because"} if who is ROOT else {}
        if how == "cancel":
            wanted = msgspec.structs.replace(record, cancelled=self._now(), change=changed.change, **by)
        else:
            whole = self._now() if now == self._now() else self._now() + SECOND
            wanted = msgspec.structs.replace(
                record,
                end=min(record.end, max(whole, record.start + SECOND)),
                released=self._now(),
                waived=who is ROOT,
                change=changed.change,
                **by,
            )
        assert changed == wanted
        self._replace(record, changed)
        return f"{how} of {record.id}"

    def _one(self, pick: Pick) -> Record | None:
        recent = [each for each in self.books if each.end > self._now() - HOUR]
        return pick.one(recent) if recent else None

    def _replace(self, before: Record, after: Record) -> None:
        self.books[self.books.index(before)] = after
        if after.change != before.change:
            self.changes = after.change
            self.audited += 1

    def _wrote(self) -> None:
        self.changes = self.store.change()
        self.audited += 1

    def _refused(
        self, refused: RefusedError, wanted: Want, *, fits: bool, without: Record | None = None
    ) -> list[str]:
        """Why; the sum may allow what the nodes do not."""
        rules = sorted({violation.rule for violation in refused.violations})
        assert rules
        if fits:
            assert rules == ["capacity"], "refused without a reason"
            assert wanted.is_whole or self._is_tight(wanted.model, without), "refused though there is room"
        for each in refused.alternatives:
            assert each.start >= self._now() or without is not None
        return rules

    def _accepted(self, new: Record, kept: frozenset[str]) -> None:
        """What was moved for it is read again; no booking has lost a place by it, and the new one has one.

        A booking whose node is gone may have none: that is no fault of ours (it is at risk).
        """
        now_there = {each.id: each for each in self.store.records_ending_after(START)}
        for place, each in enumerate(self.books):
            found = now_there.get(each.id)
            if found and found.plan != each.plan:
                assert each.end > self._now(), "what is over was moved"
                assert each.start > self._now() + FIXED_AHEAD or self._is_lost(each), (
                    "what has begun was moved"
                )
                assert found == msgspec.structs.replace(each, plan=found.plan, change=found.change)
                self.books[place] = found
        self.changes = self.store.change()
        if self._is_tight(new.model, None):
            assert kept | {new.id} <= self._kept(new.model), "a booking has no place any more"

    # --- what must be true -------------------------------------------------------------------------------
    def check(self) -> None:
        now = self._now()
        assert self.store.change() == self.changes
        stored = self.store.records_ending_after(now - LONGER)
        wanted = [each for each in self.books if each.end > now - LONGER and each.cancelled is None]
        assert stored == sorted(wanted, key=lambda record: (record.start, record.id))
        # What was over long ago breaks no rule of anybody.
        self.books = [each for each in self.books if each.end > now - LONGER - COOLDOWN]

    def settle(self) -> None:
        super().settle()
        known = self.store.known(each.id for each in self.books)
        assert known == {each.id for each in self.books}
        assert self._entries() == self.audited
        for each in self.books:
            for instant in self._instants(each.start, each.end):
                assert self._used(A100, instant) <= self.most

    def _entries(self) -> int:
        found, after = 0, None
        while True:
            page = self.service.audit(ROOT, after=after, limit=500)
            found, after = found + len(page.entries), page.following
            if after is None:
                return found


TestCalendar = by_hypothesis(CalendarMachine, examples=6)


def test_l5_guarantees_can_be_kept_through_a_long_history(
    play: Callable[[type[Machine]], int],
) -> None:
    assert play(CalendarMachine) == length()
