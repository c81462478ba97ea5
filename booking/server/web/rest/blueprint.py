"""Turns the table of routes into a Flask blueprint: access, parsing, answers."""

from collections.abc import Callable, Iterable
from typing import Any

from flask import Blueprint, Response, request

from booking.principals import Principal
from booking.server.web.problems import FORBIDDEN, NOT_JSON, ProblemError
from booking.server.web.request_guard import RequestGuard
from booking.server.web.rest import NAME
from booking.server.web.rest.body import FIELDS, parsed
from booking.server.web.rest.parsing import Given, Read, read
from booking.server.web.rest.query import query_as
from booking.server.web.rest.routes import ANONYMOUS, ReadRequest, Route, response_of


def blueprint_of(routes: Iterable[Route[Any, Any]], guard: RequestGuard, *, root: str) -> Blueprint:
    """The routes of a table, below ``root``."""
    made = Blueprint(NAME, __name__, url_prefix=root)
    for route in routes:
        path = route.path.replace("{", "<").replace("}", ">")
        view = _view(route, guard)
        made.add_url_rule(path, route.name, view, methods=[route.method], provide_automatic_options=False)
    return made


def _view(route: Route[Any, Any], guard: RequestGuard) -> Callable[..., Response]:
    def view(**path: str) -> Response:
        who = _who(route, guard)
        raw = request.get_data(cache=False) if route.takes_body else b""
        query = query_as(route.query).made()
        body = _body(route, raw)
        if route.needs_role is not None and route.needs_role(body):
            who = guard.with_role(request)
        call = ReadRequest(
            who=who,
            query=query,
            body=body,
            raw=raw,
            path=path,
            headers=request.headers,
        )
        return response_of(route.view(call))

    return view


def _who(route: Route[Any, Any], guard: RequestGuard) -> Principal:
    if route.access == "anybody":
        guard.count_anonymous(request)
        return ANONYMOUS
    who = guard.enter(request, asks_role=route.needs_role is None)
    if route.access == "administrator" and not who.is_administrator:
        raise ProblemError(FORBIDDEN, "Only administrators of bookings may ask that.")
    return who


def _body(route: Route[Any, Any], raw: bytes) -> Read[Any]:
    if not raw and (route.body_is_optional or not route.takes_body):
        return read(route.body, Given({}), FIELDS)
    if request.mimetype != "application/json":
        raise ProblemError(
            NOT_JSON, "Send the body as JSON, with the header: Content-Type: application/json."
        )
    return read(route.body, parsed(raw), FIELDS)
