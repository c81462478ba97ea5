"""``kubectl gpu why``."""

from typing import Any, Final

import click

from booking.cli import output as printed
from booking.cli.api import part
from booking.cli.completions import pods_of_gpus
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.output import Format, printing
from booking.cli.typed_names import NAME, namespace_and_name

_CONTROLLERS: Final = (
    *("cronjob/", "daemonset/", "ds/", "deployment/", "deploy/", "job/"),
    *("replicaset/", "rs/", "statefulset/", "sts/"),
)
"""What kubectl allows before the name of a controller of pods."""


@click.command()
@click.argument("pod", type=NAME, shell_complete=pods_of_gpus(must_run=False))
@printing
@connection_options
def why(pod: str, output: Format, **options: Any) -> None:
    """Explain a POD: why it waits, what covers it, who may take its GPUs, and what would change that.

    A POD is its name, or NAMESPACE/NAME as "kubectl gpu status" shows it. For pods that could not even be
    created, name their Deployment, Job or StatefulSet.
    """
    server = connection_of(options)
    kind = next((each for each in _CONTROLLERS if pod.startswith(each)), "")
    namespace, name = namespace_and_name(server, pod.removeprefix(kind))
    answer = server.api.get(f"/pods/{part(namespace)}/{part(name)}/why")
    if output not in {"table", "wide"}:
        printed.show(answer, [answer], (), output=output, name=lambda a: f"pod/{a['name']}", empty="")
        return
    click.echo(f"{answer['namespace']}/{answer['name']}: {answer['state']}")
    for message in answer["because"]:
        click.echo(f"  {server.localized(message)}")
    if answer["would_change"]:
        click.echo("What would change it:")
    for message in answer["would_change"]:
        click.echo(f"  {server.localized(message)}")
