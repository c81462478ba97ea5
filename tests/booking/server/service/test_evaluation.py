"""What a request is judged by: whose limits, which devices, which guard; and what a refusal reports."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.policy.policy import Policy
from booking.policy.resolution import Group, Scope
from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError, StoreError, StoreGoneError, UnknownBookingError
from booking.server.evaluation.alternatives import Alternative
from booking.server.evaluation.evaluate import Decision
from booking.server.records import Place, Record, Violation
from booking.server.service.context import ServiceContext, random_id, refused
from booking.server.service.current_policy import CurrentPolicy
from booking.server.service.evaluation import EvaluationContext, granted, move_others, refusal
from booking.server.store import Reading, Store
from booking.server.store_records import Block, Exemption, Guard
from cluster.fake.clock import START, FakeClock
from tests.fakes.objects import A100, A6000
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER, a_record, a_request, day

ALICE, ROOT = somebody("alice"), an_administrator()


def context(
    store: Store, policy: Policy | Limits | None = None, capacity: Callable[[], Capacity] = lambda: CLUSTER
) -> ServiceContext:
    by = policy if isinstance(policy, Limits) else (lambda: policy or Policy())
    return ServiceContext(store, FakeClock(), CurrentPolicy(by), capacity, new_id=random_id)


def days_allowed(
    store: Store, policy: Policy, who: Principal, user: str, *, model: str = A100, at: float = 0
) -> str:
    """The longest booking that may be asked for."""
    evaluation = EvaluationContext.of(context(store, policy), who, user)
    longest = store.read(lambda reading: evaluation.limits_for(reading, day(at))(model).longest)
    return str(longest.nominal.days)


# --- whose limits ------------------------------------------------------------------------------------

LISTED = Policy(
    groups=(
        Group(
            name="thesis", members=frozenset({"carol"}), scope=Scope(values={"longest": Duration(days=30)})
        ),
    ),
    users={"dora": Scope(values={"longest": Duration(days=60)})},
    pools={A6000: {"longest": Duration(days=7)}},
)
STUDENT = somebody("alice", "thesis")
HEAD = Principal(user="root", name="root", groups=frozenset({"thesis"}), is_administrator=True)


@pytest.mark.parametrize(
    ("who", "user", "days"),
    [
        (ALICE, "alice", "14"),
        (STUDENT, "alice", "30"),
        (HEAD, "root", "30"),
        (HEAD, "alice", "14"),
        (ROOT, "carol", "30"),
        (HEAD, "dora", "60"),
    ],
    ids=[
        "nobody special",
        "a member",
        "an administrator's own groups",
        "not those of others",
        "listed",
        "named",
    ],
)
def test_the_owners_limits_apply_and_sign_in_groups_count_only_for_ones_own_bookings(
    store: Store, who: Principal, user: str, days: str
) -> None:
    assert days_allowed(store, LISTED, who, user) == days


@pytest.mark.parametrize(
    ("user", "at", "days"),
    [
        ("alice", 1 - 1e-5, "14"),
        ("alice", 1, "21"),
        ("alice", 2.99, "21"),
        ("alice", 3, "14"),
        ("bob", 2, "14"),
    ],
    ids=["just before it", "from its start", "up to its end", "from its end on", "another user"],
)
def test_an_exemption_counts_at_the_instant_of_the_decision(
    store: Store, user: str, at: float, days: str
) -> None:
    exemption = Exemption(
        id="e-1",
        user="alice",
        limits={"longest": "P21D"},
        start=day(1),
        end=day(3),
        reason="thesis",
        created_by="root",
        created=day(0),
    )
    store.write(lambda writing: writing.exemption_add(exemption))
    assert days_allowed(store, Policy(), ROOT, user, at=at) == days


# --- which devices -----------------------------------------------------------------------------------


def judged(store: Store, here: ServiceContext, count: int, changing: Record | None = None) -> Decision:
    evaluation = EvaluationContext.of(here, somebody("zoe"), "zoe")
    request = a_request(day(1), count=count, topology="any")
    return store.read(lambda reading: evaluation.judged(reading, START, request, changing=changing))


def test_a_given_capacity_is_not_read_again(store: Store) -> None:
    def unknown() -> Capacity:
        raise ConnectionError

    here = context(store, capacity=unknown)
    assert EvaluationContext.of(here, ALICE, "alice", CLUSTER).capacity is CLUSTER
    with pytest.raises(ConnectionError):
        EvaluationContext.of(here, ALICE, "alice")


def test_the_policy_is_the_one_in_force_when_the_context_was_made(store: Store) -> None:
    there = [Policy(), Policy(defaults={"longest": Duration(days=3)})]
    here = ServiceContext(store, FakeClock(), CurrentPolicy(lambda: there[0]), lambda: CLUSTER, random_id)
    evaluation = EvaluationContext.of(here, ALICE, "alice")
    old = there.pop(0)
    assert (evaluation.policy, evaluation.version) == (old, old.version)
    assert EvaluationContext.of(here, ALICE, "alice").version == there[0].version != old.version


# --- what the database guards ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "model", "guard"),
    [
        (Limits(), A100, Guard(since=START, devices=6, live=1)),
        (Limits(), A6000, Guard(since=START, devices=2, live=1)),
        (Limits(), "H100", Guard(since=START, devices=0, live=1)),
        (Limits(max_active=2, max_planned=3), A100, Guard(since=START, devices=6, live=4)),
        (Limits(scope="model"), A100, Guard(since=START, devices=6, live=None)),
        (Limits(buffer=2), A100, Guard(since=START, devices=6, live=1)),
    ],
    ids=["the manual", "another model", "no model", "several bookings", "models apart", "a buffer"],
)
def test_the_guard_is_an_upper_bound_of_what_the_rules_allow(
    store: Store, limits: Limits, model: str, guard: Guard
) -> None:
    evaluation = EvaluationContext.of(context(store, limits), ALICE, "alice")
    request, now = a_request(day(1), model=model), START + timedelta(milliseconds=900)
    _, found = store.read(lambda reading: evaluation.decided(reading, now, request))
    assert found == guard


def test_maintenance_does_not_lower_the_guard(store: Store) -> None:
    """What stays booked in spite of it, by an earlier guarantee, must be writable."""
    block = Block(
        id="k", node="n0", start=day(0), end=day(9), reason="fan", created_by="root", created=day(0)
    )
    store.write(lambda writing: writing.block_add(block))
    evaluation = EvaluationContext.of(context(store), ALICE, "alice")
    decision, guard = store.read(
        lambda reading: evaluation.decided(reading, START, a_request(day(1), count=2))
    )
    assert (decision.plan, guard.devices) == ((Place("n1", 2),), 6)


@pytest.mark.parametrize("count", [1, 6, 7])
def test_a_decision_for_a_write_is_the_same_judgement_without_alternatives(store: Store, count: int) -> None:
    evaluation = EvaluationContext.of(context(store), ALICE, "alice")
    request = a_request(day(1), day(20), count=count, topology="any")
    with store.reading() as reading:
        judged_as = evaluation.judged(reading, START, request)
        decided, _ = evaluation.decided(reading, START, request)
    assert decided.violations == judged_as.violations
    assert (decided.start, decided.end, decided.plan) == (judged_as.start, judged_as.end, judged_as.plan)
    assert judged_as.alternatives
    assert (decided.alternatives, decided.is_searched) == ((), False)


@pytest.mark.parametrize("deadline", [3.5, 5])
def test_alternatives_of_a_judgement_end_by_the_deadline(store: Store, deadline: float) -> None:
    evaluation = EvaluationContext.of(context(store), ALICE, "alice")
    request = a_request(day(1), day(20))
    found = store.read(lambda reading: evaluation.judged(reading, START, request, deadline=day(deadline)))
    assert found.alternatives
    assert all(each.end <= day(deadline) for each in found.alternatives)


# --- bookings that move for it -----------------------------------------------------------------------


def test_only_the_bookings_that_move_get_new_places(store: Store) -> None:
    stored = store.write(
        lambda writing: [
            writing.add(a_record(id=f"b-{number}", user=f"u{number}", plan=(Place("n0", 1),)))
            for number in range(3)
        ]
    )
    decision = Decision(
        model=A100,
        count=1,
        topology="any",
        namespace=None,
        start=day(0),
        end=day(1),
        moved={"b-2": (Place("n1", 1),), "b-0": ()},
    )
    store.write(lambda writing: move_others(writing, decision))
    with store.reading() as reading:
        now = {each.id: each for each in reading.changed_after(0)}
    assert {name: each.plan for name, each in now.items()} == {
        "b-0": (),
        "b-1": (Place("n0", 1),),
        "b-2": (Place("n1", 1),),
    }
    # In the order of their ids: the same decision gives the same changes.
    assert [now[f"b-{number}"].change for number in range(3)] == [4, stored[1].change, 5]
    assert [now[each.id].version for each in stored] == [each.version for each in stored]


# --- what a refusal reports --------------------------------------------------------------------------

TOO_LONG = Violation(rule="longest", message="It is too long.")
OFFER = Alternative(why="shorter", model=A100, count=1, topology="any", start=day(1), end=day(2))


def refused_decision(*alternatives: Alternative) -> Decision:
    return Decision(
        model=A100,
        count=1,
        topology="any",
        namespace=None,
        start=day(1),
        end=day(20),
        violations=(TOO_LONG,),
        earliest_start=day(3),
        alternatives=alternatives,
    )


def test_a_refusal_has_the_violations_and_the_earliest_start_of_its_decision() -> None:
    error = refusal(refused_decision(OFFER))
    assert (error.violations, error.earliest_start, str(error)) == ((TOO_LONG,), day(3), TOO_LONG.message)
    assert error.alternatives == ()


def test_a_granted_request_is_not_judged_again(store: Store) -> None:
    def again(_: Reading) -> Decision:
        raise AssertionError("it was granted")

    record = a_record()
    assert granted(context(store), record, again) is record


def test_a_refusal_is_raised_with_what_would_be_accepted_now(store: Store) -> None:
    first = RefusedError([TOO_LONG], day(3))
    with pytest.raises(RefusedError) as raised:
        granted(context(store), first, lambda _: refused_decision(OFFER))
    error = raised.value
    assert (error.violations, error.earliest_start, error.alternatives) == ((TOO_LONG,), day(3), (OFFER,))


@pytest.mark.parametrize(
    "trouble",
    [
        StoreError("The disk is full."),
        StoreGoneError("The file is gone."),
        UnknownBookingError("There is no booking."),
        refused("over", "It is over by now."),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_refusal_stays_the_same_when_the_search_for_alternatives_fails(
    store: Store, trouble: Exception
) -> None:
    def again(_: Reading) -> Decision:
        raise trouble

    with pytest.raises(RefusedError) as raised:
        granted(context(store), RefusedError([TOO_LONG], day(3)), again)
    error = raised.value
    assert (error.violations, error.earliest_start, error.alternatives) == ((TOO_LONG,), day(3), ())


def test_an_error_of_ours_is_not_hidden_behind_a_refusal(store: Store) -> None:
    def again(_: Reading) -> Decision:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        granted(context(store), RefusedError([TOO_LONG]), again)


def test_alternatives_are_searched_outside_the_writing_transaction(store: Store) -> None:
    def again(_: Reading) -> Decision:
        # Inside a writing transaction it would be refused.
        assert store.write(lambda writing: writing.change()) == 0
        return refused_decision(OFFER)

    with pytest.raises(RefusedError) as raised:
        granted(context(store), RefusedError([TOO_LONG]), again)
    assert raised.value.alternatives == (OFFER,)
