"""Unhealthy and back: the rules one by one. What holds whatever happens: ``test_health_machine``."""

import pynvml
import pytest

from deviceplugin.nvml.health import (
    TABLE,
    EventSeen,
    FaultCleared,
    HealthSignal,
    HealthState,
    Observation,
    ProbeAnswered,
    ProbeFailed,
    Scope,
    State,
)
from deviceplugin.nvml.interface import EventKind, GpuEvent, RemappedRows
from deviceplugin.nvml.xids import XidPolicy

A, B = "GPU-a", "GPU-b"
LOST = "the GPU is lost"
PENDING = RemappedRows(pending=True)


def xid(
    number: int, *, gpu: str = A, at: float = 0.0, gi: int | None = None, ci: int | None = None
) -> EventSeen:
    return EventSeen(GpuEvent(gpu, EventKind.XID, number, gi, ci), at)


def after(*seen: Observation, xid_policy: XidPolicy | None = None) -> HealthState:
    state = HealthState() if xid_policy is None else HealthState(xid_policy=xid_policy)
    for one in seen:
        state = state.apply(one)
    return state


def test_the_table_has_an_entry_for_every_signal_in_every_state() -> None:
    assert {state: set(row) for state, row in TABLE.items()} == {state: set(HealthSignal) for state in State}


def test_an_ignored_xid_changes_nothing_and_an_added_one_counts() -> None:
    xid_policy = XidPolicy(ignored=frozenset({79}), added=frozenset({31}))
    assert after(xid(79), xid_policy=xid_policy).reason(Scope(A)) is None
    assert after(xid(31), xid_policy=xid_policy).reason(Scope(A)) == "XID 31: memory page fault of a program"


def test_a_critical_xid_of_the_gpu_concerns_all_its_mig_devices() -> None:
    state = after(xid(79))
    assert state.reason(Scope(A, 1, 0)) == state.reason(Scope(A, 2, 0)) == state.reason(Scope(A))


def test_a_critical_xid_of_an_instance_concerns_that_instance_alone() -> None:
    state = after(xid(95, gi=1), ProbeAnswered(A, 0, 1.0))
    assert state.state(Scope(A, 1, 0)) is State.UNHEALTHY
    assert state.state(Scope(A, 1, 1)) is State.UNHEALTHY
    assert state.state(Scope(A, 2, 0)) is State.HEALTHY
    assert state.state(Scope(A)) is State.HEALTHY


def test_an_xid_counts_only_where_both_instance_ids_match() -> None:
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
def test_other_critical_events_are_reported_by_name(kind: EventKind, reason: str) -> None:
    assert after(EventSeen(GpuEvent(A, kind, 0), 0.0)).reason(Scope(A)) == reason


def test_a_gpu_recovers_with_the_first_answer_and_is_healthy_after_a_quiet_minute() -> None:
    state = after(xid(48, at=100.0), ProbeAnswered(A, 0, 105.0))
    assert state.state(Scope(A)) is State.RECOVERING
    assert state.reason(Scope(A)) == "XID 48: double-bit memory error; recovering"
    assert state.apply(ProbeAnswered(A, 0, 159.0)).state(Scope(A)) is State.RECOVERING
    assert state.apply(ProbeAnswered(A, 0, 160.0)) == HealthState()


def test_an_xid_that_needs_a_reset_stays_however_long_the_gpu_was_quiet() -> None:
    state = after(xid(79), *(ProbeAnswered(A, 0, 1000.0 * n) for n in range(1, 9)))
    assert state.state(Scope(A)) is State.UNHEALTHY
    assert state.reason(Scope(A)) == "XID 79: GPU has fallen off the bus; it needs a reset"


def test_a_fault_that_needs_a_reset_ends_with_a_driver_restart_and_an_answer() -> None:
    state = after(xid(79)).renewed()
    assert state.state(Scope(A)) is State.SUSPECT
    assert state.apply(ProbeAnswered(A, 0, 1.0)) == HealthState()


def test_only_an_xid_needs_a_reset_whatever_number_another_event_carries() -> None:
    state = after(EventSeen(GpuEvent(A, EventKind.DOUBLE_BIT_ECC, 79), 0.0))
    assert state.latched_faults == {}
    assert after(EventSeen(GpuEvent(A, EventKind.RECOVERY_ACTION, 79), 0.0)) == HealthState()


