"""A booking request as the rules see it, for their tests."""

from datetime import datetime, timedelta
from typing import Any

from booking.policy.limits import Limits
from booking.server.rule_context import RuleContext
from tests.fakes.objects import A100
from tests.fakes.records import day


def a_case(
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    history: Any = (),
    now: datetime | None = None,
    **more: Any,
) -> RuleContext:
    """One A100 tomorrow, for two days, asked for at ``day(0)`` by somebody who has never booked."""
    start = start or day(1)
    given: dict[str, Any] = {"limits": Limits(), "model": A100, "count": 1, "since": start, **more}
    return RuleContext(
        now=now or day(0), history=tuple(history), start=start, end=end or start + timedelta(days=2), **given
    )
