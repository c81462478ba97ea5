"""Administrators' decisions besides bookings: blocks of devices, and exemptions."""

from datetime import datetime
from math import ceil, floor
from typing import Any, Final

import msgspec

from booking.server.store.models import BlockRow, ExemptionRow, instant
from booking.server.store.transaction import Transaction, WritingTransaction, can_be_stored
from booking.server.store_records import Block, Exemption

_BLOCKS: Final = """
    SELECT id, node, model, gpus, starts, ends, reason, created_by, created FROM blocks
    WHERE ends > ? AND starts < ? ORDER BY starts, id
"""
_EXEMPTIONS: Final = """
    SELECT id, "user", limits, model, starts, ends, reason, created_by, created FROM exemptions
    WHERE starts <= ? AND ends > ? ORDER BY starts, id
"""
_FIRST: Final = -(2**62)
_LAST: Final = 2**62


class AdministrationRead(Transaction):
    """Queries for blocks and exemptions. Every evaluation makes them: answers are cached while valid."""

    def blocks(self, *, start: datetime | None = None, end: datetime | None = None) -> list[Block]:
        """Blocks with a moment in ``[start, end)``, by start and id."""
        since = _FIRST if start is None else floor(start.timestamp())
        before = _LAST if end is None else ceil(end.timestamp())
        return list(self._once(_BLOCKS, since, before, read=_block))

    def block(self, block_id: str) -> Block | None:
        """The block with this id; None if there is none."""
        if not can_be_stored(block_id):
            return None
        rows = self._all(BlockRow.select().where(BlockRow.id == block_id))
        return next((Block(**row) for row in rows), None)

    def exemptions(self, user: str | None, now: datetime | None) -> list[Exemption]:
        """A user's exemptions, or all, by start and id; if an instant is given, those in force at it."""
        at = (_LAST, _FIRST) if now is None else (floor(now.timestamp()),) * 2
        found = self._once(_EXEMPTIONS, *at, read=_exemption)
        return [each for each in found if user in {None, each.user}]

    def exemption(self, exemption_id: str) -> Exemption | None:
        """The exemption with this id; None if there is none."""
        if not can_be_stored(exemption_id):
            return None
        rows = self._all(ExemptionRow.select().where(ExemptionRow.id == exemption_id))
        return next((Exemption(**row) for row in rows), None)


class AdministrationWrite(AdministrationRead, WritingTransaction):
    """Changes of blocks and exemptions. The cluster mirrors blocks, so each change of one gets a number."""

    def block_add(self, block: Block) -> None:
        """Store a new block."""
        self._next_change()
        self._do(BlockRow.insert(**_row(block)))

    def block_remove(self, block_id: str) -> Block | None:
        """Remove a block; returns it, or None if there is none of that id."""
        block = self.block(block_id)
        if block:
            self._next_change()
            self._do(BlockRow.delete().where(BlockRow.id == block_id))
        return block

    def exemption_add(self, exemption: Exemption) -> None:
        """Store a new exemption."""
        self._do(ExemptionRow.insert(**_row(exemption)))

    def exemption_remove(self, exemption_id: str) -> Exemption | None:
        """Remove an exemption; returns it, or None if there is none of that id."""
        exemption = self.exemption(exemption_id)
        if exemption:
            self._do(ExemptionRow.delete().where(ExemptionRow.id == exemption_id))
        return exemption


def _block(row: tuple[Any, ...]) -> Block:
    block_id, node, model, count, start, end, reason, created_by, created = row
    return Block(
        id=block_id,
        node=node,
        model=model,
        count=count,
        start=instant(start),
        end=instant(end),
        reason=reason,
        created_by=created_by,
        created=instant(created),
    )


def _exemption(row: tuple[Any, ...]) -> Exemption:
    exemption_id, user, limits, model, start, end, reason, created_by, created = row
    return Exemption(
        id=exemption_id,
        user=user,
        limits=msgspec.json.decode(limits),
        model=model,
        start=instant(start),
        end=instant(end),
        reason=reason,
        created_by=created_by,
        created=instant(created),
    )


def _row(struct: msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(struct)
