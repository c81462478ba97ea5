"""The machines get to what they are about: a history in which nothing happens breaks no law."""

import re

import pytest

from tests.properties import history
from tests.properties.history import Dice, Machine
from tests.properties.test_calendar_machine import CalendarMachine
from tests.properties.test_entitlement_machine import EntitlementMachine
from tests.properties.test_ledger_machine import LedgerMachine
from tests.properties.test_placement_machine import PlacementMachine
from tests.properties.test_places_machine import PlacesMachine
from tests.properties.test_victims_machine import VictimsMachine

SEED = 5
EVENTS = {
    r"the_watch_delivers: .* in version": 50,
    r"the_watch_delivers: .* is gone in version": 10,
    r"it_repeats_an_event: .* in version": 10,
    r"late_events_are_lost: [1-9]": 5,
}


@pytest.mark.parametrize(
    ("kind", "steps", "least"),
    [
        (LedgerMachine, 1000, EVENTS | {r"a_bind_is_decided: p\d+ on": 10}),
        (EntitlementMachine, 1000, EVENTS | {r"cover_annotations_are_written: [1-9]": 5}),
        (PlacementMachine, 1000, EVENTS | {r"fit: bound to": 10, r"\[\] fit: ": 10}),
        (
            CalendarMachine,
            600,
            {
                r" x .*: b-": 5,
                r"refused by": 20,
                r"(release|cancel) of [^ ]+$": 3,
                r"what_is_booked: .*[1-9]\d* bookings [1-9]\d* changes before": 3,
                r"what_is_booked: .* 0 changes before, .* [1-9]\d* changes before": 1,
                r"written_and_undone: \['b-": 3,
                r"goes_round: [1-9]": 10,
                r"goes_round: it has failed": 3,
                r"objects_delivers: b-": 3,
                r"it_repeats_an_event: b-": 3,
                r"objects_are_lost: [1-9]": 1,
                r"all_was_delivered: [1-9]": 1,
            },
        ),
        (
            PlacesMachine,
            400,
            {r"^adopted: ": 2, r"time_passes: .*refused [1-9]": 1, r"^somebody_runs_a_pod: .*, booked$": 4},
        ),
        (
            VictimsMachine,
            400,
            {
                r"holds \['": 3,
                r"'\] evicted": 2,
                r"the_watch_delivers: .* in version": 10,
                r"the_watch_delivers: .* is gone in version": 1,
                r"it_repeats_an_event: .* in version": 3,
                r"late_events_are_lost: [1-9]": 2,
                r"a_pass_when_all_was_delivered: [1-9]": 5,
            },
        ),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_the_histories_of_a_machine_reach_the_situations_that_it_is_about(
    kind: type[Machine], steps: int, least: dict[str, int]
) -> None:
    messages: list[str] = []
    assert history._failure(kind, history._rolling(kind, Dice(SEED), [], steps), messages) is None
    happened = {text: sum(bool(re.search(text, message)) for message in messages) for text in least}
    assert not {text: count for text, count in happened.items() if count < least[text]}, happened
