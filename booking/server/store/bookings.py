"""Bookings: reading and writing. Queries of every request are written in SQL, all others with peewee."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache, lru_cache, reduce
from math import ceil
from operator import and_
from typing import Any, Final

import msgspec
import peewee

from booking.server.errors import StoreError
from booking.server.records import Place, Record
from booking.server.store.connection import Connection
from booking.server.store.models import BookingRow, instant
from booking.server.store.transaction import Transaction, WritingTransaction, can_be_stored
from booking.server.store_records import Filters, Guard

_MARK: Final = re.compile(r"(-?[0-9]{1,18})[.]([!-~]+)", re.ASCII)
"""Start, in seconds since 1970, and id of the last booking of a page."""
_IDS_PER_QUERY: Final = 500
"""SQLite accepts a few thousand parameters in one statement."""
_COLUMNS: Final = (
    'id, "user", model, gpus, topology, namespace, starts, ends, created, released, cancelled, change, '
    "plan, created_by, policy, ended_by, reason, waived, memory"
)
_ENDS, _RELEASED, _CANCELLED, _SLOT = 7, 9, 10, 19
"""Positions of these columns in a row."""
_SELECT: Final = "SELECT <columns>, live_slot FROM bookings WHERE <condition> ORDER BY starts, id"
_OF_USER: Final = '"user" = ?'
_OF_ID: Final = "id = ?"
_OVERLAPPING: Final = "cancelled IS NULL AND model = ? AND ends > ? AND starts < ?"
_ENDING: Final = "cancelled IS NULL AND ends > ?"
_ENDING_OF: Final = "cancelled IS NULL AND model = ? AND ends > ?"
_MODELS: Final = "SELECT DISTINCT model FROM bookings WHERE cancelled IS NULL AND ends > ?"
_CHANGED: Final = "change > ?"
_INSERT: Final = """
    INSERT INTO bookings (<columns>, live_slot, ceiling, judged)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
""".replace("<columns>", _COLUMNS)
_UPDATE: Final = """
    UPDATE bookings SET "user" = ?, model = ?, gpus = ?, topology = ?, namespace = ?, starts = ?, ends = ?,
        created = ?, released = ?, cancelled = ?, change = ?, plan = ?, created_by = ?, policy = ?,
        ended_by = ?, reason = ?, waived = ?, memory = ?,
        live_slot = CASE WHEN ? THEN NULL ELSE live_slot END, ceiling = ?, judged = ?
    WHERE id = ?
"""
_FREE_LIVE_SLOTS: Final = """
    UPDATE bookings SET live_slot = NULL
    WHERE "user" = ? AND live_slot IS NOT NULL
        AND (ends <= ? OR released IS NOT NULL OR cancelled IS NOT NULL)
