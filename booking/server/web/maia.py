"""The addresses of MAIA's dashboard that its webhook reads, implemented by us (MAIA at df4a600, 2026-08).

They know no users, only MAIA's own token in the body; if we have no token in a file, no request is answered.
What the old ones showed to any client (all bookings with their users' e-mail addresses, whose pods hold which
GPUs) is not shown.
"""

import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from flask import Blueprint, Response, request

from booking.principals import Principal
from booking.server.errors import RefusedError, StoreError
from booking.server.records import BookingRequest
from booking.server.service import BookingService
from booking.server.store import Store
from booking.server.store_records import Filters
from booking.server.web.anonymous_limits import AnonymousLimits
from booking.server.web.mirror_barrier import MirrorBarrier
from booking.server.web.problems import RETRY_AFTER, TOO_MANY, ProblemError
from cluster.cache.node_snapshots import NodeSnapshot
from cluster.decide.identity import Rule, user_of
from cluster.objects.cover_annotations import text_of

log = structlog.get_logger(__name__)

SCHEDULABILITY: Final = "/maia-api/gpu-schedulability"
STATS: Final = ("/maia-api/gpu-stats", "/maia/resources/gpu_status_summary")
"""The second is the one that MAIA's installer configures."""
FORMAT: Final = "%Y-%m-%d %H:%M:%S"
"""Format of instants in MAIA's requests; they are UTC."""

MaiaAnswer = tuple[HTTPStatus, Mapping[str, Any]]
_NO: Final[MaiaAnswer] = HTTPStatus.FORBIDDEN, {"error": "Invalid or missing secret token"}


_LATER: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Statuses after which the same request may be retried."""


@dataclass(frozen=True, kw_only=True)
class MaiaParts:
    """The dependencies of MAIA's endpoints."""

    bookings: BookingService
    store: Store
    """Knows the users of e-mail addresses."""
    readers: AnonymousLimits
    """Counts requests for the number of free GPUs, which need no token."""
    guesses: AnonymousLimits
    """Limits wrong tokens. Neither limit counts other requests, so that a flood of one kind does not stop
    another."""
    guarantee: MirrorBarrier
    rules: Sequence[Rule]
    free: Callable[[], Mapping[str, int]]
    """Model -> GPUs that no pod holds."""
    unknown_capacity: Callable[[], str | None]
    token_file: Path | None
    """Read each time, since it may be replaced."""


class _WrongError(Exception):
    """An error that is answered with 400."""


def maia(parts: MaiaParts) -> Blueprint:
    """The blueprint; each address works with and without a final slash: a redirect would lose a body."""
    made = Blueprint("maia", __name__)
    views = Views(parts)
    routes = [
        ("POST", SCHEDULABILITY, "ask", views.schedulability),
        ("GET", SCHEDULABILITY, "calendar", views.calendar),
        *(("GET", path, f"stats-{n}", views.stats) for n, path in enumerate(STATS)),
    ]
    for method, path, name, view in routes:
        for ending in ("", "/"):
            made.add_url_rule(
                path + ending,
                name + ending.replace("/", "-slash"),
                view,
                methods=[method],
                strict_slashes=True,
                provide_automatic_options=False,
            )
    return made


