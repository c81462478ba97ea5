"""``make run``: start a cluster, install the product, play the story, open the page, stay until Ctrl-C."""

import signal
import threading
from typing import Any

import click
import structlog

from cluster import names
from devcluster import versions
from devcluster.binaries import BuildError
from devcluster.cluster import Cluster
from devcluster.demo import page
from devcluster.demo.failure_dump import cluster_state
from devcluster.demo.play import Deployed, play
from devcluster.demo.reporter import Reporter, StepError
from devcluster.errors import ClusterError
from devcluster.fakenvml import CompilerMissingError, default_gpus
from devcluster.product import Parts
from devcluster.product.installed import Installed
from devcluster.product.people import NAMESPACE
from devcluster.spec import DEFAULT_NAME, ClusterSpec, NodeSpec

NODE_NAMES = ("node-a", "node-b")
_PATIENCE = 180.0
"""Seconds that a step may take: laptops may be slow."""


@click.command()
@click.option("--name", default=DEFAULT_NAME, show_default=True, help="Which cluster.")
@click.option("--once", is_flag=True, help="End after the story instead of staying until Ctrl-C.")
@click.option(
    "--processes", is_flag=True, help="Start our parts as processes of the host, without images: faster."
)
@click.option(
    "--kubernetes",
    default="",
    help="Minor version of Kubernetes, such as 1.30; built first. Default: the newest.",
)
@click.option(
    "--emulates", default="", help="An older minor version that the newest passes for, such as 1.35."
)
def main(name: str, *, once: bool, processes: bool, kubernetes: str, emulates: str) -> None:
    """Play the story on a real Kubernetes with simulated GPUs."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(40))
    signal.signal(signal.SIGTERM, _interrupt)
    reporter = Reporter()
    nodes = tuple(NodeSpec(name=node, gpus=default_gpus(index)) for index, node in enumerate(NODE_NAMES))
    try:
        reporter.chapter("A real Kubernetes starts, with two nodes of four simulated GPUs.")
        spec = ClusterSpec(
            name=name, nodes=nodes, kubernetes=versions.named(kubernetes), emulates=versions.named(emulates)
        )
        with Cluster.start(spec, report=lambda line: reporter.say("cluster", line)) as cluster:
            parts: Deployed = Parts(cluster) if processes else Installed(cluster)
            try:
                play(cluster, reporter, parts=parts, patience=_PATIENCE)
            except StepError as error:
                raise ClusterError(f"{error}\n{cluster_state(cluster)}") from error
            reporter.say("parts", "the policy stays: bookings of 10 seconds and more, no time between two")
            if not once:
                kubeconfig = f"export KUBECONFIG={cluster.kubeconfig}"
                reporter.chapter(f"REST API: {parts.booking_url}/api/v1\n{kubeconfig}")
                _stay(cluster, reporter, parts)
    except KeyboardInterrupt:
        pass
    except (StepError, ClusterError, BuildError, CompilerMissingError) as error:
        raise click.ClickException(str(error)) from error
    reporter.chapter("The cluster is gone.")


def _stay(cluster: Cluster, reporter: Reporter, parts: Deployed) -> None:
    """Serve the page until Ctrl-C."""
    with page.opened(parts.booking_url) as address:
        token = f"create token alice --namespace {NAMESPACE} --audience {names.AUDIENCE}"
        reporter.chapter(
            f"Page: {address}\nTo sign in as alice there, paste what this prints:"
            f" {_kubectl(cluster.name)} {token}"
        )
        example = f"{_kubectl(cluster.name)} get pods -A"
        reporter.chapter(f"The cluster stays until Ctrl-C. Try in another terminal: {example}")
        threading.Event().wait()


def _kubectl(name: str) -> str:
    """The command of kubectl for a person's terminal: the machine may have no kubectl of its own."""
    which = "" if name == DEFAULT_NAME else f" --name {name}"
    return f".venv/bin/python -m devcluster kubectl{which}"


def _interrupt(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main(prog_name="make run")
