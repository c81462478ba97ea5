"""What the extender counts. Made once by the composition root, on a registry that is passed in."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from cluster.process.metrics import NAMESPACE

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """Requests, their outcome and how long they took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "extender_requests_total",
            "Requests of kube-scheduler, by verb and what came of them as an HTTP status;"
            " filter and bind send 200 with the reason, which kube-scheduler would drop else.",
            ("verb", "status"),
            namespace=NAMESPACE,
            registry=registry,
        )
        self.seconds = Histogram(
            "extender_request_seconds",
            "Seconds from the whole request to the whole answer, by verb.",
            ("verb",),
            buckets=_BUCKETS,
            namespace=NAMESPACE,
            registry=registry,
        )
        self.refusals = Counter(
            "extender_kubelet_refusals_total",
            "Pods that were bound with GPUs and that a kubelet has refused.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.rejections = Counter(
            "extender_rejections_total",
            "Nodes that filter has turned down for a pod, by reason.",
            ("reason",),
            namespace=NAMESPACE,
            registry=registry,
        )
        self.loops = Counter(
            "extender_loop_failures_total",
            "Rounds of background loops that have failed through a fault of ours, by loop; the log says how.",
            ("loop",),
            namespace=NAMESPACE,
            registry=registry,
        )
        self.binds = Counter(
            "extender_binds_total",
            "Answers of the verb bind, by outcome: bound, refused.",
            ("outcome",),
            namespace=NAMESPACE,
            registry=registry,
        )
