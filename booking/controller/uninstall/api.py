"""Requests to the API server that every step needs."""

from contextlib import suppress

from cluster.kube.errors import NotFound
from cluster.kube.interface import EVERYTHING, Kube, Selection
from cluster.kube.resources import Resource, T

_PAGE = 500
_MOST_NAMED = 5


def everything(kube: Kube, resource: Resource[T], selection: Selection = EVERYTHING) -> tuple[list[T], str]:
    """All objects of a kind, and the resourceVersion of the list.

    Raises:
        ApiError: the API server could not be reached, or refused.
    """
    page = kube.list(resource, selection, limit=_PAGE)
    found, version = [*page.items], page.resource_version
    while page.continue_:
        page = kube.list(resource, selection, limit=_PAGE, continue_=page.continue_)
        found.extend(page.items)
    return found, version


def without(kube: Kube, resource: Resource[T], name: str, namespace: str | None = None) -> bool:
    """Delete an object if it exists; returns whether it did.

    Raises:
        ApiError: as above.
    """
    with suppress(NotFound):
        kube.delete(resource, name, namespace=namespace)
        return True
    return False


def some(found: list[str]) -> str:
    """The first of many, for a message."""
    more = [f"and {len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    return ", ".join([*found[:_MOST_NAMED], *more])
