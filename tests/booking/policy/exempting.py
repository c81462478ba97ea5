"""Exemptions for the tests of the policy."""

from typing import Any

from booking.server.store_records import Exemption
from tests.fakes.records import day


def an_exemption(
    limits: dict[str, Any], start: float = -1, end: float = 1, model: str | None = None
) -> Exemption:
    """One of alice's; ``start`` and ``end`` in days from the clock's start."""
    return Exemption(
        id="x",
        user="alice",
        limits=limits,
        model=model,
        start=day(start),
        end=day(end),
        reason="a deadline",
        created_by="bob",
        created=day(start),
    )
