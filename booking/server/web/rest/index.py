"""The index of the API: for people, and as an OpenAPI document for programs."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

from booking.server.web.rest.openapi import document
from booking.server.web.rest.responses import Index
from booking.server.web.rest.routes import Nothing, ReadRequest, Reply, Route
from cluster.version import VERSION

_MODEL: Final = "NVIDIA-A100-SXM4-80GB"


class IndexView:
    """The route ``GET /api/v1``."""

    def __init__(self, root: str, audience: str) -> None:
        self._root = root
        self._audience = audience
        self._addresses: dict[str, str] = {}

    def describe(self, routes: Sequence[Route[Any, Any]]) -> None:
        """Set the routes to list."""
        self._addresses = {f"{route.method} {self._root}{route.path}": route.summary for route in routes}

    def show(self, call: ReadRequest[Nothing, Nothing]) -> Reply:
        """The list of routes, and how to get and present a token; the same for all callers."""
        del call
        answer = Index(
            name="GPU Booking",
            token=f"kubectl create token NAME -n NAMESPACE --audience {self._audience}",
            header="Authorization: Bearer TOKEN",
            addresses=self._addresses,
            example={"model": _MODEL, "count": 1, "start": "2026-03-02T09:00:00+01:00", "duration": "P2D"},
            openapi=f"{self._root}/openapi.json",
        )
        return Reply(body=answer)


class DocumentView:
    """The route ``GET /api/v1/openapi.json``."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._routes: Sequence[Route[Any, Any]] = ()

    def describe(self, routes: Sequence[Route[Any, Any]]) -> None:
        """Set the routes to describe."""
        self._routes = routes

    @cached_property
    def _document(self) -> dict[str, Any]:
        """Built at the first request: it takes longer than the rest of the server's start."""
        return document(self._routes, root=self._root, version=VERSION)

    def show(self, call: ReadRequest[Nothing, Nothing]) -> Reply:
        """The OpenAPI document; the same for all callers."""
        del call
        return Reply(body=self._document)
