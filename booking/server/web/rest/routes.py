"""A route of the REST API: an entry of the table that makes both paths and OpenAPI document."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec
from flask import Response
from werkzeug.datastructures import Headers

from booking.principals import Principal
from booking.server.web.encoding import json_text
from booking.server.web.problems import Kind
from booking.server.web.rest.parsing import Read

Access = Literal["anybody", "signed-in", "administrator"]
Method = Literal["GET", "POST", "PATCH", "DELETE"]
Q = TypeVar("Q", bound=msgspec.Struct)
B = TypeVar("B", bound=msgspec.Struct)


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A query without parameters, or no body."""


ANONYMOUS: Final = Principal(user="", name="")
"""The caller of a route that needs no authentication."""


@dataclass(frozen=True, kw_only=True)
class ReadRequest(Generic[Q, B]):
    """A parsed request."""

    who: Principal
    query: Q
    body: Read[B]
    """``made()`` refuses a body that cannot be parsed."""
    raw: bytes
    """The body as received, before it was parsed."""
    path: Mapping[str, str]
    headers: Headers


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a view returns: body, status and headers."""

    body: Any
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Header:
    """A header of a request or an answer."""

    name: str
    about: str
    pattern: str | None = None
    longest: int | None = None
    required: bool = True
    """For an answer: whether every answer with this status has it. Headers of a request are all optional."""


@dataclass(frozen=True, kw_only=True)
class RouteAnswer:
    """A possible answer of a route with one status, for the OpenAPI document."""

    body: type[msgspec.Struct] | type[dict[str, Any]]
    about: str
    or_body: type[msgspec.Struct] | None = None
    """Another type that the body may have; None: no other."""
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Link:
    """Where an answer leads: the id in its body is the id in another route's path."""

    route: str
    parameter: str


@dataclass(frozen=True, kw_only=True)
class Route(Generic[Q, B]):
    """One method of one path."""

    method: Method
    path: str
    """Below the root, as OpenAPI writes it: ``/bookings/{id}``."""
    name: str
    summary: str
    """What the route is for, in one line."""
    view: Callable[[ReadRequest[Q, B]], Reply | Response]
    query: type[Q]
    body: type[B]
    """Type of the body; ``Nothing``: no body is read."""
    answers: Mapping[HTTPStatus, RouteAnswer]
    access: Access = "signed-in"
    body_is_optional: bool = False
    headers: tuple[Header, ...] = ()
    """Headers of the request, all optional."""
    kinds: tuple[Kind, ...] = ()
    """Problems in addition to those that every route may answer with."""
    links: tuple[Link, ...] = ()
    needs_role: Callable[[Read[B]], bool] | None = None
    """Whether a body asks for what only administrators may; None: any request may depend on that.

    Where it does not the API server is not asked for the caller's role."""

    @property
    def takes_body(self) -> bool:
        """Whether a body is read."""
        return self.body.__struct_fields__ != ()


def response_of(reply: Reply | Response) -> Response:
    """An answer in JSON."""
    if isinstance(reply, Response):
        return reply
    return Response(
        json_text(reply.body),
        status=reply.status,
        headers=dict(reply.headers),
        content_type="application/json",
    )
