"""The booking server's metrics. The composition root creates them once, on a registry that it passes in."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from cluster.process.metrics import NAMESPACE

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class ServerMetrics:
    """Requests, their outcome and how long they took; the mirror's writes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "server_requests_total",
            "Requests, by endpoint and HTTP status of the answer.",
            ("endpoint", "status"),
            namespace=NAMESPACE,
            registry=registry,
        )
        self.seconds = Histogram(
            "server_request_seconds",
            "Seconds from the end of a request to the end of its answer, by endpoint.",
            ("endpoint",),
            buckets=_BUCKETS,
            namespace=NAMESPACE,
            registry=registry,
        )
        self.writes = Counter(
            "mirror_writes_total",
            "Writes to Booking objects, by verb (create, change, delete) and outcome (written, refused,"
            " failed).",
            ("verb", "outcome"),
            namespace=NAMESPACE,
            registry=registry,
        )
