"""Unhealthy and back: the rule, as a pure state."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.nvml import xids
from deviceplugin.nvml.health import Answered, Failed, Happened, HealthState, Observation, Scope
from deviceplugin.nvml.port import EventKind, GpuEvent

A, B = "GPU-a", "GPU-b"


def xid(
    number: int, *, gpu: str = A, at: float = 0.0, gi: int | None = None, ci: int | None = None
) -> Happened:
    return Happened(GpuEvent(gpu, EventKind.XID, number, gi, ci), at)


def after(*seen: Observation) -> HealthState:
    state = HealthState()
    for one in seen:
        state = state.apply(one)
    return state


def test_a_gpu_of_which_nothing_is_known_is_healthy() -> None:
    assert HealthState().reason(Scope(A)) is None


def test_a_critical_xid_makes_its_gpu_unhealthy_and_no_other() -> None:
    state = after(xid(79))
    assert state.reason(Scope(A)) == "XID 79: GPU has fallen off the bus"
    assert state.reason(Scope(B)) is None


def test_an_xid_of_a_program_changes_nothing() -> None:
    assert after(xid(13), xid(31)) == HealthState()


def test_a_critical_xid_of_the_gpu_concerns_all_its_mig_devices() -> None:
    state = after(xid(79))
    assert state.reason(Scope(A, 1, 0)) == state.reason(Scope(A, 2, 0)) == state.reason(Scope(A))


def test_a_critical_xid_of_an_instance_concerns_that_instance_alone() -> None:
    state = after(xid(95, gi=1))
    assert state.reason(Scope(A, 1, 0)) is not None
    assert state.reason(Scope(A, 1, 1)) is not None
    assert state.reason(Scope(A, 2, 0)) is None
    assert state.reason(Scope(A)) is None


def test_instances_are_compared_each_for_itself() -> None:
    state = after(xid(95, gi=1, ci=1))
    assert state.reason(Scope(A, 1, 1)) is not None
    assert state.reason(Scope(A, 1, 0)) is None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (EventKind.DOUBLE_BIT_ECC, "Uncorrectable memory error"),
        (EventKind.UNAVAILABLE, "The driver calls the GPU unavailable"),
    ],
)
def test_other_critical_events_are_told_by_name(kind: EventKind, reason: str) -> None:
    assert after(Happened(GpuEvent(A, kind, 0), 0.0)).reason(Scope(A)) == reason


def test_it_is_healthy_again_after_a_quiet_minute_and_an_answer() -> None:
    state = after(xid(48, at=100.0))
    assert state.apply(Answered(A, 0, 159.0)).reason(Scope(A)) is not None
    assert state.apply(Answered(A, 0, 160.0)).reason(Scope(A)) is None


def test_another_critical_xid_begins_the_quiet_minute_anew() -> None:
    state = after(xid(48, at=100.0), xid(48, at=150.0), Answered(A, 0, 200.0))
    assert state.reason(Scope(A)) is not None
    assert state.apply(Answered(A, 0, 210.0)).reason(Scope(A)) is None


def test_quiet_alone_does_not_heal() -> None:
    state = after(xid(48, at=0.0), Answered(B, 0, 1000.0))
    assert state.reason(Scope(A)) is not None


def test_a_wanted_reset_keeps_it_unhealthy_however_long_it_was_quiet() -> None:
    state = after(xid(48, at=0.0), Answered(A, 1, 1000.0))
    assert state.reason(Scope(A)) is not None
    assert state.apply(Answered(A, 0, 1001.0)).reason(Scope(A)) is None


def test_a_wanted_reset_makes_it_unhealthy_without_any_event() -> None:
    assert after(Answered(A, 2, 0.0)).reason(Scope(A)) == "The driver asks for a reboot of the node"


def test_a_lost_gpu_is_unhealthy_until_it_answers() -> None:
    state = after(Failed(A, "the GPU is lost"))
    assert state.reason(Scope(A)) == "the GPU is lost"
    assert state.reason(Scope(A, 1, 0)) == "the GPU is lost"
    assert state.apply(Answered(A, 0, 0.0)) == HealthState()


def test_a_lost_gpu_with_an_xid_waits_for_the_quiet_minute_too() -> None:
    state = after(xid(79, at=0.0), Failed(A, "the GPU is lost"), Answered(A, 0, 10.0))
    assert state.reason(Scope(A)) == "XID 79: GPU has fallen off the bus"
    assert state.apply(Answered(A, 0, 60.0)) == HealthState()


seen_something = st.one_of(
    st.builds(
        lambda number, gpu, at, gi: xid(number, gpu=gpu, at=at, gi=gi),
        st.sampled_from([13, 48, 79, 95, 154]),
        st.sampled_from([A, B]),
        st.floats(0, 1000),
        st.none() | st.integers(0, 2),
    ),
    st.builds(Failed, st.sampled_from([A, B]), st.just("the GPU is lost")),
    st.builds(Answered, st.sampled_from([A, B]), st.integers(0, 5), st.floats(0, 1000)),
)


@given(st.lists(seen_something))
def test_whatever_has_happened_a_quiet_answer_without_a_wish_heals(history: list[Observation]) -> None:
    state = after(*history, Answered(A, 0, 2000.0))
    assert state.reason(Scope(A)) is None
    assert state.reason(Scope(A, 1, 0)) is None


@given(st.lists(seen_something), st.sampled_from([A, B]))
def test_whatever_has_happened_a_critical_xid_makes_unhealthy(history: list[Observation], gpu: str) -> None:
    assert xids.is_critical(79)
    assert after(*history, xid(79, gpu=gpu)).reason(Scope(gpu)) is not None


@given(st.lists(seen_something))
def test_what_happens_to_one_gpu_never_concerns_another(history: list[Observation]) -> None:
    others = [one for one in history if (one.event.gpu if isinstance(one, Happened) else one.gpu) != A]
    assert after(*history).reason(Scope(B)) == after(*others).reason(Scope(B))
