import threading
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster import names
from cluster.fake.clock import START, FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError, Conflict, NotFound, Unreachable
from cluster.kube.leader_election import LeaderElectionTiming, LeaderElector
from cluster.kube.resources import LEASES
from cluster.objects.nodes import Lease

NAME = names.CONTROLLER_LEASE


class World:
    """One Lease and the candidates for it, all on one monotonic clock."""

    def __init__(self) -> None:
        self.clock = FakeClock(self_advancing=True)
        self.kube = FakeKube(self.clock)

    def candidate(
        self, holder: str, clock: FakeClock | None = None, instance: str | None = None
    ) -> LeaderElector:
        return LeaderElector(self.kube, clock or self.clock, name=NAME, holder=holder, instance=instance)

    @property
    def lease(self) -> Lease:
        return self.kube.get(LEASES, NAME, namespace=names.NAMESPACE)

    def touch(self) -> None:
        """Somebody writes to the Lease."""
        patch = {"metadata": {"annotations": {"x": str(self.clock.monotonic())}}}
        self.kube.patch(LEASES, NAME, patch, namespace=names.NAMESPACE)


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_candidate_leads(world: World) -> None:
    first = world.candidate("a")
    assert not first.leads()
    assert first.attempt()
    spec = world.lease.spec
    assert (spec.holder_identity, spec.lease_duration_seconds, spec.lease_transitions) == ("a", 15, 0)
    assert spec.acquire_time == spec.renew_time == START


