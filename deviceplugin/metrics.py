"""What the agent counts: for ``/metrics``."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_ADMISSION_BUCKETS: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 1, 3)


class KubeletMetrics:
    """What happens between the kubelet and the agent."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.admissions: Final = Counter(
            "gpu_booking_agent_admissions",
            "Containers for which the kubelet asked which devices to take, by what was found out.",
            ["verdict"],
            registry=registry,
        )
        self.admission_seconds: Final = Histogram(
            "gpu_booking_agent_admission_seconds",
            "Time that the kubelet waited for that answer.",
            buckets=_ADMISSION_BUCKETS,
            registry=registry,
        )
        self.allocations: Final = Counter(
            "gpu_booking_agent_allocations",
            "Containers that were given devices, or refused them because another living pod holds one.",
            ["result"],
            registry=registry,
        )
        self.busy_offers: Final = Counter(
            "gpu_booking_agent_busy_devices_offered",
            "Devices of other living pods that the kubelet offered for a new pod; they are never taken.",
            registry=registry,
        )
        self.starts: Final = Counter(
            "gpu_booking_agent_container_starts",
            "Starts of containers with devices, by what the check before it found.",
            ["gate"],
            registry=registry,
        )
        self.checkpoint_errors: Final = Counter(
            "gpu_booking_agent_checkpoint_errors",
            "Times that the kubelet's checkpoint could not be read.",
            registry=registry,
        )
        self.registrations: Final = Counter(
            "gpu_booking_agent_registrations",
            "Registrations with the kubelet, by result.",
            ["result"],
            registry=registry,
        )
        self.registered: Final = Gauge(
            "gpu_booking_agent_registered",
            "1 while the kubelet listens to this agent's list of devices.",
            registry=registry,
        )


class AgentMetrics(KubeletMetrics):
    """The agent's own metrics, in the registry that it is given."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__(registry)
        self.devices: Final = Gauge(
            "gpu_booking_agent_devices",
            "Devices of this node, by health.",
            ["health"],
            registry=registry,
        )
        self.drifting_pods: Final = Gauge(
            "gpu_booking_agent_drifting_pods",
            "Pods that have other devices than they were promised.",
            registry=registry,
        )
        self.publish_errors: Final = Counter(
            "gpu_booking_agent_publish_errors",
            "Failed attempts to write the inventory to the Node.",
            registry=registry,
        )
