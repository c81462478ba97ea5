"""``kubectl gpu admin evict``, ``cordon``, ``uncordon`` and ``clear``: orders that others carry out."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from booking import wording
from booking.cli import output as printed
from booking.cli.administration.answers import ask
from booking.cli.completions import known_gpus, known_nodes, pods_of_gpus
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.output import Format, Row, printing, trying
from booking.cli.typed_names import NAME, namespace_and_name

_BACK: Final = "It would come back as its annotations say, by default without a GPU."

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


@click.command(short_help="Evict a POD from its GPUs, booked or not.")
@click.argument("pod", type=NAME, shell_complete=pods_of_gpus(must_run=True))
@click.option("--reason", required=True, help="Why; the owner sees it.")
@trying
@printing
@connection_options
def evict(pod: str, reason: str, output: Format, *, dry_run: bool, **options: Any) -> None:
    """Evict a POD from its GPUs, booked or not. With --dry-run, show whose pod would go.

    A bare pod comes back as its annotations say, by default without a GPU; a controller replaces its pod,
    or does not: --dry-run says so.
    A POD is its name, or NAMESPACE/NAME as "kubectl gpu status" shows it.
    """
    server = connection_of(options)
    namespace, name = namespace_and_name(server, pod)
    body = {"namespace": namespace, "pod": name, "reason": reason}
    made = ask(server, "POST", "evictions", body, dry_run=dry_run)
    pod_name = f"{namespace}/{name}"
    message = _would_be_evicted(pod_name, made) if dry_run else f"{pod_name} is being evicted."
    printed.print_result(made, output, name=pod_name, message=message)


def _on_gpu(command: Decorated) -> Decorated:
    """Add the arguments NODE and GPU to a command."""
    command = click.argument("gpu", type=NAME, shell_complete=known_gpus)(command)
    return click.argument("node", type=NAME, shell_complete=known_nodes)(command)


@click.command(short_help="Give a GPU of a NODE to no new pods.")
@_on_gpu
@click.option("--reason", required=True, help="Why; users see it.")
@trying
@printing
@connection_options
def cordon(node: str, gpu: str, output: Format, **options: Any) -> None:
    """Give a GPU of a NODE, named by its number or UUID, to no new pods; a pod that has it keeps it."""
    _order((node, gpu), "cordon", output, ("gets no new pods", "would get no new pods"), **options)


@click.command(short_help="Let new pods have a cordoned GPU of a NODE again.")
@_on_gpu
@click.option("--reason", default="back in use", help="Why.", show_default=True)
@trying
@printing
@connection_options
def uncordon(node: str, gpu: str, output: Format, **options: Any) -> None:
    """Let new pods have a cordoned GPU of a NODE, named by its number or UUID, again."""
    messages = ("is not cordoned any more", "would not be cordoned any more")
    _order((node, gpu), "uncordon", output, messages, **options)


@click.command(short_help="Report that a GPU of a NODE is repaired.")
@_on_gpu
@click.option("--reason", required=True, help="What was done; it is written to the audit.")
@trying
@printing
@connection_options
def clear(node: str, gpu: str, output: Format, **options: Any) -> None:
    """Report that a GPU of a NODE, named by its number or UUID, is repaired: it is probed again."""
    _order((node, gpu), "clear", output, ("is probed again", "would be probed again"), **options)


def _order(
    address: tuple[str, str],
    order: str,
    output: Format,
    messages: tuple[str, str],
    *,
    reason: str,
    dry_run: bool,
    **options: Any,
) -> None:
    """Send an order about a GPU, or try it as a dry run.

    Args:
        address: its node, and its number or UUID.
        order: the order.
        output: the format.
        messages: for an order that was carried out, and for a dry run.
        reason: why.
        dry_run: whether it is only tried.
        options: the connection options.
    """
    node, gpu = address
    body = {"node": node, "gpu": gpu, "order": order, "reason": reason}
    ordered = ask(connection_of(options), "POST", "gpu-orders", body, dry_run=dry_run)
    message = f"{ordered['gpu']} of {node} {messages[dry_run]}."
    printed.print_result(ordered, output, name=ordered["gpu"], message=message)


def _would_be_evicted(pod_name: str, pod: Row) -> str:
    """The result of a dry run: the pod's owner, its devices, and what happens next."""
    whose = f"of {pod['user']}" if pod.get("user") else "of nobody"
    covered = f"the booking {pod['booking']} covers it" if pod.get("booking") else "no booking covers it"
    gpus = f"{wording.counted(pod['gpus'], 'GPU')} of {pod['node']}"
    after = _BACK
    if pod.get("not_replaced"):
        after = f"{pod['controller']} would make no other in its place: {pod['not_replaced']}."
    elif pod.get("controller"):
        after = f"{pod['controller']} would make another in its place."
    return printed.printable(f"{pod_name} {whose} would be evicted from {gpus}: {covered}. {after}")
