"""The state of the cache as metrics that are read at each scrape."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from cluster.decide.ledger import NodeView
from cluster.process.metrics import counted_each, measured, measured_each
from extender.state.cluster_state import ClusterState


@dataclass(frozen=True, slots=True)
class Sources:
    """Values from other parts of the process."""

    staleness: Callable[[], float | None]
    """Seconds since the last event or bookmark of the stalest watch."""
    lists: Callable[[], Mapping[str, int]]
    """Kind -> how often it was listed."""
    rejecting: Callable[[], float]
    """Number of barred nodes."""


def show(registry: CollectorRegistry, state: ClusterState, sources: Sources) -> None:
    """Register the extender's gauges."""
    measured(
        registry,
        "extender_cache_staleness_seconds",
        "Seconds since the last event or bookmark of the stalest watch (pods, nodes, Leases,"
        " Namespaces, bookings).",
        sources.staleness,
    )
    measured(
        registry,
        "extender_rejecting_nodes",
        "Nodes to which nothing is bound because their kubelet has rejected a pod.",
        sources.rejecting,
    )
    measured_each(
        registry,
        "extender_devices_free",
        "Healthy devices that no pod holds and that are not held for a booked pod, by model.",
        lambda: free(_views(state)),
        label="model",
    )
    measured_each(
        registry,
        "extender_devices_held",
        "Devices that pods hold, by model.",
        lambda: held(_views(state)),
        label="model",
    )
    measured(
        registry,
        "extender_assumed_binds",
        "Binds that were decided and have not been seen on their pods yet.",
        lambda: float(_assumed(state)),
    )
    counted_each(
        registry,
        "extender_lists",
        "Full lists that were read, at the start or because changes may have been missed, by kind.",
        sources.lists,
        label="kind",
    )
    counted_each(
        registry,
        "extender_device_conflicts",
        "Devices that were seen held by more pods than they have room for (law L1 broken), by node.",
        lambda: _conflicts(state),
        label="node",
    )


def free(views: Mapping[str, NodeView]) -> Mapping[str, float]:
    """Model -> number of free devices."""
    found: Counter[str] = Counter()
    for view in views.values():
        for models in view.free_by_model.values():
            for model, devices in models.items():
                found[model] += len(devices)
    return dict(found)


def held(views: Mapping[str, NodeView]) -> Mapping[str, float]:
    """Model -> number of held devices, without held devices that the node does not have."""
    found: Counter[str] = Counter()
    for view in views.values():
        found.update(view.models[uuid] for uuid in view.held if uuid in view.models)
    return dict(found)


def _views(state: ClusterState) -> Mapping[str, NodeView]:
    """All nodes. Views never change, so they are read without the lock."""
    with state.locked() as ledger:
        return ledger.all_views()


def _assumed(state: ClusterState) -> int:
    with state.locked() as ledger:
        return len(ledger.assumed)


def _conflicts(state: ClusterState) -> Mapping[str, int]:
    with state.locked() as ledger:
        return ledger.conflicts_seen