def test_a_renewal_is_one_request_and_changes_the_time_alone(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    calls_before = len(world.kube.calls)
    world.clock.advance(2)
    assert first.attempt()
    assert len(world.kube.calls) == calls_before + 1
    assert world.lease.spec.renew_time == START + timedelta(seconds=2)
    assert world.lease.spec.acquire_time == START


def test_law_l6_a_leader_that_cannot_renew_stops_leading_by_itself(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    world.kube.down = True
    world.clock.advance(9.9)
    with pytest.raises(Unreachable):
        first.attempt()
    assert first.leads()
    world.clock.advance(0.1)
    assert not first.leads()
    world.kube.down = False
    assert first.attempt()


def test_a_renewal_counts_from_when_it_was_sent(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    world.clock.advance(2)
    world.kube.before("PATCH", lambda: world.clock.advance(9))
    assert first.attempt()
    world.clock.advance(1)
    assert not first.leads()


def test_law_l6_a_follower_waits_until_it_has_seen_the_lease_unchanged_for_its_duration(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    world.clock.advance(1000)
    for _ in range(7):
        assert not second.attempt()
        world.clock.advance(2)
    assert not second.attempt()
    world.clock.advance(1)
    assert second.attempt()
    assert (world.lease.spec.holder_identity, world.lease.spec.lease_transitions) == ("b", 1)
    assert not first.leads()


def test_any_change_of_the_lease_restarts_the_wait(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    second.attempt()
    world.clock.advance(14)
    world.touch()
    second.attempt()
    world.clock.advance(14)
    assert not second.attempt()
    world.clock.advance(1)
    assert second.attempt()


def test_law_l6_clocks_that_differ_by_years_do_no_harm(world: World) -> None:
    ahead = FakeClock(START + timedelta(days=4000), self_advancing=True)
    behind = FakeClock(START - timedelta(days=4000), self_advancing=True)
    first, second, third = world.candidate("a"), world.candidate("b", ahead), world.candidate("c", behind)
    first.attempt()
    assert not second.attempt()
    assert not third.attempt()
    behind.advance(15)
    assert third.attempt()
    ahead.advance(14)
    assert not second.attempt()


def test_a_leader_that_finds_the_lease_taken_stops_leading_and_does_not_take_it_back(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    second.attempt()
    world.clock.advance(15)
    assert second.attempt()
    with pytest.raises(Conflict):
        first.attempt()
    assert not first.attempt()
    assert second.attempt()


def test_one_of_two_candidates_that_take_the_lease_at_once_leads(world: World) -> None:
    old, first, second = (world.candidate(holder) for holder in "oab")
    old.attempt()
    first.attempt()
    second.attempt()
    world.clock.advance(15)
    world.kube.before("PATCH", first.attempt)
    with pytest.raises(Conflict):
        second.attempt()
    assert first.leads()
    assert not second.attempt()


def test_one_of_two_candidates_that_create_the_lease_at_once_leads(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    world.kube.before("POST", first.attempt)
    with pytest.raises(Conflict):
        second.attempt()
    assert first.leads()
    assert not second.attempt()


def test_somebody_elses_write_to_the_lease_costs_one_attempt(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    world.touch()
    with pytest.raises(Conflict):
        first.attempt()
    assert first.leads()
    assert first.attempt()


def test_a_deleted_lease_is_created_again(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    world.kube.finish(LEASES, NAME, namespace=names.NAMESPACE)
    with pytest.raises(NotFound):
        first.attempt()
    assert first.attempt()


def test_a_candidate_recognises_its_own_lease_after_a_lost_answer(world: World) -> None:
    first = world.candidate("a")
    world.kube.lose("POST")
    with pytest.raises(Unreachable):
        first.attempt()
    assert not first.leads()
    assert first.attempt()


def test_another_process_of_the_same_name_is_another_candidate(world: World) -> None:
    world.candidate("a").attempt()
    world.clock.advance(1)
    again = world.candidate("a")
    assert not again.attempt()
    world.clock.advance(15)
    assert again.attempt()


def test_a_process_that_starts_in_the_place_of_a_killed_leader_leads_at_once(world: World) -> None:
    world.candidate("pod-1_a", instance="pod-1").attempt()
    assert not world.candidate("pod-2_b", instance="pod-2").attempt()
    assert world.candidate("pod-1_c", instance="pod-1").attempt()
    assert world.lease.spec.holder_identity == "pod-1_c"


@pytest.mark.parametrize("instance", [None, "pod", "pod-1_a"])
def test_a_holder_whose_name_only_begins_alike_is_no_predecessor(world: World, instance: str | None) -> None:
    world.candidate("pod-1_a", instance="pod-1").attempt()
    assert not world.candidate(f"{instance}_b", instance=instance).attempt()


def test_law_l6_neither_of_two_processes_in_one_place_takes_the_lease_back(world: World) -> None:
    """An instance should have one process only: one that has led before waits like any other."""
    first, second = (world.candidate(f"pod-1_{one}", instance="pod-1") for one in "ab")
    assert first.attempt()
    assert second.attempt()
    with suppress(Conflict):
        first.attempt()
    assert not first.attempt()
    assert second.attempt()


def test_a_released_lease_is_taken_at_once(world: World) -> None:
    first, second = world.candidate("a"), world.candidate("b")
    first.attempt()
    second.attempt()
    first.release()
    assert not first.leads()
    assert world.lease.spec.holder_identity == ""
    assert second.attempt()
    assert world.lease.spec.lease_transitions == 1
    assert not first.attempt()
    first.release()
    assert world.lease.spec.holder_identity == "b"


def test_a_follower_releases_nothing(world: World) -> None:
    world.candidate("a").attempt()
    second = world.candidate("b")
    second.attempt()
    second.release()
    assert world.lease.spec.holder_identity == "a"


def test_releasing_while_the_api_server_is_away_is_no_error(world: World) -> None:
    first = world.candidate("a")
    first.attempt()
    world.kube.down = True
    first.release()
    assert not first.leads()


def test_times_that_would_let_two_lead_are_refused() -> None:
    with pytest.raises(ValueError, match="retry < renew deadline < duration"):
        LeaderElectionTiming(duration=10, renew_deadline=10)


def test_the_thread_takes_renews_and_releases_the_lease() -> None:
    clock, stop = FakeClock(), threading.Event()
    kube = FakeKube(clock)
    elector = LeaderElector(kube, clock, name=NAME, holder="a")
    thread = threading.Thread(target=elector.run, args=(stop,))
    thread.start()
    clock.until_waiting()
    assert elector.leads()
    for _ in range(10):
        clock.advance(2.4)
        clock.until_waiting()
    assert elector.leads()
    assert all(2 <= wait <= 2.4 for wait in clock.waits)
    stop.set()
    thread.join(10)
    assert not thread.is_alive()
    assert kube.get(LEASES, NAME, namespace=names.NAMESPACE).spec.holder_identity == ""


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.floats(0, 12),
            st.sampled_from(["attempt", "attempt", "attempt", "lost", "touch", "release"]),
        ),
        max_size=60,
    )
)
@settings(max_examples=200)
def test_law_l6_two_candidates_never_lead_at_once(history: list[tuple[str, float, str]]) -> None:
    world = World()
    candidates = {holder: world.candidate(holder) for holder in "abc"}
    for holder, pause, what in history:
        world.clock.advance(pause)
        if what == "touch":
            with suppress(ApiError):
                world.touch()
        elif what == "release":
            candidates[holder].release()
            candidates[holder] = world.candidate(holder)
        else:
            if what == "lost":
                world.kube.lose("PATCH")
            with suppress(ApiError):
                candidates[holder].attempt()
        assert sum(candidate.leads() for candidate in candidates.values()) <= 1


class Health:
    """Whether a candidate may lead."""

    def __init__(self) -> None:
        self.problem: str | None = None

    def __call__(self) -> str | None:
        return self.problem


@pytest.fixture
def health() -> Health:
    return Health()


def unsteady(world: World, health: Health) -> LeaderElector:
    return LeaderElector(world.kube, world.clock, name=NAME, holder="a", unfit=health)


def test_law_l6_a_leader_whose_clock_is_wrong_leaves_the_lease_to_another(
    world: World, health: Health
) -> None:
    first, second = unsteady(world, health), world.candidate("b")
    first.attempt()
    assert not second.attempt()
    health.problem = "The clock is wrong."
    assert not first.attempt()
    assert second.attempt()
    assert not first.attempt()
    assert world.lease.spec.holder_identity == "b"


def test_an_unfit_candidate_does_not_take_a_free_lease(world: World, health: Health) -> None:
    health.problem = "The clock is wrong."
    assert not unsteady(world, health).attempt()
    with pytest.raises(NotFound):
        _ = world.lease


def test_a_leader_that_is_fit_again_leads_again_where_no_other_did(world: World, health: Health) -> None:
    first = unsteady(world, health)
    first.attempt()
    health.problem = "The clock is wrong."
    first.attempt()
    health.problem = None
    assert first.attempt()
    assert world.lease.spec.lease_transitions == 1


def test_an_unfit_leader_stops_leading_even_while_the_api_server_is_away(
    world: World, health: Health
) -> None:
    first = unsteady(world, health)
    first.attempt()
    health.problem = "The clock is wrong."
    world.kube.down = True
    with pytest.raises(Unreachable):
        first.attempt()
    assert not first.leads()
    world.kube.down = False
    health.problem = None
    assert first.attempt()


def test_an_unfit_candidate_keeps_asking_since_answers_show_whether_its_clock_is_right(
    world: World, health: Health
) -> None:
    first = unsteady(world, health)
    health.problem = "The clock is wrong."
    before = len(world.kube.calls)
    first.attempt()
    assert [call.verb for call in world.kube.calls[before:]] == ["GET"]
