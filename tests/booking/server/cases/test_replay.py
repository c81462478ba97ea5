"""Each case is judged as the booking server would judge the request."""

from datetime import timedelta, timezone
from typing import Any

import pytest

from booking.durations import Duration
from booking.policy.policy import Policy
from booking.policy.resolution import Group, Scope
from booking.server.cases.file import CaseFile, CaseFileError, CaseRequest, Exempted, Maintained, OneCase
from booking.server.cases.replay import replay
from tests.booking.server.cases.asking import ONE_MODEL, booked, broken, outcome
from tests.fakes.records import day

TWO_MODELS = {"A100": {"n0": 2}, "L40": {"n0": 1, "n1": 1}}


def a_policy(**defaults: Any) -> Policy:
    return Policy(defaults=defaults)


# --- what is booked already ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bookings", "count", "rules"),
    [
        ((booked("bob", -1, 5, count=2),), 2, set()),
        ((booked("bob", -1, 5), booked("carol", -1, 5)), 2, set()),
        ((booked("bob", -1, 5, count=2), booked("carol", -1, 5)), 2, {"capacity"}),
        ((booked("bob", -1, 5, count=2), booked("carol", -1, 0)), 2, set()),
        ((booked("bob", -1, 5, count=2), booked("carol", 2, 5)), 2, set()),
        ((booked("bob", -1, 5, count=2), booked("carol", 1.9, 5)), 2, {"capacity"}),
        ((booked("bob", -1, 5, count=2), booked("carol", -1, 5, cancelled=day(-2))), 2, set()),
        ((booked("bob", -1, 5, count=2), booked("carol", -1, 5, released=day(-0.5))), 2, set()),
        ((booked("bob", -1, 5, count=4, topology="any"),), 1, {"capacity"}),
    ],
)
def test_bookings_of_others_count_only_for_their_gpus_while_they_last(
    bookings: tuple[Any, ...], count: int, rules: set[str]
) -> None:
    assert broken(history=bookings, count=count) == rules


@pytest.mark.parametrize("ids", [("mine", "mine"), ("b-2", ""), ("", "b-1")])
def test_two_bookings_with_the_same_id_are_refused_since_a_change_could_mean_either(
    ids: tuple[str, str],
) -> None:
    history = tuple(booked("bob", -1, 5, id=each) for each in ids)
    with pytest.raises(CaseFileError, match=r"booking 2 has the id '\S+' of one before it"):
        broken(history=history)


# --- whose limits ----------------------------------------------------------------------------------------
TIERED = Policy(
    defaults={"longest": Duration(3)},
    pools={"L40": {"longest": Duration(4)}},
    groups=(
        Group(
            name="staff",
            scope=Scope(values={"longest": Duration(5)}, pools={"L40": {"longest": Duration(6)}}),
        ),
        Group(name="guests", members=frozenset({"gus"}), scope=Scope(values={"longest": Duration(2)})),
    ),
    users={"rita": Scope(values={"longest": Duration(7)})},
)


@pytest.mark.parametrize(
    ("who", "model", "days"),
    [
        ({"user": "alice"}, "A100", 3),
        ({"user": "alice"}, "L40", 4),
        ({"user": "alice", "groups": ("staff",)}, "A100", 5),
        ({"user": "alice", "groups": ("staff",)}, "L40", 6),
        ({"user": "alice", "groups": ("strangers",)}, "A100", 3),
        ({"user": "gus"}, "L40", 2),
        ({"user": "gus", "groups": ("staff",)}, "A100", 5),
        ({"user": "rita", "groups": ("guests",)}, "L40", 7),
        ({"user": "alice", "exemptions": (Exempted(limits={"longest": "8d"}),)}, "L40", 8),
        ({"user": "alice", "exemptions": (Exempted(limits={"longest": "8d"}, model="L40"),)}, "L40", 8),
        ({"user": "alice", "exemptions": (Exempted(limits={"longest": "8d"}, model="L40"),)}, "A100", 3),
        ({"user": "rita", "exemptions": (Exempted(limits={"longest": "1d"}),)}, "A100", 1),
    ],
)
def test_the_narrowest_scope_of_the_case_s_user_and_model_counts(
    who: dict[str, Any], model: str, days: int
) -> None:
    case = {"capacity": TWO_MODELS, "model": model, **who}
    assert broken(TIERED, duration=f"{days}d", **case) == set()
    assert broken(TIERED, duration=f"{days}d1s", **case) == {"longest"}


def test_the_days_of_a_duration_are_days_of_the_sites_zone() -> None:
    """On 2026-03-29 the clocks of Stockholm are turned forward: that day has 23 hours."""
    one_day = {"shortest": Duration(1), "longest": Duration(1)}
    spring = day(26) + timedelta(hours=11)
    case = {"now": spring, "start": spring, "end": spring + timedelta(hours=23)}
    assert broken(Policy(zone="Europe/Stockholm", defaults=one_day), **case) == set()
    assert broken(Policy(defaults=one_day), **case) == {"shortest"}
    del case["end"]
    assert broken(Policy(zone="Europe/Stockholm", defaults=one_day), **case, duration="1d") == set()
    assert broken(Policy(zone="Europe/Stockholm", defaults=one_day), **case, duration="24h") == {"longest"}


