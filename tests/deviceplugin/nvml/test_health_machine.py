"""The health of GPUs through long random histories, compared with what a naive reference remembers."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from deviceplugin.nvml.health import (
    PATIENCE,
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
from deviceplugin.nvml.xids import DEFAULT
from tests.draws import examples

QUIET = 60.0
GPUS = ("GPU-a", "GPU-b")
gpus = st.sampled_from(GPUS)


class HealthMachine(RuleBasedStateMachine):
    """Two GPUs, one of them with MIG instances 1 and 2, and time that passes."""

    def __init__(self) -> None:
        super().__init__()
        self.health = HealthState(QUIET)
        self.alone = {gpu: HealthState(QUIET) for gpu in GPUS}
        self.now = 0.0
        self.latched: set[Scope] = set()
        self.failures = dict.fromkeys(GPUS, 0)

    def see(self, gpu: str, seen: Observation) -> None:
        """Report the state of both GPUs, and that of this one alone."""
        self.health = self.health.apply(seen)
        self.alone[gpu] = self.alone[gpu].apply(seen)

    @rule(seconds=st.floats(0, 100))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(gpu=gpus, number=st.sampled_from([13, 48, 79, 95, 154]), instance=st.none() | st.integers(1, 2))
    def xid(self, gpu: str, number: int, instance: int | None) -> None:
        self.see(gpu, EventSeen(GpuEvent(gpu, EventKind.XID, number, instance), self.now))
        scope = Scope(gpu, instance)
        if DEFAULT.is_critical(number):
            assert self.health.state(scope) is State.UNHEALTHY
        if DEFAULT.needs_reset(number):
            self.latched.add(scope)

    @rule(gpu=gpus)
    def probe_fails(self, gpu: str) -> None:
        self.see(gpu, ProbeFailed(gpu, "the GPU is lost", self.now))
        self.failures[gpu] += 1
        if self.failures[gpu] >= PATIENCE:
            assert self.health.state(Scope(gpu)) is State.UNHEALTHY
        assert self.health.state(Scope(gpu)) is not State.HEALTHY

    @rule(gpu=gpus, action=st.sampled_from([0, 0, 0, 1, 2]), pending=st.booleans())
    def probe_is_answered(self, *, gpu: str, action: int, pending: bool) -> None:
        before = self.health.state(Scope(gpu))
        self.see(gpu, ProbeAnswered(gpu, action, self.now, RemappedRows(pending=pending)))
        self.failures[gpu] = 0
        if action:
            assert self.health.state(Scope(gpu)) is State.UNHEALTHY
        elif before is State.HEALTHY:
            assert self.health.state(Scope(gpu)) is State.HEALTHY

    @rule(gpu=gpus)
    def it_is_cleared(self, gpu: str) -> None:
        self.see(gpu, FaultCleared(gpu))
        self.latched = {at for at in self.latched if at.gpu != gpu}
        self.failures[gpu] = 0

    @rule()
    def the_driver_is_loaded_again(self) -> None:
        self.health = self.health.renewed()
        self.alone = {gpu: one.renewed() for gpu, one in self.alone.items()}
        self.latched = set()
        self.failures = dict.fromkeys(GPUS, 0)

    @rule()
    def the_agent_is_started_again(self) -> None:
        self.health = HealthState(QUIET).with_latched_faults(self.health.latched_faults)
        self.alone = {
            gpu: HealthState(QUIET).with_latched_faults(one.latched_faults) for gpu, one in self.alone.items()
        }
        self.failures = dict.fromkeys(GPUS, 0)

    @invariant()
    def what_needs_a_reset_stays(self) -> None:
        assert set(self.health.latched_faults) == self.latched
        assert all(self.health.state(at) is State.UNHEALTHY for at in self.latched)

    @invariant()
    def one_gpu_never_concerns_another(self) -> None:
        for gpu in GPUS:
            for scope in (Scope(gpu), Scope(gpu, 1, 0), Scope(gpu, 2, 0)):
                assert self.health.reason(scope) == self.alone[gpu].reason(scope)

    @invariant()
    def every_unhealthy_scope_has_a_reason(self) -> None:
        for gpu in GPUS:
            for scope in (Scope(gpu), Scope(gpu, 1, 0)):
                is_unhealthy = self.health.state(scope) is not State.HEALTHY
                assert is_unhealthy == (self.health.reason(scope) is not None)

    @invariant()
    def what_concerns_the_gpu_concerns_its_instances(self) -> None:
        for gpu in GPUS:
            if self.health.state(Scope(gpu)) is not State.HEALTHY:
                assert self.health.state(Scope(gpu, 1, 0)) is not State.HEALTHY

    @invariant()
    def two_quiet_answers_end_every_fault_that_needs_no_reset(self) -> None:
        health = self.health
        for at in (self.now + QUIET, self.now + QUIET + 5):
            for gpu in GPUS:
                health = health.apply(ProbeAnswered(gpu, 0, at))
        assert {
            at for at, record in health.records.items() if record.state is not State.HEALTHY
        } == self.latched


TestHealthMachine = HealthMachine.TestCase
TestHealthMachine.settings = examples(30, 100)


def test_nothing_but_an_answer_leads_back_to_healthy() -> None:
    ways = {
        sign for state, row in TABLE.items() for sign, to in row.items() if to is State.HEALTHY is not state
    }
    assert ways == {HealthSignal.RECENT, HealthSignal.QUIET, HealthSignal.ROWS_PENDING}
