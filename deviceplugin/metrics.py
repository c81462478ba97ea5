"""The agent's metrics, for ``/metrics``."""

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cluster.objects.inventory import Device
from cluster.process.metrics import NAMESPACE

_ADMISSION_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1, 3)


class KubeletMetrics:
    """Metrics of the kubelet's calls and of registrations."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.admissions: Final = Counter(
            "agent_admissions_total",
            "Containers for which the kubelet asked for preferred devices (GetPreferredAllocation), by"
            " verdict: assigned, unassigned (nothing was assigned to it), partly-assigned, no-match (no"
            " known pod asks for so many), ambiguous (several do), pods-unavailable, no-checkpoint, refused.",
            ["verdict"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self.admission_seconds: Final = Histogram(
            "agent_admission_seconds",
            "Seconds that the kubelet waited for an answer to GetPreferredAllocation.",
            buckets=_ADMISSION_BUCKETS,
            namespace=NAMESPACE,
            registry=registry,
        )
        self.allocations: Final = Counter(
            "agent_allocations_total",
            "Containers that asked for devices (Allocate), by result: given, or refused because another"
            " living pod holds one of them.",
            ["result"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self.busy_available: Final = Counter(
            "agent_busy_devices_available_total",
            "Devices of other living pods that the kubelet listed as available for a new pod; never taken.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.starts: Final = Counter(
            "agent_container_starts_total",
            "Starts of containers with devices, by what the check before it (PreStartContainer) found:"
            " as-assigned, other-devices, unassigned and unchecked may start; unhealthy, two-pods,"
            " share-conflict, unknown-pod and wrong-model may not.",
            ["gate"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self.checkpoint_errors: Final = Counter(
            "agent_checkpoint_errors_total",
            "Failed attempts to read the kubelet's checkpoint.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.registrations: Final = Counter(
            "agent_registrations_total",
            "Registrations with the kubelet, by result: accepted, failed.",
            ["result"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self.registered: Final = Gauge(
            "agent_registered",
            "1 while the kubelet reads this agent's list of devices (ListAndWatch), by resource.",
            ["resource"],
            namespace=NAMESPACE,
            registry=registry,
        )


class AgentMetrics(KubeletMetrics):
    """All metrics of the agent, in the registry that is passed in."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self.other_plugin: Final = Gauge(
            "agent_other_plugin",
            "1 while another device plugin gives out this node's GPUs, so that this agent gives none.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self._shown: frozenset[tuple[str, ...]] = frozenset()
        self.devices: Final = Gauge(
            "agent_devices",
            "Devices of this node, by health: healthy, unhealthy.",
            ["health"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self._states: Final = Gauge(
            "agent_device_state",
            "1 for each device of the node, by its index, state (healthy, suspect, unhealthy, recovering,"
            " cordoned) and the reason that the inventory gives.",
            ["device", "index", "state", "reason"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self.drifting_pods: Final = Gauge(
            "agent_drifting_pods",
            "Pods that have other devices than they were assigned.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.publish_errors: Final = Counter(
            "agent_publish_errors_total",
            "Failed attempts to write inventory and drift to the Node; each is retried.",
            namespace=NAMESPACE,
            registry=registry,
        )

    def set_states(self, devices: Iterable[Device], states: Mapping[str, str]) -> None:
        """Show each device with its state and reason, and remove the series shown before.

        Args:
            devices: as they are published.
            states: uuid -> state; a device that is missing here has the state of its health.
        """
        current = frozenset(
            (device.uuid, str(device.index), _state(device, states), device.reason or "")
            for device in devices
        )
        for gone in self._shown - current:
            self._states.remove(*gone)
        for new in current - self._shown:
            self._states.labels(*new).set(1)
        self._shown = current


def _state(device: Device, states: Mapping[str, str]) -> str:
    """The device's state; its health if the two differ: the agent has reasons of its own (no device node)."""
    state = states.get(device.uuid, device.health)
    return device.health if (state == "healthy") != device.is_healthy else state
