"""What the reclaimer counts. Made once by the composition root, on a registry that is passed in."""

from prometheus_client import CollectorRegistry, Counter, Histogram

from cluster.process.metrics import NAMESPACE

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class ReclaimerMetrics:
    """Holds and what became of them, pods taken away, and how long the passes took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.holds = Counter(
            "reclaimer_holds_total",
            "Holds, by outcome: written, bound (of use), dropped, barred (the pod was not bound).",
            ("outcome",),
            namespace=NAMESPACE,
            registry=registry,
        )
        self.departures = Counter(
            "reclaimer_departures_total",
            "Pods that were told to go, by reason: evicted (for a booked pod or by order), ended (with their"
            " booking).",
            ("reason",),
            namespace=NAMESPACE,
            registry=registry,
        )
        self.protected = Counter(
            "reclaimer_protected_total",
            "Evictions that a disruption budget forbade.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.passed_over = Counter(
            "reclaimer_budgets_overridden_total",
            "Evictions in spite of a disruption budget that had kept a booked pod waiting for too long.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.let_go = Counter(
            "reclaimer_let_go_total",
            "Pods that were let go from behind the scheduling gate.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.decisions = Histogram(
            "reclaimer_decision_seconds",
            "Seconds from the change that made a booked pod need other pods' devices to the first of them"
            " told to go; without those that are given notice, and those where free devices are waited for.",
            buckets=_BUCKETS,
            namespace=NAMESPACE,
            registry=registry,
        )
        self.refused = Counter(
            "reclaimer_refused_total",
            "Steps that the API server refused or did not answer; each is tried again.",
            namespace=NAMESPACE,
            registry=registry,
        )
        self.passes = Histogram(
            "reclaimer_pass_seconds",
            "Seconds that one look at the whole cluster took, with all that was due.",
            buckets=_BUCKETS,
            namespace=NAMESPACE,
            registry=registry,
        )
