"""Whether a GPU may be given to new pods: a pure state, changed by what was seen.

A GPU becomes unhealthy by a critical XID, an uncorrectable memory error, by being unavailable or lost, or by
the driver asking for a recovery action. It is healthy again when a probe finds that

1. NVML answers for it,
2. the driver asks for no recovery action (a driver that does not know the question asks for none), and
3. no critical sign has come for the quiet period.

A GPU that was lost without any critical sign is healthy as soon as it answers. What is said about one MIG
instance concerns the MIG devices of that instance alone; GPU instance and compute instance are compared each
for itself.
Instants are seconds of a monotonic clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from deviceplugin.nvml import xids
from deviceplugin.nvml.port import EventKind, GpuEvent

QUIET_SECONDS: Final = 60.0

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
"""What the driver can ask for (NVML field 230); 0 is nothing."""


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of NVML at an instant."""

    event: GpuEvent
    at: float


@dataclass(frozen=True, slots=True)
class Failed:
    """A probe of a GPU failed: it is lost, or NVML refuses; the reason is a sentence."""

    gpu: str
    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A probe of a GPU was answered, with the recovery action that the driver asks for."""

    gpu: str
    action: int
    at: float


Observation = Happened | Failed | Answered


@dataclass(frozen=True, slots=True)
class Scope:
    """What a sign is about: a GPU, or with instances a part of it."""

    gpu: str
    gpu_instance: int | None = None
    compute_instance: int | None = None

    def covers(self, other: "Scope") -> bool:
        """Whether what is said about this concerns the other, too."""
        return (
            self.gpu == other.gpu
            and self.gpu_instance in (None, other.gpu_instance)
            and self.compute_instance in (None, other.compute_instance)
        )


@dataclass(frozen=True, slots=True)
class Sign:
    """The last critical sign, and when it came."""

    reason: str
    at: float


@dataclass(frozen=True, slots=True)
class HealthState:
    """What is wrong with which GPU. Nothing known is healthy."""

    quiet_seconds: float = QUIET_SECONDS
    signs: Mapping[Scope, Sign] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    """GPUs that do not answer, with the reason."""
    wanted: Mapping[str, str] = field(default_factory=dict)
    """GPUs for which the driver asks for something, as a sentence."""

    def apply(self, seen: Observation) -> "HealthState":
        """The state after something was seen."""
        match seen:
            case Happened(event, at):
                return self._after_event(event, at)
            case Failed(gpu, reason):
                return replace(self, silent={**self.silent, gpu: reason})
            case Answered():
                return self._after_answer(seen)

    def reason(self, scope: Scope) -> str | None:
        """Why this GPU or MIG device is unhealthy, as a sentence; None when it is healthy."""
        found = (sign.reason for at, sign in self.signs.items() if at.covers(scope))
        return next(found, None) or self.silent.get(scope.gpu) or self.wanted.get(scope.gpu)

    def _after_event(self, event: GpuEvent, at: float) -> "HealthState":
        reason = _critical(event)
        if reason is None:
            return self
        scope = Scope(event.gpu, event.gpu_instance, event.compute_instance)
        return replace(self, signs={**self.signs, scope: Sign(reason, at)})

    def _after_answer(self, answer: Answered) -> "HealthState":
        wanted = _without(self.wanted, answer.gpu)
        signs = self.signs
        if answer.action:
            asked = RECOVERY_ACTIONS.get(answer.action, f"recovery action {answer.action}")
            wanted[answer.gpu] = f"The driver asks for {asked}"
        else:
            signs = {scope: sign for scope, sign in signs.items() if not self._over(scope, sign, answer)}
        return replace(self, wanted=wanted, signs=signs, silent=_without(self.silent, answer.gpu))

    def _over(self, scope: Scope, sign: Sign, answer: Answered) -> bool:
        return scope.gpu == answer.gpu and answer.at - sign.at >= self.quiet_seconds


def _critical(event: GpuEvent) -> str | None:
    if event.kind == EventKind.XID and xids.is_critical(event.data):
        return xids.sentence(event.data)
    if event.kind == EventKind.DOUBLE_BIT_ECC:
        return "Uncorrectable memory error"
    if event.kind == EventKind.UNAVAILABLE:
        return "The driver calls the GPU unavailable"
    return None


def _without(reasons: Mapping[str, str], gpu: str) -> dict[str, str]:
    return {key: reason for key, reason in reasons.items() if key != gpu}
