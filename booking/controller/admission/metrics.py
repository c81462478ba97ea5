"""The webhook's metrics. The composition root creates them once, on a registry that it passes in."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from cluster.process.metrics import NAMESPACE

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 3.0)


class Metrics:
    """Requests, what happened to their pods and to reserved keys on them, and how long they took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "admission_requests_total",
            "Requests of the API server, by outcome: booked, opportunistic, stripped (of its GPU),"
            " gpu-removed (by another webhook), cleaned (of reserved keys, or of GPUs by default),"
            " hidden (GPUs, from a pod without one), guided (claims of others, to our scheduler),"
            " kept-apart (a claim that tolerates what is kept for it), untouched,"
            " refused (a share that cannot be granted);"
            " malformed requests by HTTP status.",
            ("outcome",),
            namespace=NAMESPACE,
            registry=registry,
        )
        self.reserved_keys_removed = Counter(
            "admission_reserved_keys_removed_total",
            "New pods from which keys reserved to GPU Booking were removed; the log says who created them.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.seconds = Histogram(
            "admission_request_seconds",
            "Seconds from the end of a request to the end of its answer.",
            buckets=_BUCKETS,
            namespace=NAMESPACE,
            registry=registry,
        )
