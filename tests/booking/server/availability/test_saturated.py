"""Calendars that fill up until little fits any more; each booking has to be on one node.

Plain capacity, "so many are free", accepts calendars of which most have no placement at all: 222 of 300 in
the experiment that this repeats (3 nodes with 4 GPUs, up to 4 of them on one node). Of ours none may.
"""

from booking.server.records import Record
from tests.booking.server.availability.trying import has_a_placement
from tests.booking.server.availability.world import World, hour
from tests.fakes.dice import Dice
from tests.fakes.records import a_record

DEVICES = {"n0": 4, "n1": 4, "n2": 4}
REQUESTS = 60
"""Requests for up to 4 GPUs of one node, which begin within a day and a half and last up to 12 hours."""
SEEDS = range(300)


def requests(seed: int) -> list[Record]:
    dice = Dice(seed)
    found = []
    for number in range(REQUESTS):
        start = 1 + dice.below(36)
        found.append(
            a_record(
                id=f"b-{number}",
                start=hour(start),
                end=hour(start + 1 + dice.below(12)),
                count=1 + dice.below(4),
                topology="single-node",
            )
        )
    return found


def by_capacity(submitted: list[Record]) -> list[Record]:
    """The requests that are accepted while there are so many free in all."""
    accepted: list[Record] = []
    for request in submitted:
        together = [*accepted, request]
        peaks = (
            sum(r.count for r in together if r.start <= at < r.end) for at in (r.start for r in together)
        )
        if max(peaks) <= sum(DEVICES.values()):
            accepted = together
    return accepted


def test_plain_capacity_accepts_calendars_without_a_placement() -> None:
    """Most of them: the calendars are as full as those of the experiment, and its answer is repeated."""
    impossible = [seed for seed in SEEDS if not has_a_placement(by_capacity(requests(seed)), DEVICES)]
    assert 200 <= len(impossible) <= 250


def test_l5_every_calendar_of_ours_has_a_placement_and_they_are_as_full() -> None:
    ours = plain = 0
    for seed in SEEDS[:100]:
        world = World(DEVICES)
        for request in requests(seed):
            world.ask(request)
        assert world.spoilt() is None, seed
        ours += len(world.records)
        plain += len(by_capacity(requests(seed)))
    assert ours > 0.98 * plain


def test_l5_in_calendars_without_a_placement_every_booking_too_many_is_at_risk() -> None:
    """The calendars that plain capacity accepts, read as they are by the search for risks."""
    for seed in SEEDS[:15]:
        world = World(DEVICES)
        accepted = by_capacity(requests(seed))
        world.records = {record.id: record for record in accepted}
        at_risk = world.keep().at_risk
        assert has_a_placement(accepted, DEVICES) or at_risk, seed
        assert world.spoilt(at_risk) is None, seed
