"""The alternatives of a booking at risk are searched again only when the answer may have changed."""

from datetime import timedelta
from typing import Final

import pytest

from booking.policy.policy import Policy
from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.evaluation.alternatives import Alternative
from booking.server.service.remembered_alternatives import Basis, RememberedAlternatives
from tests.fakes.objects import A100, EPOCH

HOUR: Final = timedelta(hours=1)
BASIS: Final = Basis(7, Capacity({A100: {"n0": 4}}), Policy(zone="UTC"))
ALICE: Final = Principal(user="alice", name="alice")


class Searches:
    """Counts searches; each finds one alternative that begins in so long."""

    def __init__(self, begins: timedelta) -> None:
        self.begins, self.count = begins, 0
        self.remembered = RememberedAlternatives()

    def ask(
        self, basis: Basis = BASIS, after: timedelta = timedelta(), who: Principal = ALICE, of: str = "b-1"
    ) -> None:
        self.remembered.get(who, of, basis, now=EPOCH + after, compute=self._search)

    def _search(self) -> tuple[Alternative, ...]:
        self.count += 1
        start = EPOCH + self.begins
        return (Alternative(model=A100, count=1, start=start, end=start + HOUR, topology="any", why="later"),)


def test_the_same_question_is_answered_from_memory_until_the_first_offer_has_begun() -> None:
    searches = Searches(begins=2 * HOUR)
    searches.ask()
    searches.ask(after=HOUR)
    assert searches.count == 1
    searches.ask(after=2 * HOUR)
    assert searches.count == 2


def test_an_offer_that_begins_now_is_good_for_a_minute() -> None:
    searches = Searches(begins=timedelta())
    searches.ask()
    searches.ask(after=timedelta(seconds=59))
    assert searches.count == 1
    searches.ask(after=timedelta(seconds=61))
    assert searches.count == 2


@pytest.mark.parametrize(
    ("basis", "who", "of"),
    [
        (Basis(8, BASIS.capacity, BASIS.policy), ALICE, "b-1"),
        (Basis(7, Capacity({A100: {"n0": 3}}), BASIS.policy), ALICE, "b-1"),
        (Basis(7, BASIS.capacity, Policy(zone="UTC", visibility="names")), ALICE, "b-1"),
        (BASIS, Principal(user="bob", name="bob"), "b-1"),
        (BASIS, ALICE, "b-2"),
    ],
    ids=["the calendar", "the capacity", "the policy", "who asks", "the booking"],
)
def test_another_basis_is_searched_again(basis: Basis, who: Principal, of: str) -> None:
    searches = Searches(begins=HOUR)
    searches.ask()
    searches.ask(basis, who=who, of=of)
    assert searches.count == 2
