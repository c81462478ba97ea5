"""Gauges of the four words of docs/vocabulary.md, which the booking server computes at each scrape."""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry

from booking.server.cluster_status.cluster_status import ClusterStatus
from booking.server.errors import ClusterError
from cluster.process.metrics import measured_each


def show(live: ClusterStatus, registry: CollectorRegistry) -> None:
    """Register them."""
    measured_each(
        registry,
        "server_bookable_gpus",
        "GPUs that a booking which begins now could have, by model.",
        _standing(live, "bookable"),
        label="model",
    )
    measured_each(
        registry,
        "server_lent_gpus",
        "GPUs of pods that leave when a booked pod needs them, by model.",
        _standing(live, "lent"),
        label="model",
    )
    measured_each(
        registry,
        "server_idle_though_booked_gpus",
        "GPUs that a running booking has and no pod holds, by model.",
        _standing(live, "idle_though_booked"),
        label="model",
    )
    measured_each(
        registry,
        "server_in_use_gpus",
        "GPUs of pods that stay (booked, protected, granted), by model.",
        _standing(live, "in_use"),
        label="model",
    )


def _standing(live: ClusterStatus, word: str) -> Callable[[], Mapping[str, float]]:
    def read() -> Mapping[str, float]:
        try:
            counts = {one.model: getattr(one, word) for one in live.models()}
        except ClusterError:
            return {}
        return {model: count for model, count in counts.items() if count is not None}

    return read
