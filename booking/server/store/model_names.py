"""Brings the models of stored rows to the form in which they are compared today.

An earlier server stored a model's name with characters that no label may have. Such a booking would be of a
model that no node has.
"""

from typing import Any, Final

from booking.server.store.models import BlockRow, BookingRow, ExemptionRow
from cluster import names

_TABLES: Final[tuple[Any, ...]] = (BookingRow, BlockRow, ExemptionRow)


def normalise_models(database: Any) -> None:
    """Write label form where another one is stored, in the caller's transaction."""
    for table in _TABLES:
        stored = table.select(table.model).where(table.model.is_null(False)).distinct().tuples()
        for (model,) in list(stored.execute(database)):
            label = names.model_label(model)
            if label != model:
                _rename(database, table, model, label)


def _rename(database: Any, table: Any, model: str, label: str) -> None:
    # Without a ceiling: the peak guard compares one with what is booked now, not with what was accepted.
    settled = {"ceiling": None, "judged": None} if table is BookingRow else {}
    table.update({"model": label, **settled}).where(table.model == model).execute(database)
