"""The usage of the GPUs for ``/metrics``: a few series for each device, joined with its holder.

There are as many series as devices and holders, some dozens for a node; the series of a pod end with it. A
device with several holders (its MIG devices have one each) names none in its own series;
``agent_device_holder`` and ``agent_pod_memory_bytes`` have a series for each.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Gauge

from cluster.process.metrics import NAMESPACE
from deviceplugin.nvml.interface import GpuUsage
from deviceplugin.usage.holders import NO_HOLDER, Holder, by_device, owner_labels
from deviceplugin.usage.snapshot import UsageSnapshot

Labels = tuple[str, ...]
_PERCENT: Final = 100


class _Series:
    """A gauge that has exactly the series that were passed to ``show`` last."""

    def __init__(self, gauge: Gauge) -> None:
        self._gauge = gauge
        self._shown: frozenset[Labels] = frozenset()

    def show(self, values: Mapping[Labels, float]) -> None:
        for gone in self._shown - values.keys():
            self._gauge.remove(*gone)
        for labels, value in values.items():
            self._gauge.labels(*labels).set(value)
        self._shown = frozenset(values)


class UsageMetrics:
    """The gauges, in the registry that they are given."""

    def __init__(self, registry: CollectorRegistry, *, include_users: bool = True) -> None:
        """Args: include_users: whether users and bookings are named; if not, their labels are empty."""
        self._include_users = include_users
        self._holder = _Series(
            Gauge(
                "agent_device_holder",
                "1 for each pod on each device, by device, index, namespace, pod, user and booking, and by"
                " source: kubelet (its record), assignment (written on the pod, not given yet).",
                ["device", "index", "namespace", "pod", "user", "booking", "source"],
                namespace=NAMESPACE,
                registry=registry,
            )
        )
        self._measured = (*_shares(registry), *_amounts(registry), *_heats(registry))
        self._pod_memory = _Series(
            Gauge(
                "agent_pod_memory_bytes",
                "Bytes of a device's memory that the processes of a pod use which holds it, by device, index,"
                " namespace, pod, user and booking.",
                ["device", "index", "namespace", "pod", "user", "booking"],
                namespace=NAMESPACE,
                registry=registry,
            )
        )
        self._pod_limit = _Series(
            Gauge(
                "agent_pod_memory_limit_bytes",
                "Bytes of a shared GPU's memory that a pod may use, by device, index, namespace, pod, user"
                " and booking; what it uses is agent_pod_memory_bytes.",
                ["device", "index", "namespace", "pod", "user", "booking"],
                namespace=NAMESPACE,
                registry=registry,
            )
        )
        self._squatters = _Series(
            Gauge(
                "agent_squatters",
                "Processes on a device that their pod does not hold, by device, index, namespace and pod; of"
                " no pod where these are empty.",
                ["device", "index", "namespace", "pod"],
                namespace=NAMESPACE,
                registry=registry,
            )
        )
        self._squatter_memory = _Series(
            Gauge(
                "agent_squatter_memory_bytes",
                "Bytes of a device's memory that squatters use, by device, index, namespace and pod.",
                ["device", "index", "namespace", "pod"],
                namespace=NAMESPACE,
                registry=registry,
            )
        )

    def show(self, snapshot: UsageSnapshot) -> None:
        """Show exactly this snapshot."""
        index = {device.uuid: str(device.published.index) for device in snapshot.devices}
        self._holder.show(
            {(one.device, str(one.index), *self._labels_of(one), one.source): 1.0 for one in snapshot.held}
        )
        on = by_device(snapshot.held)
        joined = {uuid: (uuid, index[uuid], *self._only(on.get(uuid, ()))) for uuid in index}
        for series, read in self._measured:
            values = {uuid: read(usage) for uuid, usage in snapshot.usages.items()}
            series.show({joined[uuid]: value for uuid, value in values.items() if value is not None})
        for series, amounts in ((self._pod_memory, snapshot.memory), (self._pod_limit, snapshot.shares)):
            series.show(
                {
                    (one.device, str(one.index), *self._labels_of(one)): float(amounts[one.device, one.uid])
                    for one in snapshot.held
                    if (one.device, one.uid) in amounts
                }
            )
        self._show_squatters(snapshot)

    def _show_squatters(self, snapshot: UsageSnapshot) -> None:
        count: dict[Labels, float] = {}
        used: dict[Labels, float] = {}
        for one in snapshot.squatting:
            namespace, pod, _, _ = owner_labels(snapshot.pods.get(one.seen.owner.uid or ""))
            labels = (one.device, str(one.index), namespace, pod or one.seen.owner.uid or "")
            count[labels] = count.get(labels, 0.0) + 1
            used[labels] = used.get(labels, 0.0) + (one.memory or 0)
        self._squatters.show(count)
        self._squatter_memory.show(used)

    def _labels_of(self, one: Holder) -> Labels:
        people = (one.user, one.booking) if self._include_users else ("", "")
        return one.namespace, one.pod or one.uid, *people

    def _only(self, those: tuple[Holder, ...]) -> Labels:
        return self._labels_of(those[0]) if len(those) == 1 else NO_HOLDER


Reading = tuple[_Series, Callable[[GpuUsage], float | None]]
"""A gauge, and the value of a usage that it shows; None: the card does not report it."""


def _shares(registry: CollectorRegistry) -> Iterator[Reading]:
    utilisation = Gauge(
        "agent_device_utilisation_ratio",
        "Fraction of the time in which something ran on a device, by device, index, namespace, pod, user and"
        " booking; a GPU in MIG mode has none.",
        ["device", "index", "namespace", "pod", "user", "booking"],
        namespace=NAMESPACE,
        registry=registry,
    )
    yield _Series(utilisation), lambda usage: _ratio(usage.utilisation)
    activity = Gauge(
        "agent_device_memory_activity_ratio",
        "Fraction of the time in which the memory of a device was read or written, by device,"
        " index, namespace, pod, user and booking.",
        ["device", "index", "namespace", "pod", "user", "booking"],
        namespace=NAMESPACE,
        registry=registry,
    )
    yield _Series(activity), lambda usage: _ratio(usage.memory_activity)


def _amounts(registry: CollectorRegistry) -> Iterator[Reading]:
    used = Gauge(
        "agent_device_memory_used_bytes",
        "Bytes of a device's memory in use, by device, index, namespace, pod, user and booking.",
        ["device", "index", "namespace", "pod", "user", "booking"],
        namespace=NAMESPACE,
        registry=registry,
    )
    yield _Series(used), lambda usage: usage.memory_used
    total = Gauge(
        "agent_device_memory_total_bytes",
        "Bytes of memory that a device has, by device, index, namespace, pod, user and booking.",
        ["device", "index", "namespace", "pod", "user", "booking"],
        namespace=NAMESPACE,
        registry=registry,
    )
    yield _Series(total), lambda usage: usage.memory_total


def _heats(registry: CollectorRegistry) -> Iterator[Reading]:
    temperature = Gauge(
        "agent_device_temperature_celsius",
        "Temperature of a device in degrees Celsius, by device, index, namespace, pod, user and booking.",
        ["device", "index", "namespace", "pod", "user", "booking"],
        namespace=NAMESPACE,
        registry=registry,
    )
    yield _Series(temperature), lambda usage: usage.temperature
    power = Gauge(
        "agent_device_power_watts",
        "Power that a device draws in watts, by device, index, namespace, pod, user and booking.",
        ["device", "index", "namespace", "pod", "user", "booking"],
        namespace=NAMESPACE,
        registry=registry,
    )
    yield _Series(power), lambda usage: usage.power


def _ratio(percent: int | None) -> float | None:
    return None if percent is None else percent / _PERCENT
