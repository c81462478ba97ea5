"""Whether a GPU may be given to new pods: a table of states and signals, and the record of each GPU.

Every physical GPU has one state. A fault that names a MIG instance gives that instance a state of its own,
and its siblings stay healthy. A fault of the GPU concerns all its MIG devices. GPU instance and compute
instance are compared separately. Only healthy devices are given to new pods; nothing is taken from running
ones.

A fault that only a reset clears (``xids.NEEDS_RESET``) remains until the node is booted or the driver loaded
again (``renewed``), or until an administrator clears the GPU: neither successful probes nor time clear it.
Instants are seconds of a monotonic clock.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from deviceplugin.nvml.interface import UNTOUCHED, EventKind, GpuEvent, RemappedRows
from deviceplugin.nvml.xids import DEFAULT, XidPolicy, xid_message

RECOVERY_SECONDS: Final = 60.0
PATIENCE: Final = 3
"""Number of consecutive failed probes after which a GPU without any other fault is unhealthy."""


class State(StrEnum):
    """The health of a GPU."""

    HEALTHY = "healthy"
    """It may be given to new pods."""
    SUSPECT = "suspect"
    """A probe has failed once or twice: it is healthy again as soon as one succeeds."""
    UNHEALTHY = "unhealthy"
    """It has a fault, or the driver asks for a recovery action."""
    RECOVERING = "recovering"
    """Probes succeed and no action is wanted: it is healthy after a quiet time."""


class HealthSignal(StrEnum):
    """What an event or a probe shows about a GPU."""

    FAULT = "fault"
    """A critical event: an XID, an uncorrectable memory error, the GPU unavailable."""
    PROBE_FAILED = "probe-failed"
    """A probe has failed: the GPU is lost, or NVML returns an error."""
    UNRESPONSIVE = "unresponsive"
    """Probes have failed three times in a row."""
    ACTION_REQUIRED = "action-required"
    """A probe succeeded, but the driver asks for a recovery action, or memory rows cannot be replaced."""
    LATCHED = "latched"
    """A probe found nothing wrong, but a fault remains that only a reset clears."""
    ROWS_PENDING = "rows-pending"
    """A probe found nothing wrong except memory rows that the next reset replaces."""
    RECENT = "recent"
    """A probe found nothing wrong; the last bad signal is more recent than the quiet time."""
    QUIET = "quiet"
    """A probe found nothing wrong, and there was no bad signal during the quiet time."""
    CLEARED = "cleared"
    """An administrator has cleared the GPU, or the driver or the node was restarted."""


_H, _S, _U, _R = State.HEALTHY, State.SUSPECT, State.UNHEALTHY, State.RECOVERING
TABLE: Final[Mapping[State, Mapping[HealthSignal, State]]] = MappingProxyType(
    {
        state: MappingProxyType(dict(zip(HealthSignal, row, strict=True)))
        # signals: in their order above
        for state, row in {
            _H: (_U, _S, _U, _U, _U, _H, _H, _H, _H),
            _S: (_U, _S, _U, _U, _U, _H, _H, _H, _S),
            _U: (_U, _U, _U, _U, _U, _U, _R, _R, _S),
            _R: (_U, _U, _U, _U, _U, _U, _R, _H, _S),
        }.items()
    }
)
"""State -> signal -> state."""

RECOVERY_ACTIONS: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "a reset of the GPU",
        2: "a reboot of the node",
        3: "peer-to-peer traffic to be drained",
        4: "the GPU to be drained and reset",
        5: "the recovery of its multi-node domain",
        6: "a reset of its bus",
        7: "a reboot of the system",
    }
)
"""Actions that the driver can ask for (NVML field 230); 0 is none."""


@dataclass(frozen=True, slots=True)
class EventSeen:
    """An event of NVML at an instant."""

    event: GpuEvent
    at: float


@dataclass(frozen=True, slots=True)
class ProbeFailed:
    """A probe of a GPU failed: it is lost, or NVML returned an error. ``reason`` is for people."""

    gpu: str
    reason: str
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class ProbeAnswered:
    """A probe of a GPU succeeded: the recovery action that the driver asks for, and its memory rows."""

    gpu: str
    action: int
    at: float
    rows: RemappedRows = UNTOUCHED


@dataclass(frozen=True, slots=True)
class FaultCleared:
    """An administrator has cleared a GPU."""

    gpu: str


Observation = EventSeen | ProbeFailed | ProbeAnswered | FaultCleared


@dataclass(frozen=True, slots=True)
class Scope:
    """What a signal is about: a GPU, or an instance of it."""

    gpu: str
    gpu_instance: int | None = None
    compute_instance: int | None = None

    def covers(self, other: "Scope") -> bool:
        """Whether a signal about this scope concerns the other one, too."""
        return (
            self.gpu == other.gpu
            and self.gpu_instance in (None, other.gpu_instance)
            and self.compute_instance in (None, other.compute_instance)
        )


@dataclass(frozen=True, slots=True)
class GpuHealth:
    """The record of a GPU or an instance. A healthy one has none."""

    state: State = State.HEALTHY
    fault: str | None = None
    """The last critical event, for people."""
    latched: str | None = None
    """The last critical event that only a reset clears, for people."""
    probe: str | None = None
    """What the last probe found wrong, for people."""
    failures: int = 0
    """Number of consecutive failed probes."""
    bad_at: float | None = None
    """Time of the last bad signal; one or two failed probes do not count."""

    @property
    def reason(self) -> str:
        """Why it is not healthy, for people. It changes only with the state, as each change is published."""
        if self.latched is not None:
            return f"{self.latched}; it needs a reset"
        cause = self.fault or self.probe or "It was reported unhealthy"
        return f"{cause}; recovering" if self.state is State.RECOVERING else cause

    def after(self, signal: HealthSignal) -> "GpuHealth":
        """The record in the next state by the table."""
        return replace(self, state=TABLE[self.state][signal])


@dataclass(frozen=True, slots=True)
class HealthState:
    """The records of all GPUs that are not healthy. A GPU without a record is healthy."""

    recovery_seconds: float = RECOVERY_SECONDS
    xid_policy: XidPolicy = DEFAULT
    records: Mapping[Scope, GpuHealth] = field(default_factory=dict)

    def apply(self, seen: Observation) -> "HealthState":
        """The state after an observation."""
        match seen:
            case EventSeen(event, at):
                return self._after_event(event, at)
            case ProbeFailed(gpu):
                return self._changed({scope: self._after_failure(scope, seen) for scope in self._of(gpu)})
            case ProbeAnswered(gpu):
                return self._changed({scope: self._after_answer(scope, seen) for scope in self._of(gpu)})
            case FaultCleared(gpu):
                return self.renewed(gpu)

    def state(self, scope: Scope) -> State:
        """The state of a GPU or a MIG device: the worst of the records that concern it."""
        return max((record.state for record in self._about(scope)), key=_WORSE.index, default=State.HEALTHY)

    def reason(self, scope: Scope) -> str | None:
        """Why this GPU or MIG device is not healthy, for people; None if it is."""
        worst = sorted(self._about(scope), key=lambda record: _WORSE.index(record.state))
        return worst[-1].reason if worst else None

    @property
    def unresponsive(self) -> frozenset[str]:
        """GPUs whose last probe failed."""
        return frozenset(scope.gpu for scope, record in self.records.items() if record.failures)

    @property
    def latched_faults(self) -> dict[Scope, str]:
        """The faults that only a reset clears: a restart of the agent must not forget them."""
        return {scope: record.latched for scope, record in self.records.items() if record.latched is not None}

    def with_latched_faults(self, faults: Mapping[Scope, str]) -> "HealthState":
        """The state with these faults added."""
        return self._changed({at: GpuHealth(State.UNHEALTHY, latched=why) for at, why in faults.items()})

    def renewed(self, gpu: str | None = None) -> "HealthState":
        """The state after the driver was loaded again (or one GPU was cleared): the next probe decides."""
        cleared = HealthSignal.CLEARED
        return self._changed(
            {
                scope: GpuHealth(
                    TABLE[record.state][cleared], probe="It was cleared and has not answered yet"
                )
                for scope, record in self.records.items()
                if gpu in (None, scope.gpu)
            }
        )

    def _about(self, scope: Scope) -> Iterable[GpuHealth]:
        return (record for at, record in self.records.items() if at.covers(scope))

    def _of(self, gpu: str) -> tuple[Scope, ...]:
        """The GPU itself, and those of its instances that have a record."""
        return (Scope(gpu), *(at for at in self.records if at.gpu == gpu and at != Scope(gpu)))

    def _changed(self, records: Mapping[Scope, GpuHealth]) -> "HealthState":
        known = {**self.records, **records}
        return replace(self, records={at: r for at, r in known.items() if r.state is not State.HEALTHY})

    def _after_event(self, event: GpuEvent, at: float) -> "HealthState":
        reason = self._critical(event)
        if reason is None:
            return self
        scope = Scope(event.gpu, event.gpu_instance, event.compute_instance)
        record = self.records.get(scope, GpuHealth())
        stays = event.kind == EventKind.XID and self.xid_policy.needs_reset(event.data)
        latched = reason if stays else record.latched
        return self._changed(
            {scope: replace(record, fault=reason, latched=latched, bad_at=at).after(HealthSignal.FAULT)}
        )

    def _critical(self, event: GpuEvent) -> str | None:
        if event.kind == EventKind.XID and self.xid_policy.is_critical(event.data):
            return xid_message(event.data)
        if event.kind == EventKind.DOUBLE_BIT_ECC:
            return "Uncorrectable memory error"
        if event.kind == EventKind.UNAVAILABLE:
            return "The driver calls the GPU unavailable"
        return None

    def _after_failure(self, scope: Scope, seen: ProbeFailed) -> GpuHealth:
        record = self.records.get(scope, GpuHealth())
        failures = record.failures + 1
        worse = record.after(HealthSignal.UNRESPONSIVE if failures >= PATIENCE else HealthSignal.PROBE_FAILED)
        bad_at = record.bad_at if worse.state is State.SUSPECT else seen.at
        return replace(worse, probe=seen.reason, failures=failures, bad_at=bad_at)

    def _after_answer(self, scope: Scope, seen: ProbeAnswered) -> GpuHealth:
        record = replace(self.records.get(scope, GpuHealth()), failures=0)
        wanted = _wanted_action(seen)
        if wanted is not None:
            return replace(record, probe=wanted, bad_at=seen.at).after(HealthSignal.ACTION_REQUIRED)
        if record.latched is None and seen.rows.pending:
            pending = replace(record, probe="Memory rows wait for a reset to be replaced").after(
                HealthSignal.ROWS_PENDING
            )
            return replace(pending, bad_at=seen.at)
        return record.after(self._good(record, seen.at))

    def _good(self, record: GpuHealth, at: float) -> HealthSignal:
        if record.latched is not None:
            return HealthSignal.LATCHED
        is_early = record.bad_at is not None and at - record.bad_at < self.recovery_seconds
        return HealthSignal.RECENT if is_early else HealthSignal.QUIET


_WORSE: Final = (State.HEALTHY, State.SUSPECT, State.RECOVERING, State.UNHEALTHY)


def _wanted_action(seen: ProbeAnswered) -> str | None:
    if seen.action:
        action = RECOVERY_ACTIONS.get(seen.action, f"recovery action {seen.action}")
        return f"The driver asks for {action}"
    return "Memory rows are damaged and cannot be replaced" if seen.rows.failed else None
