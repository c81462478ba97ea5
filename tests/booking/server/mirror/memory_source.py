"""A booking database in memory, as the mirror reads it, and records for it."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from booking.server.errors import StoreError
from booking.server.records import Record
from cluster.fake.clock import START
from tests.fakes.objects import A100


def a_record(name: str = "b-1", **more: object) -> Record:
    """Alice's A100 for two days from ``START`` on."""
    fields = {
        "id": name,
        "user": "alice",
        "model": A100,
        "count": 1,
        "topology": "any",
        "namespace": None,
        "start": START,
        "end": START + timedelta(days=2),
        "created": START,
        **more,
    }
    return msgspec.convert(fields, Record)


class MemorySource:
    """Records by id."""

    def __init__(self, store_id: str = "ours") -> None:
        self.store_id = store_id
        self.records: dict[str, Record] = {}
        self.changes = 0
        self.problem: StoreError | None = None
        """The error that is raised instead of an answer."""

    def put(self, record: Record) -> int:
        """Store a record, new or changed; the number of the change."""
        self.changes += 1
        self.records[record.id] = msgspec.structs.replace(record, change=self.changes)
        return self.changes

    def check(self) -> None:
        """Raise the problem, if there is one."""
        if self.problem:
            raise self.problem

    def change(self) -> int:
        """The newest change."""
        self.check()
        return self.changes

    def records_ending_after(self, instant: datetime) -> list[Record]:
        """Not cancelled, ending later."""
        self.check()
        return [r for r in self.records.values() if r.cancelled is None and r.end > instant]

    def known(self, ids: Iterable[str]) -> set[str]:
        """The ids that are stored."""
        self.check()
        return set(ids) & set(self.records)

    def changed_after(self, change: int) -> tuple[int, list[Record]]:
        """The newest change, and the records written after this one."""
        self.check()
        return self.changes, [record for record in self.records.values() if record.change > change]
