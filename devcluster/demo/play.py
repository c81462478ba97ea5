"""Sets the stage for the story on a running cluster, and plays it. Used by ``make run`` and by tests."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from cluster import names
from cluster.kube.reflector import Reflector
from cluster.kube.resources import NODES, PODS
from cluster.objects.nodes import Node
from cluster.runtime.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator, person
from devcluster.demo.rest import Rest
from devcluster.demo.stage import Narrator, Stage
from devcluster.demo.story import Story
from devcluster.demo.teller import Teller
from devcluster.demo.watcher import Chronicle, Latest
from devcluster.parts import Parts
from devcluster.parts.people import NAMESPACE, USERS, People


class Deployed(Protocol):
    """The product in a cluster, however it got there."""

    people: People

    def deploy(self, report: Callable[[str], None]) -> None:
        """Start all of it; returns when all of it is ready."""
        ...

    def set_policy(self, settings: Mapping[str, str]) -> None:
        """Start the booking server again with other settings; returns when it is ready."""
        ...

    @property
    def booking_url(self) -> str:
        """Where it answers."""
        ...


def play(
    cluster: Cluster,
    teller: Teller,
    *,
    parts: Deployed | None = None,
    interlude: Callable[[str], None] | None = None,
    patience: float = 60.0,
) -> Deployed:
    """Deploy our parts and play the story; the parts.

    Args:
        cluster: with two nodes of the usual simulated GPUs, and nothing of ours in it.
        teller: who tells.
        parts: what is deployed; default: processes of the host.
        interlude: called with a name at the moments at which a test may want to do harm.
        patience: seconds that every step may take.

    Raises:
        StepError: a step did not happen.
        ClusterError: a part does not get ready, or does not answer.
    """
    parts = parts or Parts(cluster)
    parts.deploy(lambda line: teller.say("parts", line))
    narrator = Narrator(teller)
    with _stage(cluster, parts, narrator) as stage:
        more = replace(stage, patience=patience, interlude=interlude or stage.interlude)
        Story(more, teller, narrator).play()
    return parts


@contextmanager
def _stage(cluster: Cluster, parts: Deployed, narrator: Narrator) -> Iterator[Stage]:
    """Follow pods and nodes while the story plays."""
    kube, clock, stop = administrator(cluster), SystemClock(), threading.Event()
    pods, nodes = Chronicle(narrator.tell), Latest[Node]()
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
        yield Stage(
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
