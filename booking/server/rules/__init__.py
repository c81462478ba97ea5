"""The rules of booking, one file each. Pure: ``booking.server.evaluation.evaluate`` asks all of them, always.

A rule says what is broken, with its own earliest start: the first at or after the one that is asked for at
which this rule alone is not in the way. Each decides for itself what it has to say about the change of a
booking.
"""

from collections.abc import Callable
from typing import Final

from booking.server.records import Violation
from booking.server.rule_context import RuleContext
from booking.server.rules.concurrent_gpus import concurrent_gpus
from booking.server.rules.cooldown import cooldown
from booking.server.rules.extension import extension
from booking.server.rules.granularity import granularity
from booking.server.rules.horizon import horizon
from booking.server.rules.longest import longest
from booking.server.rules.most_gpus import most_gpus
from booking.server.rules.no_active_overlap import no_active_overlap
from booking.server.rules.one_planned import one_planned
from booking.server.rules.shortest import shortest
from booking.server.rules.whole_steps import whole_steps

Rule = Callable[[RuleContext], Violation | None]
"""A request -> what is broken, or None."""

RULES: Final[tuple[Rule, ...]] = (
    no_active_overlap,
    one_planned,
    cooldown,
    shortest,
    longest,
    horizon,
    granularity,
    whole_steps,
    most_gpus,
    concurrent_gpus,
    extension,
)
"""The manual's five first; the others break only if a policy gives them a limit."""

REQUESTER_RULES: Final[tuple[Rule, ...]] = (no_active_overlap, one_planned)
"""Rules that do not depend on the request: while they are broken no other request helps."""