class Views:
    """The endpoints that MAIA calls."""

    def __init__(self, parts: MaiaParts) -> None:
        self._parts = parts

    def schedulability(self) -> Response:
        """``POST``: whether a user may have a GPU in a namespace now; with ``booking``, book one."""
        try:
            return _compact(self._schedulability(_body()))
        except _WrongError as error:
            return _compact(_error(HTTPStatus.BAD_REQUEST, str(error)))
        except RefusedError as error:
            return _compact(_error(HTTPStatus.BAD_REQUEST, error.violations[0].message))
        except (StoreError, ProblemError) as error:
            return _compact(_not_now(error))

    def calendar(self) -> Response:
        """``GET``: refused; it used to show all bookings, with their users' addresses, to any client."""
        message = "This is not available any more. GET /api/v1/availability says what is free, and when."
        return _compact(_error(HTTPStatus.GONE, message))

    def stats(self) -> Response:
        """The number of free GPUs; the holders of the others are not shown."""
        try:
            return _spaced(self._stats())
        except ProblemError as error:
            return _spaced(_not_now(error))

    def _stats(self) -> MaiaAnswer:
        self._parts.readers.count(request)
        if self._token() is None:
            return _NO
        if why := self._parts.unknown_capacity():
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, why)
        return HTTPStatus.OK, {"gpu": dict(self._parts.free()), "gpu_allocations": {}}

    def _schedulability(self, body: Mapping[str, Any]) -> MaiaAnswer:
        if not self._is_maia(body.get("token")):
            self._parts.guesses.count(request)
            return _NO
        email, namespace = _text(body, "user_email"), _text(body, "namespace")
        who = self._principal(email)
        space = namespace.lower().replace("_", "-")
        if "booking" in body:
            return self._create(who, space, body["booking"])
        return HTTPStatus.OK, self._running(who, space)

    def _is_maia(self, token: object) -> bool:
        """Whether the token is MAIA's; compared in constant time, whatever its length."""
        ours = self._token()
        if ours is None or not isinstance(token, str):
            return False
        return hmac.compare_digest(_digest(token), _digest(ours))

    def _token(self) -> str | None:
        """The token that MAIA must present; None if it is not set."""
        if self._parts.token_file is None:
            return None
        try:
            return self._parts.token_file.read_text(encoding="utf-8").strip() or None
        except (OSError, ValueError) as error:
            log.warning("the token of MAIA cannot be read", error=str(error))
            return None

    def _principal(self, email: str) -> Principal:
        """The user with an e-mail address: who signed in with it, else the one that identity rules give."""
        known = self._parts.store.read(lambda reading: reading.users_with_email(email))
        user = known[0] if len(known) == 1 else None if known else user_of("maia", email, self._parts.rules)
        return Principal(user=user or "", name=email)

    def _running(self, who: Principal, namespace: str) -> Mapping[str, Any]:
        """The running booking that covers the namespace; of several, the one that ends last."""
        filters = Filters(user=who.user, state="active", past=False)
        found = self._parts.bookings.list(who, filters).entries if who.user else ()
        covering = [each for each in found if each.namespace in {None, namespace}]
        if not covering:
            return {"schedulable": False, "until": None}
        last = max(covering, key=lambda each: (each.end, each.id))
        return {"schedulable": True, "until": text_of(last.end), "gpu": last.model}

    def _create(self, who: Principal, namespace: str, fields: object) -> MaiaAnswer:
        if not who.user:
            raise _WrongError("Nobody is known by that user_email")
        if not isinstance(fields, dict):
            raise _WrongError("booking must be an object")
        start, end = (_instant(_text(fields, name)) for name in ("starting_time", "ending_time"))
        wanted = BookingRequest(model=_text(fields, "gpu"), start=start, end=end, namespace=namespace)
        self._parts.guarantee.require_capacity()
        self._parts.guarantee.demand()
        record = self._parts.bookings.create(who, wanted)
        if not self._parts.guarantee.written(record):
            log.warning("a booking made through MAIA is not in the cluster yet", booking=record.id)
        return HTTPStatus.OK, {"message": "Booking created successfully"}


def free_gpus(node_snapshots: Mapping[str, NodeSnapshot], cordoned: Collection[str] = ()) -> dict[str, int]:
    """Model -> devices that no pod holds now; of every model that exists.

    A node whose agent is not alive, or on which nothing new may start, has none. Devices whose holders are
    not known are subtracted from every model that they may be of (law L6).
    """
    free: dict[str, int] = {}
    for name, (view, agent) in sorted(node_snapshots.items()):
        is_open = agent == "alive" and view.fault is None and name not in cordoned
        for resource, models in view.all_by_model.items():
            for model in models:
                found = len(view.free_by_model.get(resource, {}).get(model, ()))
                left = max(0, found - view.unknown.get(resource, 0)) if is_open else 0
                free[model] = free.get(model, 0) + left
    return free


def _body() -> Mapping[str, Any]:
    try:
        return msgspec.json.decode(request.get_data(cache=False), type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _WrongError("The body is not a JSON object") from error


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise _WrongError(f"Missing {name}")
    if not value.isprintable():
        raise _WrongError(f"{name} has characters that nobody can see")
    return value


def _instant(text: str) -> datetime:
    try:
        return datetime.strptime(text, FORMAT).replace(tzinfo=UTC)
    except ValueError as error:
        raise _WrongError(str(error)) from error


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _error(status: HTTPStatus, message: str) -> MaiaAnswer:
    return status, {"error": message}


def _not_now(error: StoreError | ProblemError) -> MaiaAnswer:
    if isinstance(error, ProblemError) and error.kind is TOO_MANY:
        return _error(HTTPStatus.TOO_MANY_REQUESTS, error.detail)
    log.warning("a request from MAIA could not be answered", error=str(error))
    return _error(HTTPStatus.SERVICE_UNAVAILABLE, "Not now. Try again soon.")


def _compact(answer: MaiaAnswer) -> Response:
    """JSON in the format of Django REST framework, by which MAIA answers POST."""
    return _answered(answer[0], msgspec.json.encode(answer[1]))


def _spaced(answer: MaiaAnswer) -> Response:
    """JSON in Django's format, with spaces: MAIA parses the number of free GPUs from it."""
    return _answered(answer[0], json.dumps(answer[1]).encode())


def _answered(status: HTTPStatus, body: bytes) -> Response:
    answer = Response(body, status=status, content_type="application/json")
    if status in _LATER:
        answer.headers["Retry-After"] = str(RETRY_AFTER)
    return answer