"""
_REPLAN: Final = "UPDATE bookings SET plan = ?, change = ? WHERE id = ?"


class BookingsRead(Transaction):
    """Queries for bookings, within a transaction that reads."""

    def history(self, user: str) -> list[Record]:
        """All bookings that a user ever made, by start and id."""
        return self._records(_OF_USER, user)

    def find(self, user: str | None, booking_id: str) -> Record | None:
        """One of the user's bookings; of any user's, if no user is given."""
        found = self._records(_OF_ID, booking_id) if can_be_stored(booking_id) else []
        return found[0] if found and user in {None, found[0].user} else None

    def overlapping(self, model: str, start: datetime, end: datetime) -> list[Record]:
        """Bookings of a model, without cancelled ones, that overlap ``[start, end)``, by start and id."""
        return self._records(_OVERLAPPING, model, _seconds(start), ceil(end.timestamp()))

    def ending_after(self, instant: datetime, *, model: str | None = None) -> list[Record]:
        """Bookings of all users, of one model or all, that are not cancelled and end after the instant."""
        if model is None:
            return self._records(_ENDING, _seconds(instant))
        return self._records(_ENDING_OF, model, _seconds(instant))

    def models_ending_after(self, instant: datetime) -> list[str]:
        """Models of the bookings that are not cancelled and end after the instant, sorted."""
        return sorted(model for (model,) in self._line.rows(_MODELS, _seconds(instant)))

    def changed_after(self, change: int, *, model: str | None = None) -> list[Record]:
        """Bookings, cancelled ones too, that were written by a change after this one, of one model or all."""
        return [each for each in self._records(_CHANGED, change) if model in {None, each.model}]

    def known(self, ids: Iterable[str]) -> set[str]:
        """Those of the given ids that are stored, whatever the state of their bookings (law L9)."""
        wanted = list(ids)
        return {
            row["id"]
            for begin in range(0, len(wanted), _IDS_PER_QUERY)
            for row in self._all(
                BookingRow.select(BookingRow.id).where(
                    BookingRow.id.in_(wanted[begin : begin + _IDS_PER_QUERY])
                )
            )
        }

    def page(
        self, filters: Filters, *, now: datetime, after: str | None, limit: int
    ) -> tuple[list[Record], str | None]:
        """A page of bookings by start and id, and where the next page begins.

        Args:
            filters: which ones.
            now: for their states.
            after: the second value of the page before; None for the first page.
            limit: at least 1.

        Raises:
            ValueError: ``after`` comes from no page.
        """
        conditions = list(_conditions(filters, now))
        if after is not None:
            conditions.append(_after(after))
        query = BookingRow.select(peewee.SQL(_COLUMNS))
        query = query.where(reduce(and_, conditions)) if conditions else query
        query = query.order_by(BookingRow.start, BookingRow.id).limit(limit + 1)
        statement, values = self._line.database.get_sql_context().sql(query).query()
        found = [_record(row) for row in self._line.database.execute_sql(statement, values).fetchall()]
        page = found[:limit]
        return page, f"{_seconds(page[-1].start)}.{page[-1].id}" if len(found) > limit else None

    def _records(self, condition: str, *values: object) -> list[Record]:
        return [_record(row) for row in self._rows(condition, *values)]

    def _rows(self, condition: str, *values: object) -> list[tuple[Any, ...]]:
        return self._line.rows(_query(condition), *values)


class BookingsWrite(BookingsRead, WritingTransaction):
    """Changes of bookings. Each gets the next number, and nothing is ever removed."""

    def __init__(self, line: Connection, change: int) -> None:
        super().__init__(line, change)
        self._written: dict[str, Record] | None = {}
        """Bookings written by this transaction; None if not all of them are known."""
        self._history: tuple[tuple[str, int], list[tuple[Any, ...]]] = ("", -1), []
        """((user, number of writes), rows): the history that was read last, valid until the next write."""

    def history(self, user: str) -> list[Record]:
        """All bookings that a user ever made, by start and id."""
        return [_record(row) for row in self._rows_of(user)]

    def changed_after(self, change: int, *, model: str | None = None) -> list[Record]:
        """Bookings, cancelled ones too, that were written by a change after this one, of one model or all.

        The transaction's own writes are served from memory: every write that is stored together with others
        needs them.
        """
        if self._written is None or change < self._stored_change:
            return super().changed_after(change, model=model)
        found = (each for each in self._written.values() if each.change > change)
        return sorted(
            (each for each in found if model in {None, each.model}), key=lambda each: (each.start, each.id)
        )

    def add(self, record: Record, *, guard: Guard | None = None) -> Record:
        """Store a new booking; the returned record has the number of the change.

        Raises:
            StoreError: the guard refuses it, though the evaluation accepted it.
        """
        slot = self._free_place(record.user, guard) if guard else None
        record = msgspec.structs.replace(record, change=self._next_change())
        self._run(_INSERT, *_values(record), slot, *_judged(guard))
        self._note(record)
        return record

    def replace(self, record: Record, *, guard: Guard | None = None) -> Record:
        """Overwrite a booking; the returned record has the number of the change.

        Args:
            record: the new state.
            guard: if it may have grown: more devices, or another span.
        """
        record = msgspec.structs.replace(record, change=self._next_change())
        booking_id, *values = _values(record)
        over = record.cancelled is not None or record.released is not None
        self._run(_UPDATE, *values, over, *_judged(guard), booking_id)
        self._note(record)
        return record

    def replan(self, booking_id: str, plan: tuple[Place, ...]) -> None:
        """Give a booking another place in the plan; nothing else of it changes."""
        self._written = None
        self._run(_REPLAN, msgspec.json.encode(plan).decode(), self._next_change(), booking_id)

    def _note(self, record: Record) -> None:
        if self._written is not None:
            self._written[record.id] = record

    def _free_place(self, user: str, guard: Guard) -> int:
        """The user's first free slot, after releasing those of bookings that are over."""
        now = _seconds(guard.since)
        rows = self._rows_of(user)
        taken = [row[_SLOT] for row in rows if _is_live(row, now)]
        if any(row[_SLOT] is not None and not _is_live(row, now) for row in rows):
            self._run(_FREE_LIVE_SLOTS, user, now)
        if guard.live is not None and len(taken) >= guard.live:
            raise StoreError(
                f"The booking database refuses what was judged to be right: {user!r} would have more than"
                f" {guard.live} planned or active bookings."
            )
        return next(place for place in range(len(taken) + 1) if place not in taken)

    def _rows_of(self, user: str) -> list[tuple[Any, ...]]:
        """A user's present bookings; evaluating and then storing one reads them only once."""
        key, rows = self._history
        if key != (user, self.writes):
            rows = self._rows(_OF_USER, user)
            self._history = (user, self.writes), rows
        return rows


