"""Stops our components, one after the other, and removes what leads to them."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from booking.controller.uninstall.api import everything, some, without
from booking.controller.uninstall.kinds import DAEMON_SETS, DEPLOYMENTS, POLICY_BINDINGS
from cluster import claim_names, names
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import LEASES, MUTATING_WEBHOOKS, PODS, Resource
from cluster.objects.nodes import Lease
from cluster.objects.pods import Pod
from cluster.process.clock import Clock

Report = Callable[[str], None]

CONTROLLER: Final = ("controller",)
OTHERS: Final = ("extender", "server", "node-agent")
_WORKLOADS: Final[dict[str, tuple[tuple[Resource[Any], str], ...]]] = {
    "controller": ((DEPLOYMENTS, names.CONTROLLER),),
    "extender": ((DEPLOYMENTS, names.SCHEDULER_ACCOUNT), (DEPLOYMENTS, names.EXTENDER)),
    "server": ((DEPLOYMENTS, names.BOOKING_SERVER),),
    "node-agent": ((DAEMON_SETS, names.NODE_AGENT),),
}
"""Component -> the workloads with which the chart runs it, in any mode."""
_USUAL_DURATION: Final = 30
"""Seconds for which a Lease is valid if it does not say."""


class Stopping:
    """Stops components, and checks whether they have stopped."""

    def __init__(self, kube: Kube, clock: Clock, *, namespace: str, report: Report) -> None:
        """Args: namespace: of the release; say: prints a line for the person who uninstalls."""
        self._kube = kube
        self._clock = clock
        self._namespace = namespace
        self._report = report
        self._seen: dict[str, tuple[str, float]] = {}
        """Lease -> its resourceVersion, and since when it has had that."""

    def controller(self) -> str | None:
        """Stop what takes GPUs back; a message while it may still run."""
        return self._gone(CONTROLLER) or self._is_held([names.CONTROLLER_LEASE])

    def others(self) -> str | None:
        """Stop what binds, mirrors and allocates; a message while any of it may still run."""
        if (left := self._gone(OTHERS)) is not None:
            return left
        leases, _ = everything(self._kube, LEASES, Selection(namespace=self._namespace))
        agents = [lease for lease in leases if names.node_of_lease(lease.metadata.name)]
        return self._is_held([lease.metadata.name for lease in agents if not _has_released(lease)])

    def admission(self) -> str | None:
        """New pods are not shown to a controller that is gone, nor refused because it has not seen them."""
        last = without(self._kube, MUTATING_WEBHOOKS, names.LAST_WEBHOOK)
        webhook = without(self._kube, MUTATING_WEBHOOKS, names.WEBHOOK)
        policy = without(self._kube, POLICY_BINDINGS, names.GPU_PODS_POLICY)
        without(self._kube, POLICY_BINDINGS, claim_names.CLAIM_PODS_POLICY)
        without(self._kube, POLICY_BINDINGS, claim_names.EXTENDED_POLICY)
        if webhook or policy or last:
            self._report("GPU Booking does not see new pods from now on.")
        return None

    def _gone(self, parts: Sequence[str]) -> str | None:
        for part in parts:
            for resource, name in _WORKLOADS[part]:
                if without(self._kube, resource, name, self._namespace):
                    self._report(f"{resource.kind} {name} is stopped.")
        selected = f"{names.OUR_PODS},{names.COMPONENT} in ({','.join(parts)})"
        pods, _ = everything(self._kube, PODS, Selection(namespace=self._namespace, label_selector=selected))
        left = [_place(pod) for pod in pods]
        return f"Pods of GPU Booking are still terminating: {some(left)}." if left else None

    def _is_held(self, leases: Sequence[str]) -> str | None:
        held = [name for name in leases if self._is_renewed(name)]
        if not held:
            return None
        return f"The holder of Lease {some(held)} may still run: stop what runs outside this release."

    def _is_renewed(self, name: str) -> bool:
        """Whether it may still be renewed: as long as it says, from when we saw this version of it."""
        found, _ = everything(
            self._kube,
            LEASES,
            Selection(namespace=self._namespace, field_selector=f"metadata.name={name}"),
        )
        if not found or not found[0].spec.holder_identity:
            return False
        version, now = found[0].metadata.resource_version, self._clock.monotonic()
        if self._seen.get(name, ("", 0.0))[0] != version:
            self._seen[name] = (version, now)
        return now - self._seen[name][1] < (found[0].spec.lease_duration_seconds or _USUAL_DURATION)


def _has_released(lease: Lease) -> bool:
    return lease.metadata.annotation(names.STOPPING) is not None


def _place(pod: Pod) -> str:
    node = f" on {pod.spec.node_name}" if pod.spec.node_name else ""
    return f"{pod.metadata.name}{node}"
