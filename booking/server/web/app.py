"""The booking server's WSGI application: blueprints, request metrics, and problems."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final

import structlog
from flask import Blueprint, Flask, Response, g, request

from booking.server.metrics import ServerMetrics
from booking.server.web.compression import compressed
from booking.server.web.interfaces import Parts
from booking.server.web.problems import answer_problems
from booking.server.web.request_guard import RequestGuard
from booking.server.web.rest import NAME
from booking.server.web.rest.blueprint import blueprint_of
from booking.server.web.rest.body import LONGEST_BODY
from booking.server.web.rest.table import table
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

ROOT: Final = "/api/v1"
"""Prefix of every path of the REST API."""
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Defaults where a blueprint sets nothing else: answers are personal, of this moment, and no pages."""
_TRIED: Final = frozenset(
    {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.REQUEST_ENTITY_TOO_LARGE}
)
"""Requests that are forbidden. Clients that ask too often are reported once, where they are counted."""
_CREDENTIALS: Final = frozenset({"Authorization", "Cookie"})
_READING: Final = frozenset({"GET", "HEAD"})


def create_app(
    parts: Parts, guard: RequestGuard, *, audience: str, blueprints: Iterable[Blueprint] = ()
) -> Flask:
    """Build the application.

    Args:
        parts: the dependencies of the REST API.
        guard: authenticates requests to the REST API; the pages have been given the same one.
        audience: of the tokens, for the messages that explain how to get one.
        blueprints: more blueprints: the pages. Each sets its own headers on its answers, and may have its own
            error handlers.
    """
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = LONGEST_BODY
    # "//" would be redirected to whatever host the request names.
    app.url_map.merge_slashes = False
    app.after_request(compressed)
    answer_problems(app)
    _measure(app, parts.clock, parts.metrics)
    _report(app, guard)
    app.register_blueprint(blueprint_of(table(parts, root=ROOT, audience=audience), guard, root=ROOT))
    for blueprint in blueprints:
        app.register_blueprint(blueprint)
    return app


def _measure(app: Flask, clock: Clock, metrics: ServerMetrics) -> None:
    """Count every request, including refused and failed ones."""

    def begin() -> None:
        g.begin = clock.monotonic()

    def end(answer: Response) -> Response:
        endpoint = (request.endpoint or "unknown").removeprefix(f"{NAME}.")
        metrics.requests.labels(endpoint=endpoint, status=str(answer.status_code)).inc()
        metrics.seconds.labels(endpoint=endpoint).observe(clock.monotonic() - g.begin)
        for name, value in _HEADERS.items():
            answer.headers.setdefault(name, value)
        return answer

    app.before_request(begin)
    app.after_request(end)


def _report(app: Flask, guard: RequestGuard) -> None:
    """Log refused requests for administrators, except reads without credentials: they go to the login."""

    def log_refusal(answer: Response) -> Response:
        shows = request.method not in _READING or not _CREDENTIALS.isdisjoint(request.headers.keys())
        if answer.status_code in _TRIED and (shows or answer.status_code != HTTPStatus.UNAUTHORIZED):
            log.warning(
                "a request was refused",
                status=answer.status_code,
                method=request.method,
                endpoint=(request.endpoint or "unknown").removeprefix(f"{NAME}."),
                user=g.get("user"),
                address=guard.address(request),
            )
        return answer

    app.after_request(log_refusal)