def _after(token: str) -> Any:
    no_page = ValueError(f"No page of bookings ends with {token!r}.")
    mark = _MARK.fullmatch(token)
    if mark is None:
        # The id is not queried: PostgreSQL accepts no text with a NUL in it.
        raise no_page
    try:
        begun = datetime.fromtimestamp(int(mark[1]), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise no_page from error
    booking_id = mark[2]
    return (BookingRow.start > begun) | ((BookingRow.start == begun) & (BookingRow.id > booking_id))


def _conditions(filters: Filters, now: datetime) -> Iterable[Any]:
    moment = now.replace(microsecond=0)
    if filters.user is not None:
        yield BookingRow.user == filters.user
    if filters.model is not None:
        yield BookingRow.model == filters.model
    if filters.start is not None:
        yield BookingRow.end > filters.start
    if filters.end is not None:
        yield BookingRow.start < peewee.Value(ceil(filters.end.timestamp()), converter=False)
    kept, planned = BookingRow.cancelled.is_null(), BookingRow.start > moment
    over = ~planned & ((BookingRow.end <= moment) | BookingRow.released.is_null(is_null=False))
    if filters.state == "cancelled":
        yield ~kept
    elif filters.state == "planned":
        yield kept & planned
    elif filters.state == "ended":
        yield kept & over
    elif filters.state == "active":
        yield kept & ~planned & ~over
    elif not filters.past:
        yield kept & ~over


@cache
def _query(condition: str) -> str:
    return _SELECT.replace("<columns>", _COLUMNS).replace("<condition>", condition)


def _record(row: tuple[Any, ...]) -> Record:
    (
        booking_id,
        user,
        model,
        count,
        topology,
        namespace,
        start,
        end,
        created,
        released,
        cancelled,
        change,
    ) = row[:12]
    plan, created_by, policy, ended_by, reason, waived, memory = row[12:_SLOT]
    return Record(
        id=booking_id,
        user=user,
        model=model,
        count=count,
        topology=topology,
        namespace=namespace,
        start=instant(start),
        end=instant(end),
        created=instant(created),
        released=None if released is None else instant(released),
        cancelled=None if cancelled is None else instant(cancelled),
        change=change,
        plan=_places(plan),
        created_by=created_by,
        policy=policy,
        ended_by=ended_by,
        reason=reason,
        waived=bool(waived),
        memory=memory,
    )


def _is_live(row: tuple[Any, ...], now: int) -> bool:
    """Whether the booking is planned or active."""
    return row[_CANCELLED] is None and row[_RELEASED] is None and row[_ENDS] > now


def _values(record: Record) -> tuple[object, ...]:
    return (
        record.id,
        record.user,
        record.model,
        record.count,
        record.topology,
        record.namespace,
        _seconds(record.start),
        _seconds(record.end),
        _seconds(record.created),
        None if record.released is None else _seconds(record.released),
        None if record.cancelled is None else _seconds(record.cancelled),
        record.change,
        msgspec.json.encode(record.plan).decode(),
        record.created_by,
        record.policy,
        record.ended_by,
        record.reason,
        record.waived,
        record.memory,
    )


def _judged(guard: Guard | None) -> tuple[int | None, int | None]:
    if guard is None or guard.devices is None:
        return None, None
    return guard.devices, _seconds(guard.since)


def _seconds(instant: datetime) -> int:
    return int(instant.timestamp())


@lru_cache(maxsize=1024)
def _places(text: str) -> tuple[Place, ...]:
    return msgspec.json.decode(text, type=tuple[Place, ...])
