"""The commands of devcluster: `python -m devcluster up`, `down`, `status`, and faults by name."""

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from devcluster import cluster as clusters
from devcluster import machine, versions
from devcluster.binaries import BuildError
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.fakenvml import CompilerMissingError, default_gpus
from devcluster.product import Parts
from devcluster.spec import DEFAULT_NAME, ClusterSpec, NodeSpec

_named = click.option("--name", default=DEFAULT_NAME, show_default=True, help="Which cluster.")


_BY_HAND = ".venv/bin/python -m devcluster"


class _ErrorMessages(click.Group):
    """Turns the errors of clusters into their message and a non-zero exit."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ClusterError, BuildError, CompilerMissingError) as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_ErrorMessages, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """A real Kubernetes on this machine, with simulated GPUs."""


@main.command()
@_named
@click.option("--nodes", default=2, show_default=True, help="How many nodes.")
@click.option("--gpus/--no-gpus", default=True, help="Four simulated GPUs per node, or none.")
@click.option("--parts/--no-parts", default=False, help="Deploy GPU Booking in it, too.")
@click.option(
    "--kubernetes", default="", help="Its minor version, such as 1.30; built first. Default: the newest."
)
@click.option(
    "--emulates", default="", help="An older minor version that the newest passes for, such as 1.35."
)
@click.option("--replace", is_flag=True, help="Stop a cluster of this name first, if one runs.")
def up(
    name: str, nodes: int, *, gpus: bool, parts: bool, kubernetes: str, emulates: str, replace: bool
) -> None:
    """Start a cluster and say how to reach it."""
    if not replace and clusters.runs(name):
        click.echo(f"cluster {name} runs already")
        cluster = Cluster.attach(name)
        cluster.publish_kubeconfig()
    else:
        spec = ClusterSpec(
            name=name,
            nodes=tuple(
                NodeSpec(name=f"node-{_letter(index)}", gpus=default_gpus(index) if gpus else ())
                for index in range(nodes)
            ),
            kubernetes=versions.named(kubernetes),
            emulates=versions.named(emulates),
        )
        cluster = Cluster.start(spec, report=click.echo)
        if parts:
            Parts(cluster).deploy(report=click.echo)
        cluster.release()
    click.echo(f"export KUBECONFIG={cluster.kubeconfig}")


@main.command()
@_named
@click.option("--all", "every", is_flag=True, help="Every cluster of this machine, even one in use.")
def down(name: str, *, every: bool) -> None:
    """Stop a cluster and remove everything of it, whatever state it is in."""
    if every:
        machine.remove_all(click.echo)
        click.echo("there is no cluster on this machine")
        return
    there = clusters.remove(name)
    click.echo(f"cluster {name} is gone" if there else f"there was no cluster {name}")


@main.command()
def status() -> None:
    """List the clusters of this machine, and their processes."""
    there = machine.found()
    if not there:
        click.echo("no clusters")
    for one in there:
        if not one.runs:
            click.echo(f"{one}: does not run, has left something ({_BY_HAND} down --name {one.paths.name})")
            continue
        try:
            _describe(one)
        except ClusterError:
            click.echo(f"{one}: ends at this moment")


def _describe(one: machine.Found) -> None:
    cluster = Cluster.attach(one.paths.name, root=one.paths.root)
    click.echo(f"{one}: {cluster.api_server} KUBECONFIG={cluster.kubeconfig}")
    if one.owner and one.owner.lives and not one.owner.kept:
        click.echo(f"  of {one.owner}")
    for daemon in cluster.daemons.values():
        try:
            state = f"pid {daemon.pid}"
        except ClusterError:
            state = f"ended with {daemon.exited}"
        click.echo(f"  {daemon.name:<28} {state}")


def _fault(verb: Callable[[Cluster, str], None], text: str) -> None:
    """Make the command of one fault."""

    @main.command(name=verb.__name__, help=text)
    @_named
    @click.argument("what")
    def command(name: str, what: str) -> None:
        verb(Cluster.attach(name), what)


_fault(Cluster.kill, "Kill (-9) a process such as kube-scheduler or node-a/kubelet, or a node with its pods.")
_fault(Cluster.restart, "Kill and start again a process, or the processes of a node.")
_fault(Cluster.pause, "Stop a process or a node where it is (SIGSTOP).")
_fault(Cluster.resume, "Let a paused process or node go on.")


@main.command()
@_named
@click.argument("what")
def log(name: str, what: str) -> None:
    """Print what a process of a cluster said so far."""
    click.echo(Cluster.attach(name).log(what), nl=False)


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@_named
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def kubectl(name: str, words: tuple[str, ...]) -> None:
    """Run kubectl as a cluster's administrator."""
    argv, environment = Cluster.attach(name).kubectl_command(*words)
    os.execve(argv[0], argv, environment)  # noqa: S606 - kubectl takes over this terminal


def _letter(index: int) -> str:
    return chr(ord("a") + index)


if __name__ == "__main__":
    sys.exit(main(prog_name=_BY_HAND))