# --- the answer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [-11, 0, 5.5])
def test_an_instant_is_the_same_in_every_zone_and_counts_to_the_second(hours: float) -> None:
    now = (day(0) + timedelta(microseconds=999_999)).astimezone(timezone(timedelta(hours=hours)))
    assert broken(now=now, end=day(1)) == set()
    assert broken(now=now, end=day(1) - timedelta(seconds=1)) == {"shortest"}


@pytest.mark.parametrize(
    ("expect", "duration", "differs"),
    [
        ((), "2d", None),
        (("longest",), "20d", None),
        (("longest", "longest"), "20d", None),
        ((), "20d", "It should be accepted, and it is refused by longest."),
        (
            ("cooldown", "longest"),
            "20d",
            "It should be refused by cooldown, longest, and it is refused by longest.",
        ),
        (("capacity",), "2d", "It should be refused by capacity, and it is accepted."),
    ],
)
def test_an_answer_is_compared_with_the_expected_rules_in_any_order(
    expect: tuple[str, ...], duration: str, differs: str | None
) -> None:
    assert outcome(expect=expect, duration=duration).differs == differs


def test_a_missing_earliest_start_is_reported_as_never() -> None:
    found = outcome(a_policy(max_gpus_per_booking=0), expect=("too-many-gpus",), earliest_start=day(1))
    assert found.differs == "The earliest start should be 2026-03-03 09:00 UTC, and it is never."


def test_the_earliest_start_is_compared_only_where_the_rules_agree() -> None:
    found = outcome(expect=("longest",), earliest_start=day(1))
    assert found.differs == "It should be refused by longest, and it is accepted."


def test_every_case_has_its_own_outcome_in_order_and_none_changes_the_next() -> None:
    """Both ask for all GPUs at the same time: a case is a question and books nothing."""
    request = CaseRequest(duration="2d", count=4, topology="any")
    cases = tuple(OneCase(name=name, now=day(0), user="alice", request=request) for name in ("one", "two"))
    found = replay(CaseFile(capacity=ONE_MODEL, cases=cases), Policy())
    assert [(each.name, each.broken) for each in found] == [("one", ()), ("two", ())]


def test_history_and_maintenance_of_one_case_are_gone_in_the_next() -> None:
    request = CaseRequest(duration="2d", count=4, topology="any")
    busy = OneCase(
        name="busy",
        now=day(0),
        user="alice",
        request=request,
        history=(booked("bob", -1, 5),),
        maintenance=(Maintained(node="n1", start=day(0), end=day(1)),),
    )
    calm = OneCase(name="calm", now=day(0), user="alice", request=request)
    found = replay(CaseFile(capacity=ONE_MODEL, cases=(busy, calm)), Policy())
    assert [each.broken for each in found] == [("capacity",), ()]


def test_a_cancelled_booking_needs_no_place() -> None:
    cancelled = booked("bob", -1, 5, cancelled=day(-0.5))
    assert (
        broken(history=(booked("bob", -1, 1), cancelled), capacity={"A100": {"n0": 1}}, start=day(1)) == set()
    )


def test_two_gpus_booked_already_are_on_one_node_unless_the_file_says_any() -> None:
    apart = {"A100": {"n0": 1, "n1": 1}}
    with pytest.raises(CaseFileError, match="does not fit"):
        outcome(history=(booked("bob", -1, 5, count=2),), capacity=apart)
    spread = booked("bob", -1, 5, count=2, topology="any")
    assert broken(history=(spread,), capacity=apart) == {"capacity"}


@pytest.mark.parametrize(
    ("memory", "rules"), [(40, set()), (41, {"capacity"}), (81, {"more-memory-than-a-gpu-has"})]
)
def test_shares_are_judged_beside_those_that_are_booked(memory: int, rules: set[str]) -> None:
    history = (booked("bob", 0, 3, memory=40), booked("carol", 0, 3, count=3, topology="any"))
    shared = {"history": history, "offered": {"A100": 80}, "memory": memory}
    assert broken(**shared) == rules


def test_a_limit_on_gpus_counts_shares_as_parts() -> None:
    policy = a_policy(max_concurrent_gpus=1, max_planned=9, cooldown=Duration())
    history = tuple(booked("alice", 3, 9, memory=40) for _ in range(2))
    span = {"history": history, "offered": {"A100": 80}, "start": day(5), "duration": "1d"}
    assert broken(policy, **span, memory=1) == {"too-many-gpus-at-a-time"}
    assert broken(policy, **span | {"start": day(9)}, memory=80) == set()
