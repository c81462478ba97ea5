"""The lab of the demo, and the laws of the product over it."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from booking.eviction.settings import EvictionSettings
from booking.principals import Principal
from booking.server.cluster_status.now import Now, now_of
from booking.server.cluster_status.snapshot import take
from booking.server.cluster_status.viewer import Viewer
from cluster import names
from cluster.fake.clock import START
from cluster.kube.resources import BOOKINGS, LEASES, PODS
from cluster.objects.pods import Pod, is_live
from cluster.objects.scheduling_gates import is_queued
from demo.actions import Actions
from demo.lab.life import gpus_of
from demo.lab.nodes import LAB, devices_of
from demo.site import Site
from tests.laws.memory import watch_memory
from tests.laws.watcher import LawWatcher

COMES_BACK = 90.0
"""Seconds in which whoever has left is back."""


class WatchedSite(Site):
    """Every write is judged."""

    laws: LawWatcher | None = None

    def begin(self) -> None:
        """Who is at work already is known, not judged."""
        self.laws = watch_memory(
            self.kube,
            self.clock,
            leeway=0.1,
            maker=lambda: self.caller.known() if self.caller else None,
            claims=self.gives_claims,
        )
        super().begin()

    def allocated(self, node: str) -> None:
        """The law watcher sees the kubelets' checkpoints."""
        assert self.laws
        self.laws.kubelet(node, self.kubelets[node].holdings)

    def named(self, name: str) -> Pod | None:
        """A pod of any namespace."""
        return next((pod for pod in self.kube.list(PODS).items if pod.metadata.name == name), None)

    def runs(self, name: str) -> bool:
        """Whether a pod runs."""
        pod = self.named(name)
        return pod is not None and pod.status.phase == "Running"

    def now(self, who: Principal) -> Now:
        """What somebody is shown of the cluster."""
        snapshot = take(self.server.cache, self.clock, EvictionSettings())
        return now_of(snapshot, Viewer(who, "names"))

    def of_booking(self, name: str) -> str | None:
        """The booking that covers a pod."""
        pod = self.named(name)
        return pod.metadata.annotation(names.BOOKING) if pod else None


@contextmanager
def a_site(folder: Path, *, nodes: int = 6, empty: bool = False) -> Iterator[tuple[WatchedSite, Actions]]:
    """A lab that is at work, with its buttons; the laws are judged at the end."""
    site = WatchedSite(folder, devices_of(nodes), start=START, zone="UTC")
    try:
        site.open(empty=empty)
        yield site, Actions(site, lambda: site.server.bookings, site.feed)
        site.run(COMES_BACK)
        assert site.laws
        site.laws.finish()
    finally:
        site.close()


def texts(site: Any, name: str) -> list[str]:
    """What has happened to a pod, the oldest first."""
    return [entry.text for entry in reversed(site.feed.newest()) if entry.name == name]


def go_through(folder: Path, span: timedelta) -> None:
    """Let so much time pass at once in a new site; everything that the lab does in it has happened then."""
    with a_site(folder) as (site, _):
        before = site.clock.now()
        old = {pod.metadata.uid for pod in site.kube.list(PODS).items}
        site.go_on(span.total_seconds())
        assert site.clock.now() - before == span
        assert site.is_ready()
        assert site.server.following.unready_reason() is None
        site.go_on(10.0)  # who has just read what a leap brought gives its sign of life next
        oldest = min(lease.spec.renew_time for lease in site.kube.list(LEASES).items if lease.spec.renew_time)
        assert site.clock.now() - oldest < timedelta(seconds=60)
        pods = [pod for pod in site.kube.list(PODS).items if is_live(pod)]
        assert {pod.metadata.uid for pod in pods} - old, "Jobs are done, and others are begun."
        assert any(map(is_queued, pods)), "There is a line."
        assert sum(map(gpus_of, pods)) > 0.6 * sum(count for _, count in LAB)
        running = {
            b.name
            for b in site.kube.list(BOOKINGS).items
            if b.is_running(site.clock.now()) and b.spec.user not in ("alice", "bob")
        }
        assert {pod.metadata.annotation(names.BOOKING) for pod in pods} >= running
