"""The extender's counters. The composition root creates them once, on a registry that it passes in."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from cluster.process.metrics import NAMESPACE

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class Metrics:
    """Counters of requests, rejections, binds and failed loops, and the durations of requests."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "extender_requests_total",
            "Requests of kube-scheduler, by verb and outcome as an HTTP status; filter and bind answer 200"
            " with an error in the body, as kube-scheduler drops the body of any other status.",
            ("verb", "status"),
            namespace=NAMESPACE,
            registry=registry,
        )
        self.seconds = Histogram(
            "extender_request_seconds",
            "Seconds from the end of a request to the end of its answer, by verb.",
            ("verb",),
            buckets=_BUCKETS,
            namespace=NAMESPACE,
            registry=registry,
        )
        self.kubelet_rejections = Counter(
            "extender_kubelet_rejections_total",
            "Pods that were bound with GPUs and that a kubelet has not admitted.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.rejections = Counter(
            "extender_rejections_total",
            "Nodes that filter has rejected for a pod, by reason; docs/extender.md has them all.",
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
            "Answers to the verb bind, by outcome: bound, refused.",
            ("outcome",),
            namespace=NAMESPACE,
            registry=registry,
        )
