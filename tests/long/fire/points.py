"""The calls at which a part is killed: taken from the record of an undisturbed round.

Only controller, extender and booking server write for an eviction, a comeback or an end. Node agents and
kube-scheduler do not, so they are not killed at their calls: `test_faulty_answers.py` tries what faulty
answers do to them, `test_killed_parts.py` kills them at random moments.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, get_args

from cluster import names
from devcluster.faultproxy import Call, Lose, Match, Record, Refuse, Rule
from tests.long.fire.give_and_take import HERS
from tests.long.fire.proxied import PartName

CALLERS: Final[dict[str, PartName]] = {
    names.CONTROLLER: "controller",
    names.EXTENDER: "extender",
    names.BOOKING_SERVER: "server",
}
LEASES_OF: Final = frozenset({names.BOOKING_SERVER})
"""The parts whose Lease is part of the story; the others' are renewed whatever happens."""
BESIDE_THE_POINT: Final = frozenset({"events", "tokenreviews", "csistoragecapacities"})
"""What is written by other threads, asks only, or says nothing."""

Side = Literal["before", "after"]
SIDES: Final[tuple[Side, ...]] = get_args(Side)
Kill = Callable[[PartName], object]


@dataclass(frozen=True)
class Point:
    """One kind of call of one part, in one half of the story."""

    caller: str
    step: str
    """As ``Call.step`` says it; of a Lease only that it is one."""

    @property
    def part(self) -> PartName:
        """Who is killed."""
        return CALLERS[self.caller]

    def __str__(self) -> str:
        return f"{self.part}: {self.step}"

    def rules(self, sides: Iterable[Side], kill: Kill) -> Iterator[Rule]:
        """Rules that kill the part at its first such call, and then at the next one, on these sides of it."""
        match = Match(also=lambda call: point_of(call) == self)
        for number, side in enumerate(sides):
            action = Refuse if side == "before" else Lose
            meanwhile = action(meanwhile=lambda _call: kill(self.part))
            yield Rule(match=match, action=meanwhile, after=number)


def point_of(call: Call) -> Point | None:
    """The point at which this call can be killed; None for one that is none."""
    place = call.place
    is_lease = place.resource == "leases"
    if not call.is_write or call.caller not in CALLERS or place.resource in BESIDE_THE_POINT:
        return None
    if is_lease and call.caller not in LEASES_OF:
        return None
    if place.subresource == "binding" and not place.name.startswith(HERS):
        return None  # that of bob's next pod, which is bound whenever the device is free
    return Point(call.caller, "its Lease" if is_lease else call.step)


def points_of(records: Iterable[Record]) -> list[Point]:
    """Every point of a round, once, in the order in which they came."""
    return list(dict.fromkeys(point for record in records if (point := point_of(record.call))))


def created(records: Iterable[Record]) -> int:
    """How many pods the controller has really created."""
    return sum(
        record.call.caller == names.CONTROLLER and record.call.step == "POST pods" and record.status == 201
        for record in records
    )
