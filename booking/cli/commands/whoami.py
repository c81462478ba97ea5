"""``kubectl gpu whoami``."""

from typing import Any, Final

import click

from booking.cli import output as printed
from booking.cli.connection_options import connection_of, connection_options
from booking.cli.output import FOR_PEOPLE, Column, Format, Row, printing

_SOURCES: Final = {
    "kubernetes": "Kubernetes",
    "oidc": "identity provider",
    "jupyterhub": "JupyterHub",
    "maia": "MAIA",
}
"""Source of the identity rules -> who knows the name."""


@click.command(short_help="Show your user id, and every name by which you are known.")
@printing
@connection_options
def whoami(output: Format, **options: Any) -> None:
    """Show your user id, and the names by which Kubernetes, the identity provider and a JupyterHub know you.

    Pods and bookings of any of these names are yours. With -o wide also the labels of your notebooks.
    """
    answer = connection_of(options).api.get("/me")
    if output in FOR_PEOPLE:
        click.echo(printed.printable(_sentence(answer)))
    printed.show(
        answer,
        answer["known_as"] if output in FOR_PEOPLE else [answer],
        (
            Column("KNOWN TO", lambda known: _SOURCES.get(known["source"], known["source"])),
            Column("AS", _names),
            Column("LABELS", lambda known: ", ".join(known["labels"]), wide=True),
        ),
        output=output,
        name=lambda me: f"user/{me['user']}",
        empty="",
    )
    for note in answer["notes"] if output in FOR_PEOPLE else ():
        click.echo(printed.printable(note))


def _sentence(answer: Row) -> str:
    role = ", an administrator" if answer["is_administrator"] else ""
    groups = f" Your groups: {', '.join(answer['groups'])}." if answer["groups"] else ""
    return f"You are {answer['user']}{role}, signed in as {answer['name']}.{groups}"


def _names(known: Row) -> str:
    named = ", ".join(known["names"])
    if named and known["any_case"]:
        named += " (capital letters do not matter)"
    patterns = [f"names that match {each}" for each in known["patterns"]]
    return "; ".join(filter(None, (named, *patterns)))
