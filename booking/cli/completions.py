"""What a shell completes for each kind of name; nothing where the server does not answer in time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from booking.cli import typed_names
from booking.cli.connection_options import quick_connection
from booking.cli.deadline import found_in_time
from booking.cli.output import printable
from cluster import names

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
"""A completion as click calls it, with the command line read so far, the parameter, and the beginning of the
word."""

_PAGE: Final = 500
"""Entries per page: the most that the booking server sends at once."""


def bookings_in(state: str | None = None) -> Completer:
    """Bookings: the user's own, for an administrator all users'.

    Args:
        state: only those in it; None: those that run and are planned, with ``--past`` the others as well.
    """

    def known(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        query = {"state": state, "past": True if context.params.get("past") else None, "limit": _PAGE}
        return found_in_time(lambda: _bookings(_listed(context, "bookings", query), incomplete))

    return known


def known_blocks(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Maintenance that runs or is planned, by its id."""
    query = {"limit": _PAGE}
    return found_in_time(lambda: _blocks(_listed(context, "admin/blocks", query), incomplete))


def known_exemptions(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Exemptions that hold or will, by their id."""
    query = {"limit": _PAGE}
    return found_in_time(lambda: _exemptions(_listed(context, "admin/exemptions", query), incomplete))


def known_subjects(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Subjects in the audit: bookings, maintenance and exemptions, by their id."""

    def find() -> Iterator[CompletionItem]:
        query = {"limit": _PAGE}
        yield from _bookings(_listed(context, "bookings", query), incomplete)
        yield from _blocks(_listed(context, "admin/blocks", query), incomplete)
        yield from _exemptions(_listed(context, "admin/exemptions", query), incomplete)

    return found_in_time(find)


def known_models(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Existing models; a part of the name is enough, as it is for the command."""
    folded = names.model_label(incomplete).casefold()

    def find() -> Iterator[CompletionItem]:
        for each in _listed(context, "availability", field="models"):
            if folded in each["model"].casefold():
                yield CompletionItem(each["model"])

    return found_in_time(find)


def known_nodes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Nodes with GPUs that the command line does not name yet."""
    named = context.params.get(parameter.name or "")
    before = named if isinstance(named, tuple) else ()

    def find() -> Iterator[CompletionItem]:
        for each in _listed(context, "now", field="nodes"):
            if each["node"].startswith(incomplete) and each["node"] not in before:
                yield CompletionItem(each["node"])

    return found_in_time(find)


def known_gpus(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """GPUs of the node that the line names: by number, or by UUID once one has been begun."""

    def find() -> Iterator[CompletionItem]:
        for node in _listed(context, "now", field="nodes"):
            if node["node"] == context.params.get("node"):
                yield from _gpus(node["devices"], incomplete)

    return found_in_time(find)


def pods_of_gpus(*, must_run: bool) -> Completer:
    """Pods that request GPUs, or did, in the namespace that the line names, else the context's.

    Args:
        must_run: only those that are on a node and not terminating.
    """

    def known(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        prefix = next((each for each in typed_names.KINDS if incomplete.startswith(each)), "")
        begun = incomplete.removeprefix(prefix)

        def find() -> Iterator[CompletionItem]:
            server = quick_connection(context)
            for name in server.cluster.pods_of_gpus(server.namespace, must_run=must_run):
                if name.startswith(begun):
                    yield CompletionItem(f"{prefix}{name}")

        return found_in_time(find)

    return known


def _listed(
    context: click.Context, what: str, query: Mapping[str, object] | None = None, *, field: str | None = None
) -> Iterator[dict[str, Any]]:
    """Entries of a list of the booking server's, as its pages come."""
    return quick_connection(context).api.each(f"/{what}", field or what.rpartition("/")[2], query)


def _bookings(listed: Iterable[Mapping[str, Any]], incomplete: str) -> Iterator[CompletionItem]:
    for each in listed:
        if each["id"].startswith(incomplete):
            what = f"{each['count']} x {each['model']} of {each['user']}, {each['state']}"
            yield CompletionItem(each["id"], help=printable(what))


def _blocks(listed: Iterable[Mapping[str, Any]], incomplete: str) -> Iterator[CompletionItem]:
    for each in listed:
        if each["id"].startswith(incomplete):
            yield CompletionItem(each["id"], help=printable(f"{each['node']}: {each['reason']}"))


def _exemptions(listed: Iterable[Mapping[str, Any]], incomplete: str) -> Iterator[CompletionItem]:
    for each in listed:
        if each["id"].startswith(incomplete):
            limits = ", ".join(f"{name}={value}" for name, value in each["limits"].items())
            yield CompletionItem(each["id"], help=printable(f"{each['user']}: {limits}"))


def _gpus(devices: Iterable[Mapping[str, Any]], incomplete: str) -> Iterator[CompletionItem]:
    """GPUs by number, or by UUID once one is begun. A number means a whole GPU, listed before its parts."""
    numbers: set[str] = set()
    for each in devices:
        about, number = printable(f"{each['model']}, {each['state']}"), str(each["index"])
        if incomplete and each["uuid"].startswith(incomplete):
            yield CompletionItem(each["uuid"], help=about)
        elif number.startswith(incomplete) and number not in numbers:
            numbers.add(number)
            yield CompletionItem(number, help=about)