def test_a_lesser_fault_does_not_hide_that_a_reset_is_needed() -> None:
    state = after(xid(79), xid(48, at=1.0), ProbeAnswered(A, 0, 100.0), ProbeAnswered(A, 0, 200.0))
    assert state.reason(Scope(A)) == "XID 79: GPU has fallen off the bus; it needs a reset"


def test_faults_that_need_a_reset_can_be_passed_to_another_process() -> None:
    state = after(xid(79), xid(95, gi=2), xid(48, gpu=B))
    assert set(state.latched_faults) == {Scope(A), Scope(A, 2)}
    again = HealthState().with_latched_faults(state.latched_faults)
    assert again.reason(Scope(A)) == state.reason(Scope(A))
    assert again.latched_faults == state.latched_faults


def test_an_administrator_clears_one_gpu_and_no_other() -> None:
    state = after(xid(79), xid(79, gi=1), xid(79, gpu=B), FaultCleared(A))
    assert state.state(Scope(A)) is State.SUSPECT
    cleared = state.apply(ProbeAnswered(A, 0, 1.0))
    assert cleared.reason(Scope(A, 1, 0)) is None
    assert cleared.state(Scope(B)) is State.UNHEALTHY


def test_clearing_a_gpu_that_does_not_answer_does_not_make_it_healthy() -> None:
    state = after(xid(79), FaultCleared(A), ProbeFailed(A, LOST, 1.0))
    assert state.state(Scope(A)) is State.SUSPECT
    assert state.reason(Scope(A)) == LOST


def test_clearing_a_recovering_gpu_makes_it_suspect_until_it_answers() -> None:
    state = after(xid(48), ProbeAnswered(A, 0, 1.0), FaultCleared(A))
    assert state.state(Scope(A)) is State.SUSPECT
    assert state.apply(ProbeAnswered(A, 0, 2.0)) == HealthState()


def test_of_several_faults_the_last_is_reported_and_a_failed_probe_does_not_hide_it() -> None:
    assert after(xid(48), xid(74, at=1.0)).reason(Scope(A)) == "XID 74: NVLink error"
    assert after(xid(79), xid(95, at=1.0)).latched_faults == {Scope(A): "XID 95: memory error not contained"}
    assert after(xid(48), ProbeFailed(A, LOST, 1.0)).reason(Scope(A)) == "XID 48: double-bit memory error"


def test_the_first_answer_after_a_long_silence_does_not_make_a_gpu_healthy_yet() -> None:
    state = after(xid(48), ProbeAnswered(A, 0, 1000.0))
    assert state.state(Scope(A)) is State.RECOVERING
    assert state.apply(ProbeAnswered(A, 0, 1005.0)) == HealthState()


@pytest.mark.parametrize("again", [ProbeAnswered(A, 1, 1000.0), ProbeAnswered(A, 0, 1000.0, PENDING)])
def test_the_quiet_minute_begins_with_the_last_answer_that_asks_for_something(again: ProbeAnswered) -> None:
    state = after(xid(48), again, ProbeAnswered(A, 0, 1001.0), ProbeAnswered(A, 0, 1059.0))
    assert state.state(Scope(A)) is State.RECOVERING
    assert state.apply(ProbeAnswered(A, 0, 1060.0)) == HealthState()


def test_a_wanted_reset_keeps_a_gpu_unhealthy_until_a_quiet_minute_after_it() -> None:
    state = after(xid(48, at=0.0), ProbeAnswered(A, 1, 1000.0))
    assert state.state(Scope(A)) is State.UNHEALTHY
    assert state.apply(ProbeAnswered(A, 0, 1001.0)).state(Scope(A)) is State.RECOVERING
    assert state.apply(ProbeAnswered(A, 0, 1001.0)).apply(ProbeAnswered(A, 0, 1060.0)) == HealthState()


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        (pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET, "a reset of the GPU"),
        (pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT, "a reboot of the node"),
        (pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P, "peer-to-peer traffic to be drained"),
        (pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET, "the GPU to be drained and reset"),
        (pynvml.NVML_GPU_RECOVERY_ACTION_RECOVER_IMEX_DOMAIN, "the recovery of its multi-node domain"),
        (pynvml.NVML_GPU_RECOVERY_ACTION_BUS_RESET, "a reset of its bus"),
        (pynvml.NVML_GPU_RECOVERY_ACTION_SYSTEM_REBOOT, "a reboot of the system"),
        (99, "recovery action 99"),
    ],
)
def test_the_action_that_the_driver_asks_for_is_named(action: int, wanted: str) -> None:
    assert after(ProbeAnswered(A, action, 0.0)).reason(Scope(A)) == f"The driver asks for {wanted}"


