"""How soon each target recovers after it was struck, as a table. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from tests.long.churn.recoveries import by_part

MEANS: Final = {
    "node-agent": "its pod is Ready, its Lease is renewed, the kubelet offers every GPU of the node",
    "booking server": "its one pod is Ready, bookings are listed by REST, its mirror's Lease is renewed",
    "leading controller": "both pods are Ready, one has renewed the Lease, the webhook answers a dry run",
    "extender of the leading scheduler": "both pods are Ready, one has renewed the Lease",
    "leading scheduler": "the same",
    "kubelet": "it has renewed the Lease of its Node, which is Ready, and offers every GPU",
    "containerd": "it answers, and its Node is Ready",
    "etcd": "pods can be listed, read from etcd, and the webhook answers a dry run",
    "kube-apiserver": "the same",
}
"""Part -> from when on it has recovered. Counted from the blow; from the next start of a process of the
cluster; from when a paused one went on. Whatever else is away meanwhile counts, too."""


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """One of somebody who was struck."""

    part: str
    kind: str
    seconds: float


def table(recoveries: Sequence[Recovery]) -> list[str]:
    """Lines: who, how often each way, the median and the longest in seconds; then what is meant."""
    head = f"{'part':34} {'killed':>7} {'deleted':>7} {'paused':>7} {'p50 s':>7} {'max s':>7}"
    struck = by_part(recoveries)
    meanings = [f"  {part}: {MEANS[part]}" for part in MEANS if part in struck]
    lines = [_line(part, struck[part]) for part in MEANS if part in struck]
    return [head, *lines, "Recovered means:", *meanings]


def _line(part: str, found: Sequence[Recovery]) -> str:
    times = " ".join(
        f"{sum(one.kind == kind for one in found):7}" for kind in ("killed", "deleted", "paused")
    )
    seconds = [one.seconds for one in found]
    return f"{part:34} {times} {median(seconds):7.1f} {max(seconds):7.1f}"
