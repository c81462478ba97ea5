"""Clusters in which pods are explained: two nodes of two A100 and one A6000 each."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import msgspec

from cluster import names
from cluster.decide.entitlement import candidate, entitlement
from cluster.decide.explain import Explanation, ExplanationSnapshot, explain_pod
from cluster.decide.ledger import Ledger
from cluster.objects.assignment import readable_assignment_of
from cluster.objects.bookings import Booking
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device
from cluster.objects.nodes import Node
from cluster.objects.pods import asks_for_gpus, is_terminal
from tests.fakes.objects import EPOCH, PodBuilder, a100, a6000, a_node, a_pod

NOW = EPOCH + timedelta(hours=1)
DAY = timedelta(days=1)
UNTIL = (
    "Nobody takes its GPUs before 2026-11-25 09:00 UTC, unless an administrator does so by name and reason."
)


def snapshot(
    *pods: PodBuilder, bookings: tuple[Booking, ...] = (), holds: Mapping[str, Hold] | None = None
) -> ExplanationSnapshot:
    """Two nodes of two A100 and one A6000; each pod and booking as given."""
    ledger = Ledger()
    for node in ("n0", "n1"):
        ledger.apply_node(a_node(node, a100(0, node), a100(1, node), a6000(2, node)))
    found = {pod.obj.metadata.uid: pod.obj for pod in pods}
    for pod in found.values():
        ledger.apply_pod(pod)
    living = {uid: pod for uid, pod in found.items() if not is_terminal(pod) and asks_for_gpus(pod)}
    models = {device: model for view in ledger.views(ledger.nodes()) for device, model in view.models.items()}
    candidates = [
        one
        for pod in living.values()
        if (one := candidate(pod, held=readable_assignment_of(pod), models=models))
    ]
    return ExplanationSnapshot(
        now=NOW,
        pods=living,
        node_snapshots={view.name: (view, "alive") for view in ledger.views(ledger.nodes())},
        bookings={one.name: one for one in bookings},
        cover=entitlement(bookings, candidates, NOW),
        holds={**ledger.holds, **(holds or {})},
    )


def over(nodes: dict[str, tuple[Device, ...]], *pods: PodBuilder) -> ExplanationSnapshot:
    """A snapshot of the pods with other nodes than the usual two."""
    ledger = Ledger()
    for name, devices in nodes.items():
        ledger.apply_node(a_node(name, *devices))
    for pod in pods:
        ledger.apply_pod(pod.obj)
    views = ledger.views(ledger.nodes())
    return replace(snapshot(*pods), node_snapshots={view.name: (view, "alive") for view in views})


def explained(pod: PodBuilder, *others: PodBuilder, bookings: tuple[Booking, ...] = ()) -> Explanation:
    """The explanation of a pod among others."""
    return explain_pod(pod.obj, snapshot(pod, *others, bookings=bookings))


def alices(name: str = "p") -> PodBuilder:
    return a_pod(name).of("alice").created(EPOCH)


def running(name: str = "p", index: int = 0) -> PodBuilder:
    return alices(name).asks(1).on("n0", {"main": (f"GPU-n0-{index}",)})


def taken() -> list[PodBuilder]:
    """The holders of all A100: a booked pod, a pod of alice's, and a pod of bob's with two and an end."""
    granted = a_pod("granted").of("bob").asks(2).on("n1", {"main": ("GPU-n1-0", "GPU-n1-1")})
    return [
        a_pod("booked").of("bob").asks(1).on("n0", {"main": ("GPU-n0-0",)}),
        running("mine", index=1),
        granted.with_annotation(names.TERMINATE_AT, "2026-11-23T18:00:00Z"),
    ]


def holding_all() -> list[PodBuilder]:
    """Holders of every A100 but the first."""
    return [
        a_pod(f"q{node}{index}").of("bob").asks(1).on(node, {"main": (f"GPU-{node}-{index}",)})
        for node, index in (("n0", 1), ("n1", 0), ("n1", 1))
    ]


def tainted(name: str) -> Node:
    return msgspec.convert(
        {"metadata": {"name": name}, "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, Node
    )
