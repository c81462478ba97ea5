"""Prepares the story on a running cluster, and plays it. Used by ``make run`` and by tests."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from cluster import names
from cluster.kube.reflector import Reflector
from cluster.kube.resources import NODES, PODS
from cluster.objects.nodes import Node
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator, person
from devcluster.demo.context import Context, Narrator
from devcluster.demo.pod_cache import ObjectCache, PodCache
from devcluster.demo.reporter import Reporter
from devcluster.demo.rest import Rest
from devcluster.demo.story import Story
from devcluster.product import Parts
from devcluster.product.people import NAMESPACE, USERS, People


class Deployed(Protocol):
    """The product in a cluster, however it got there."""

    people: People

    def deploy(self, report: Callable[[str], None]) -> None:
        """Start all parts; returns when they are ready."""
        ...

    def set_policy(self, settings: Mapping[str, str]) -> None:
        """Restart the booking server with other settings; returns when it is ready."""
        ...

    @property
    def booking_url(self) -> str:
        """URL of the booking server."""
        ...


def play(
    cluster: Cluster,
    reporter: Reporter,
    *,
    parts: Deployed | None = None,
    interlude: Callable[[str], None] | None = None,
    patience: float = 60.0,
) -> Deployed:
    """Deploy our parts and play the story. Returns the parts.

    Args:
        cluster: with two nodes of the default simulated GPUs, and nothing of ours in it.
        reporter: writes the lines.
        parts: what is deployed; by default processes of the host.
        interlude: called with a name at the moments at which a test may inject a fault.
        patience: seconds that each step may take.

    Raises:
        StepError: a step did not happen.
        ClusterError: a part does not get ready, or does not answer.
    """
    parts = parts or Parts(cluster)
    parts.deploy(lambda line: reporter.say("parts", line))
    narrator = Narrator(reporter)
    with _context(cluster, parts, narrator) as context:
        more = replace(context, patience=patience, interlude=interlude or context.interlude)
        Story(more, reporter, narrator).play()
    return parts


@contextmanager
def _context(cluster: Cluster, parts: Deployed, narrator: Narrator) -> Iterator[Context]:
    """Follow pods and nodes while the story plays."""
    kube, clock, stop = administrator(cluster), SystemClock(), threading.Event()
    pods, nodes = PodCache(narrator.report), ObjectCache[Node]()
    threads = [
        threading.Thread(target=follower.run, args=(stop,), daemon=True)
        for follower in (
            Reflector(kube, PODS, pods, clock, namespace=NAMESPACE),
            Reflector(kube, NODES, nodes, clock),
        )
    ]
    for thread in threads:
        thread.start()
    try:
        yield Context(
            namespace=NAMESPACE,
            people={user: person(cluster, parts.people.token(user)) for user in USERS},
            rest=Rest(parts.booking_url, parts.people.token("alice", names.AUDIENCE)),
            policy=parts.set_policy,
            kubectl=cluster.kubectl,
            pods=pods,
            nodes=nodes,
            node_names=cluster.nodes,
        )
    finally:
        stop.set()
        for thread in threads:
            thread.join()
