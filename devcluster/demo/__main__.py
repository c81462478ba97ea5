"""``make run``: start a cluster, deploy our parts, play the story, stay until Ctrl-C."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import structlog

from cluster.kube.reflector import Reflector
from cluster.kube.resources import NODES, PODS
from cluster.objects.nodes import Node
from cluster.runtime.clock import SystemClock
from devcluster.binaries import BuildError
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.demo.story import NAMESPACE, Narrator, Stage, Story
from devcluster.demo.teller import StepError, Teller
from devcluster.demo.watcher import Chronicle, Latest
from devcluster.failure import ClusterError
from devcluster.fakenvml import CompilerMissingError, default_gpus
from devcluster.parts import Parts
from devcluster.spec import DEFAULT_NAME, ClusterSpec, NodeSpec

NODE_NAMES = ("node-a", "node-b")


@click.command()
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="Which cluster.")
@click.option("--once", is_flag=True, help="End after the story instead of staying until Ctrl-C.")
def main(name: str, *, once: bool) -> None:
    """Play the story on a real Kubernetes with simulated GPUs."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    signal.signal(signal.SIGTERM, _interrupt)
    teller = Teller()
    nodes = tuple(NodeSpec(name=node, gpus=default_gpus(index)) for index, node in enumerate(NODE_NAMES))
    try:
        teller.chapter("A real Kubernetes starts, with two nodes of four simulated GPUs.")
        with Cluster.start(
            ClusterSpec(name=name, nodes=nodes), report=lambda line: teller.say("cluster", line)
        ) as cluster:
            _play(cluster, teller)
            if not once:
                teller.chapter(f"export KUBECONFIG={cluster.kubeconfig}")
                teller.chapter(
                    f"The cluster stays until Ctrl-C. Try in another terminal: {_look_around(name)}"
                )
                threading.Event().wait()
    except KeyboardInterrupt:
        pass
    except (StepError, ClusterError, BuildError, CompilerMissingError) as error:
        raise click.ClickException(str(error)) from error
    teller.chapter("The cluster is gone.")


def _look_around(name: str) -> str:
    """A command for a person's terminal: the machine may have no kubectl of its own."""
    which = "" if name == DEFAULT_NAME else f" --name {name}"
    return f".venv/bin/python -m devcluster kubectl{which} get pods -A"


def _play(cluster: Cluster, teller: Teller) -> None:
    Parts(cluster).deploy(report=lambda line: teller.say("parts", line))
    cluster.kubectl("create", "namespace", NAMESPACE)
    narrator = Narrator(teller)
    with _stage(cluster, narrator) as stage:
        Story(stage, teller, narrator).play()


@contextmanager
def _stage(cluster: Cluster, narrator: Narrator) -> Iterator[Stage]:
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
        yield Stage(kube=kube, kubectl=cluster.kubectl, pods=pods, nodes=nodes, node_names=cluster.nodes)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main(prog_name="make run")
