"""The reclaimer's metrics. The composition root creates them once, on a registry that it passes in."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from cluster.process.metrics import NAMESPACE

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class ReclaimerMetrics:
    """Holds and what became of them, pods taken away, and how long each reconciliation took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        common: Any = {"namespace": NAMESPACE, "registry": registry}
        self.holds = Counter(
            "reclaimer_holds_total",
            "Holds of devices for booked pods, by outcome: written, bound (used), dropped, barred (the"
            " pod was not bound).",
            ("outcome",),
            **common,
        )
        self.terminations = Counter(
            "reclaimer_terminations_total",
            "Pods that were terminated, by reason: evicted (for a booked pod, or by an administrator's"
            " order), share (for the fair share of another user), overuse (of a GPU that they shared), ended"
            " (with their booking).",
            ("reason",),
            **common,
        )
        self.evictions_blocked = Counter(
            "reclaimer_evictions_blocked_total",
            "Evictions that a disruption budget blocked.",
            **common,
        )
        self.evictions_refused = Counter(
            "reclaimer_evictions_refused_total",
            "Times that another victim was looked for because the API server, or a webhook, kept refusing an"
            " eviction.",
            **common,
        )
        self.budgets_overridden = Counter(
            "reclaimer_budgets_overridden_total",
            "Evictions in spite of a disruption budget that had kept a booked pod waiting for too long.",
            **common,
        )
        turns = "Turns of pods without a booking, by kind: free, taken (from who had more than a share)."
        self.turns = Counter("reclaimer_turns_total", turns, ("kind",), **common)
        self.ungated_pods = Counter(
            "reclaimer_ungated_pods_total",
            "Pods whose scheduling gate was removed.",
            **common,
        )
        self.decisions = Histogram(
            "reclaimer_decision_seconds",
            "Seconds from the change that made a booked pod need other pods' devices to the first eviction;"
            " without those that are given notice, and those where free devices are waited for.",
            buckets=_BUCKETS,
            **common,
        )
        self.api_failures = Counter(
            "reclaimer_api_failures_total",
            "Steps for which the API server refused a request or did not answer; each is retried.",
            **common,
        )
        self.reconcile_seconds = Histogram(
            "reclaimer_reconcile_seconds",
            "Seconds that one reconciliation of the whole cluster took, with everything that was due.",
            buckets=_BUCKETS,
            **common,
        )
