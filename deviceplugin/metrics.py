"""What the agent counts: for ``/metrics``."""

from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from cluster.objects.inventory import Device
from cluster.process.metrics import NAMESPACE

_ADMISSION_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1, 3)


class KubeletMetrics:
    """What happens between the kubelet and the agent."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.admissions: Final = Counter(
            "agent_admissions_total",
            "Containers for which the kubelet asked which devices to take, by what was found out: promised,"
            " unpromised (as it should be), partly, nobody, several, blind, no-checkpoint, refused.",
            ["verdict"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self.admission_seconds: Final = Histogram(
            "agent_admission_seconds",
            "Seconds that the kubelet waited for the answer which devices to take.",
            buckets=_ADMISSION_BUCKETS,
            namespace=NAMESPACE,
            registry=registry,
        )
        self.allocations: Final = Counter(
            "agent_allocations_total",
            "Containers by result: given devices, or refused them because another living pod holds one.",
            ["result"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self.busy_offers: Final = Counter(
            "agent_busy_devices_offered_total",
            "Devices of other living pods that the kubelet offered for a new pod; they are never taken.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.starts: Final = Counter(
            "agent_container_starts_total",
            "Starts of containers with devices, by what the gate before it found: as-promised, other-devices,"
            " unpromised, unchecked let it pass; unhealthy, two-pods, unknown-pod, wrong-model do not.",
            ["gate"],
            namespace=NAMESPACE,
            registry=registry,
        )
        self.checkpoint_errors: Final = Counter(
            "agent_checkpoint_errors_total",
            "Times that the kubelet's checkpoint could not be read.",
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
            "1 while the kubelet listens to this agent's list of devices, by resource.",
            ["resource"],
            namespace=NAMESPACE,
            registry=registry,
        )


class AgentMetrics(KubeletMetrics):
    """The agent's own metrics, in the registry that it is given."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self._told: frozenset[tuple[str, ...]] = frozenset()
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
            "Pods that have other devices than they were promised.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.publish_errors: Final = Counter(
            "agent_publish_errors_total",
            "Failed attempts to write inventory and drift to the Node; each is made again.",
            namespace=NAMESPACE,
            registry=registry,
        )

    def set_states(self, devices: Iterable[Device], states: Mapping[str, str]) -> None:
        """Each device with its state and reason, and nothing of what was told before.

        Args:
            devices: as they are published.
            states: uuid -> state; one that is missing here is as its health says.
        """
        told = frozenset(
            (device.uuid, str(device.index), _state(device, states), device.reason or "")
            for device in devices
        )
        for gone in self._told - told:
            self._states.remove(*gone)
        for new in told - self._told:
            self._states.labels(*new).set(1)
        self._told = told


def _state(device: Device, states: Mapping[str, str]) -> str:
    """A device can be unhealthy for the agent's own reasons (no device node) though NVML says nothing."""
    said = states.get(device.uuid, device.health)
    return device.health if (said == "healthy") != device.is_healthy else said
