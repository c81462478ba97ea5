"""The server's error answers: problems by RFC 9457.

Each is ``application/problem+json`` with ``type``, ``title``, ``status``, ``detail`` and ``instance``; also
``violations`` (``rule``, ``message``, ``limit``, ``actual``, ``earliest_start``, and ``field`` if it
is about one), ``earliest_start`` and ``alternatives``. Never a traceback: it is in the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

import msgspec
import structlog
from flask import Flask, Response, request
from msgspec import UNSET, UnsetType
from werkzeug.exceptions import HTTPException

from booking.server import errors
from booking.server.evaluation.alternatives import Alternative
from booking.server.records import Violation
from booking.server.web.encoding import json_text
from cluster import names
from cluster.objects.bookings import Topology

log = structlog.get_logger(__name__)

CONTENT_TYPE: Final = "application/problem+json"
RETRY_AFTER: Final = 5
"""Seconds until a retry, for problems that pass by themselves."""
_LONGEST_PATH: Final = 200
_MOST: Final = 25
"""Maximum number of violations that are shown: a small body could have thousands."""


@dataclass(frozen=True)
class Kind:
    """A kind of problem: programs distinguish problems by it."""

    name: str
    status: HTTPStatus
    title: str

    @property
    def uri(self) -> str:
        """``type`` of the problem: a name (RFC 4151) that cannot be fetched."""
        return f"tag:{names.DOMAIN},2026:{self.name}"


MALFORMED: Final = Kind("malformed", HTTPStatus.BAD_REQUEST, "The request cannot be read")
REFUSED: Final = Kind("refused", HTTPStatus.UNPROCESSABLE_ENTITY, "The request breaks rules")
UNKNOWN_BOOKING: Final = Kind("unknown-booking", HTTPStatus.NOT_FOUND, "There is no such booking")
UNKNOWN: Final = Kind("unknown", HTTPStatus.NOT_FOUND, "There is no such thing")
NO_TOKEN: Final = Kind("no-token", HTTPStatus.UNAUTHORIZED, "The request is not authenticated")
NOT_A_USER: Final = Kind("not-a-user", HTTPStatus.FORBIDDEN, "The token's owner is not a user")
FORBIDDEN: Final = Kind("forbidden", HTTPStatus.FORBIDDEN, "Administrators only")
FORGED: Final = Kind("forged", HTTPStatus.FORBIDDEN, "The request was not sent from a current page")
"""For a browser's session, or a page's form."""
CHANGED: Final = Kind("changed", HTTPStatus.PRECONDITION_FAILED, "It has changed since it was read")
KEY_REUSED: Final = Kind("key-reused", HTTPStatus.CONFLICT, "The key belongs to another request")
TOO_MANY: Final = Kind("too-many-requests", HTTPStatus.TOO_MANY_REQUESTS, "Too many requests")
UNAVAILABLE: Final = Kind("unavailable", HTTPStatus.SERVICE_UNAVAILABLE, "Not now")
TOO_LARGE: Final = Kind("too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too large")
NOT_JSON: Final = Kind("not-json", HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "The body is not JSON")
FAILED: Final = Kind("failed", HTTPStatus.INTERNAL_SERVER_ERROR, "A fault of the booking server")


class ProblemViolation(msgspec.Struct, frozen=True, kw_only=True):
    """A violation as it is answered."""

    rule: str
    message: str
    limit: str | int | None = None
    actual: str | int | None = None
    earliest_start: datetime | None = None
    field: str | UnsetType = UNSET
    """The field of the request that it is about."""


class Offer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request that would be accepted instead, and why it is offered."""

    start: datetime
    end: datetime
    count: int
    model: str
    topology: Topology
    why: str
    memory: int | None = None
    """MiB of each of the GPUs; left out where they are whole."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request failed (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    violations: tuple[ProblemViolation, ...] | UnsetType = UNSET
    earliest_start: datetime | UnsetType | None = UNSET
    alternatives: tuple[Offer, ...] | UnsetType = UNSET


@dataclass(eq=False)
class ProblemError(Exception):
    """A request that is answered with a problem."""

    kind: Kind
    detail: str
    violations: Sequence[ProblemViolation] | None = None
    earliest_start: datetime | None = None
    alternatives: Sequence[Offer] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


def unavailable(detail: str) -> ProblemError:
    """A temporary problem: nothing was stored, and a retry may help soon."""
    return ProblemError(UNAVAILABLE, detail, headers={"Retry-After": str(RETRY_AFTER)})


def violation_answer(violation: Violation, field_: str | None = None) -> ProblemViolation:
    """A violation for the answer, with the field that it is about."""
    return ProblemViolation(**msgspec.structs.asdict(violation), field=field_ or UNSET)


def refusal(error: errors.RefusedError) -> ProblemError:
    """The problem of a request that cannot be granted, with the alternatives."""
    return ProblemError(
        REFUSED,
        str(error),
        violations=[violation_answer(violation) for violation in error.violations],
        earliest_start=error.earliest_start,
        alternatives=[offer(each) for each in error.alternatives],
    )


def offer(alternative: Alternative) -> Offer:
    """An alternative in the form of the answer."""
    return Offer(
        start=alternative.start,
        end=alternative.end,
        count=alternative.count,
        model=alternative.model,
        topology=alternative.topology,
        why=alternative.why,
        memory=alternative.memory,
    )


_MEANINGS: Final[tuple[tuple[type[Exception], Kind], ...]] = (
    (errors.UnknownBookingError, UNKNOWN_BOOKING),
    (errors.UnknownError, UNKNOWN),
    (errors.NotAllowedError, FORBIDDEN),
    (errors.KeyReusedError, KEY_REUSED),
)
"""Errors whose message says everything, and their kind; the first that matches."""


def problem_of(error: Exception) -> ProblemError:
    """The problem for any error; an unexpected one is logged, and answered without its text."""
    plain = next((kind for type_, kind in _MEANINGS if isinstance(error, type_)), None)
    if plain:
        return ProblemError(plain, str(error))
    match error:
        case ProblemError():
            problem = error
        case errors.RefusedError():
            problem = refusal(error)
        case errors.StaleError():
            problem = ProblemError(CHANGED, str(error), headers={"ETag": f'"{error.version}"'})
        case errors.ClusterError():
            problem = unavailable(str(error))
        case errors.StoreError():
            log.error("the booking database cannot be used", path=request.path, error=str(error))
            problem = unavailable("The booking database cannot be used at the moment. Try again soon.")
        case HTTPException():
            problem = _http_problem(error)
        case _:
            problem = _bug(error)
    return problem


def answer_problems(app: Flask) -> None:
    """Turn every failure of the application into a problem, unless a blueprint handles it otherwise."""
    app.register_error_handler(Exception, lambda error: answered(problem_of(error)))


def answered(problem: ProblemError) -> Response:
    """The response for a problem."""
    has_violations = problem.violations is not None
    shown = tuple(problem.violations or ())[:_MOST]
    more = len(problem.violations or ()) - len(shown)
    detail = (
        " ".join([*(each.message for each in shown), f"And {more} more like it."]) if more else problem.detail
    )
    body = Problem(
        type=problem.kind.uri,
        title=problem.kind.title,
        status=problem.kind.status.value,
        detail=detail,
        instance=quote(request.path[:_LONGEST_PATH]),
        violations=shown if has_violations else UNSET,
        earliest_start=problem.earliest_start if has_violations else UNSET,
        alternatives=tuple(problem.alternatives) if problem.alternatives else UNSET,
    )
    return Response(
        json_text(body), status=problem.kind.status, headers=dict(problem.headers), content_type=CONTENT_TYPE
    )


def _http_problem(error: HTTPException) -> ProblemError:
    status = HTTPStatus(error.code or HTTPStatus.INTERNAL_SERVER_ERROR)
    sentences = {
        HTTPStatus.NOT_FOUND: "There is nothing at this address; GET /api/v1 says what there is.",
        HTTPStatus.METHOD_NOT_ALLOWED: f"This address does not answer {request.method[:20]}.",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is larger than a request could be.",
    }
    kind = TOO_LARGE if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE else _plain(status)
    allowed = error.get_response().headers.get("Allow")
    headers = {"Allow": allowed} if allowed else {}
    return ProblemError(kind, sentences.get(status, f"{status.phrase}."), headers=headers)


def _bug(error: Exception) -> ProblemError:
    log.error("internal error while answering a request", path=request.path, exc_info=error)
    message = "The booking server failed to answer; its log says why (search for the path)."
    return ProblemError(FAILED, message)


def _plain(status: HTTPStatus) -> Kind:
    """A kind that means no more than its status."""
    return Kind(status.phrase.lower().replace(" ", "-"), status, status.phrase)
