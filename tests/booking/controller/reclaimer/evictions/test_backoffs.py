"""When a refused comeback is tried again, and how often its owner reads why not."""

import pytest

from booking.controller.reclaimer.evictions.backoffs import LONGEST, REPEATED_AFTER, REWORDED_AFTER, Backoffs
from cluster.fake.clock import FakeClock


class Longest:
    """Each pause is as long as it can be."""

    def uniform(self, a: float, b: float, /) -> float:
        return max(a, b)


class Shortest:
    """Each pause is as short as it can be."""

    def uniform(self, a: float, b: float, /) -> float:
        return min(a, b)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def backoffs(clock: FakeClock) -> Backoffs:
    return Backoffs(clock, Longest())


@pytest.mark.parametrize(
    ("random", "share"), [(Longest(), 1.0), (Shortest(), 0.5)], ids=["longest", "shortest"]
)
def test_pauses_double_up_to_the_longest_and_have_jitter_of_one_half(
    clock: FakeClock, random: Longest | Shortest, share: float
) -> None:
    backoffs = Backoffs(clock, random)
    for seconds in (0.5, 1, 2, 4, 8, 16, LONGEST, LONGEST):
        backoffs.begin("v")
        clock.advance(seconds * share - 0.01)
        assert not backoffs.is_over("v")
        clock.advance(0.01)
        assert backoffs.is_over("v"), "at its end, not after it"


@pytest.mark.parametrize("how", ["end", "forget"])
def test_pauses_are_short_again_after_progress_or_the_end_of_the_comeback(
    clock: FakeClock, backoffs: Backoffs, how: str
) -> None:
    for _ in range(5):
        backoffs.begin("v")
    assert backoffs.should_report("v", "No.")
    backoffs.end("v") if how == "end" else backoffs.forget_all_but(frozenset({"w"}))
    assert backoffs.is_over("v")
    assert backoffs.should_report("v", "No."), "what was said is forgotten, too"
    backoffs.begin("v")
    clock.advance(0.5)
    assert backoffs.is_over("v")


def test_a_comeback_that_is_still_known_keeps_pausing(backoffs: Backoffs) -> None:
    backoffs.begin("v")
    backoffs.forget_all_but(frozenset({"v"}))
    assert not backoffs.is_over("v")
    backoffs.end("unknown")


@pytest.mark.parametrize(
    ("messages", "waits", "reported"),
    [
        (["a", "a"], [REPEATED_AFTER - 1], [True, False]),
        (["a", "a"], [REPEATED_AFTER], [True, True]),
        (["a", "b"], [REWORDED_AFTER - 1], [True, False]),
        (["a", "b"], [REWORDED_AFTER], [True, True]),
        (["a", "b", "b"], [REWORDED_AFTER, REWORDED_AFTER], [True, True, False]),
        (["a", "b", "a"], [REWORDED_AFTER, REWORDED_AFTER], [True, True, True]),
        (["a", "b", "b"], [REWORDED_AFTER - 1, 1], [True, False, True]),
        (["a", "a", "a"], [REPEATED_AFTER - 1, 1], [True, False, True]),
        (["", ""], [1], [True, False]),
    ],
    ids=[
        "the same too soon",
        "the same after long",
        "other words too soon",
        "other words",
        "the new words too soon",
        "the old words again",
        "what was not said does not count as said",
        "silence does not prolong the wait",
        "an empty message is one",
    ],
)
def test_an_explanation_is_reported_when_it_is_new_and_rarely_repeated(
    clock: FakeClock, backoffs: Backoffs, messages: list[str], waits: list[float], reported: list[bool]
) -> None:
    answers = []
    for message, wait in zip(messages, [*waits, 0.0], strict=True):
        answers.append(backoffs.should_report("v", message))
        clock.advance(wait)
    assert answers == reported