def test_memory_rows_that_cannot_be_remapped_make_a_gpu_unhealthy() -> None:
    state = after(ProbeAnswered(A, 0, 0.0, RemappedRows(failed=True)))
    assert state.reason(Scope(A)) == "Memory rows are damaged and cannot be replaced"


def test_memory_rows_that_wait_for_a_reset_leave_a_healthy_gpu_in_use() -> None:
    assert after(ProbeAnswered(A, 0, 0.0, RemappedRows(pending=True))) == HealthState()


def test_memory_rows_that_wait_for_a_reset_keep_an_unhealthy_gpu_from_recovering() -> None:
    state = after(xid(48), ProbeAnswered(A, 0, 100.0, RemappedRows(pending=True)))
    assert state.state(Scope(A)) is State.UNHEALTHY
    assert state.apply(ProbeAnswered(A, 0, 101.0)).apply(ProbeAnswered(A, 0, 160.0)) == HealthState()
    recovering = after(xid(48), ProbeAnswered(A, 0, 100.0))
    assert recovering.apply(ProbeAnswered(A, 0, 101.0, PENDING)).state(Scope(A)) is State.UNHEALTHY


def test_a_probe_that_fails_once_makes_a_gpu_suspect_until_the_next_answer() -> None:
    state = after(ProbeFailed(A, LOST))
    assert state.state(Scope(A)) is State.SUSPECT
    assert state.unresponsive == {A}
    assert state.reason(Scope(A)) == state.reason(Scope(A, 1, 0)) == LOST
    assert state.apply(ProbeAnswered(A, 0, 0.0)) == HealthState()


def test_the_reason_of_a_mig_device_is_the_worst_of_its_own_and_that_of_its_gpu() -> None:
    own = after(xid(79, gi=1), ProbeFailed(A, LOST, 1.0))
    assert own.state(Scope(A)) is State.SUSPECT
    assert own.reason(Scope(A, 1, 0)) == "XID 79: GPU has fallen off the bus; it needs a reset"
    of_the_gpu = after(xid(95, gi=1), ProbeAnswered(A, 0, 100.0), xid(48, at=100.0))
    assert of_the_gpu.state(Scope(A, 1, 0)) is State.UNHEALTHY
    assert of_the_gpu.reason(Scope(A, 1, 0)) == "XID 48: double-bit memory error"


def test_three_failed_probes_in_a_row_make_a_gpu_unhealthy_until_a_quiet_minute() -> None:
    state = after(ProbeFailed(A, LOST, 0.0), ProbeFailed(A, LOST, 5.0), ProbeFailed(A, LOST, 10.0))
    assert state.state(Scope(A)) is State.UNHEALTHY
    assert state.unresponsive == {A}
    recovering = state.apply(ProbeAnswered(A, 0, 20.0))
    assert recovering.reason(Scope(A)) == f"{LOST}; recovering"
    assert recovering.unresponsive == frozenset()
    assert recovering.apply(ProbeAnswered(A, 0, 69.0)).state(Scope(A)) is State.RECOVERING
    assert recovering.apply(ProbeAnswered(A, 0, 70.0)) == HealthState()


def test_a_failed_probe_while_a_gpu_recovers_restarts_the_quiet_minute() -> None:
    state = after(xid(48), ProbeAnswered(A, 0, 10.0), ProbeFailed(A, LOST, 50.0), ProbeAnswered(A, 0, 55.0))
    assert state.state(Scope(A)) is State.RECOVERING
    assert state.apply(ProbeAnswered(A, 0, 109.0)).state(Scope(A)) is State.RECOVERING
    assert state.apply(ProbeAnswered(A, 0, 110.0)) == HealthState()
