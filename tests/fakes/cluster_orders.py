"""Lists that take the booking service's orders about pods and GPUs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from booking.server.service.context import GpuOrder, PodToEvict

POD = PodToEvict(user="alice", booking=None, node="n0", gpus=1, controller=None)


@dataclass
class Pods:
    """Pods that are ordered to go; what was in the audit by then is noted with each order."""

    audited: Callable[[], list[str]]
    given: list[tuple[str, str, str, str, datetime]] = field(default_factory=list)
    tried: list[tuple[str, str, str, str, datetime]] = field(default_factory=list)
    before: list[list[str]] = field(default_factory=list)
    trouble: Exception | None = None

    def order(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> None:
        """One order, or the trouble that was put here."""
        self.before.append(self.audited())
        if self.trouble:
            raise self.trouble
        self.given.append((namespace, pod, by, reason, at))

    def dry_run(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> PodToEvict:
        """The same, and nothing is given."""
        if self.trouble:
            raise self.trouble
        self.tried.append((namespace, pod, by, reason, at))
        return POD


@dataclass
class Gpus:
    """GPUs, each called by its number; as ``Pods``."""

    audited: Callable[[], list[str]]
    given: list[tuple[str, str, GpuOrder, str, datetime]] = field(default_factory=list)
    tried: list[tuple[str, str, GpuOrder, str, datetime]] = field(default_factory=list)
    before: list[list[str]] = field(default_factory=list)
    trouble: Exception | None = None

    def order(
        self, node: str, gpu: str, order: GpuOrder, *, message: str, at: datetime, dry_run: bool = False
    ) -> str:
        """One order, or the trouble that was put here."""
        self.before.append(self.audited())
        if self.trouble:
            raise self.trouble
        (self.tried if dry_run else self.given).append((node, gpu, order, message, at))
        return f"GPU-{len(self.given)}"
