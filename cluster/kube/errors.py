"""Errors between us and the API server: our own tree, so that the HTTP library stays a detail.

::

    ApiError
    ├── ClientError          4xx: the server understood and refuses
    │   ├── BadRequest       400
    │   ├── Unauthorized     401
    │   ├── Forbidden        403
    │   ├── NotFound         404
    │   ├── Conflict         409: a precondition failed, or the object exists already
    │   ├── Gone             410: the resourceVersion or continue token is too old
    │   ├── Unprocessable    422: the object or a parameter is invalid
    │   └── TooManyRequests  429: overload, a disruption budget, or a webhook
    ├── ServerError          5xx: the server failed; whether it acted is unknown
    ├── Unreachable          no answer; whether it acted is unknown
    │   └── Unsent           no connection in time: nothing was sent
    └── Malformed            an answer that does not follow the API

Each message has the verb, the path, the code, the reason and the server's own message.
"""

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import msgspec

from cluster.objects.meta import Status


@dataclass(frozen=True)
class Request:
    """Verb and path of a request, for messages of errors."""

    verb: str
    path: str

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


class ApiError(Exception):
    """The API server could not be reached, or did not do what was requested."""

    def __init__(self, request: Request, message: str) -> None:
        super().__init__(request, message)
        self.request = request
        self.message = message

    def __str__(self) -> str:
        return f"{self.request} failed: {self.message}"


class Unreachable(ApiError):
    """No answer: no connection, or a timeout. A write may have happened."""

    def __str__(self) -> str:
        return f"{self.request} got no answer from the API server: {self.message}"


class Unsent(Unreachable):
    """No connection, or none in time: nothing was sent, and nothing has happened."""

    def __str__(self) -> str:
        return f"{self.request} was not sent to the API server: {self.message}"


class Malformed(ApiError):
    """The answer does not follow the API."""

    def __str__(self) -> str:
        return f"The answer to {self.request} cannot be read: {self.message}"


@dataclass(frozen=True)
class Refusal:
    """The server's error answer."""

    code: int
    reason: str = ""
    message: str = ""
    details: dict[str, Any] = field(default_factory=dict)
    retry_after: float | None = None
    """Seconds, from the header ``Retry-After`` or from the details."""
    is_status: bool = True
    """Whether the body was a ``v1.Status``. A server that sheds load answers in plain text, like proxies."""


class StatusError(ApiError):
    """The API server answered with an error status."""

    def __init__(self, request: Request, refusal: Refusal) -> None:
        super().__init__(request, refusal.message)
        self.refusal = refusal

    @property
    def code(self) -> int:
        """The HTTP status, or that of a watch's ERROR event."""
        return self.refusal.code

    @property
    def reason(self) -> str:
        """The machine-readable reason, e.g. ``AlreadyExists``."""
        return self.refusal.reason

    def __str__(self) -> str:
        what = " ".join(str(part) for part in (self.code, self.reason) if part)
        return f"{self.request} was answered with {what}: {self.message or 'no message'}"


class ServerError(StatusError):
    """5xx: the server failed. A write may have happened."""


class ClientError(StatusError):
    """4xx: refused, nothing has happened."""


class BadRequest(ClientError):
    """400: the API server cannot read the request, or the request contradicts itself."""


class Unauthorized(ClientError):
    """401: the token is missing, expired or unknown."""


class Forbidden(ClientError):
    """403: the user is known, but not allowed to do this."""


class NotFound(ClientError):
    """404: no such object, or no such kind."""


class Conflict(ClientError):
    """409: a precondition (uid, resourceVersion) does not hold, or the object exists already."""


class Gone(ClientError):
    """410: that resourceVersion is too old; list again."""


class Unprocessable(ClientError):
    """422: invalid object or parameter."""


class TooManyRequests(ClientError):
    """429: overload, or a refusal: of an eviction by a disruption budget, of anything by a webhook."""

    @property
    def retry_after(self) -> float | None:
        """Seconds that the server asks us to wait; None if it names none."""
        return self.refusal.retry_after

    @property
    def is_overload(self) -> bool:
        """Whether the server sheds load (its filters answer in plain text), whatever the request is about."""
        return not self.refusal.is_status


_BY_CODE: dict[int, type[ClientError]] = {
    HTTPStatus.BAD_REQUEST: BadRequest,
    HTTPStatus.UNAUTHORIZED: Unauthorized,
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.GONE: Gone,
    HTTPStatus.UNPROCESSABLE_ENTITY: Unprocessable,
    HTTPStatus.TOO_MANY_REQUESTS: TooManyRequests,
}

_LONGEST_BODY_QUOTED = 200


def refused(request: Request, refusal: Refusal) -> StatusError:
    """The error of our tree for an error answer."""
    if refusal.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ServerError(request, refusal)
    return _BY_CODE.get(refusal.code, ClientError)(request, refusal)


def refusal_of(code: int, body: bytes, *, retry_after: str | None = None) -> Refusal:
    """Read an error answer: a ``v1.Status``, or whatever a proxy wrote.

    Args:
        code: HTTP status; it wins over the code in the body.
        body: as received.
        retry_after: the header of that name; dates are ignored.
    """
    try:
        status, is_status = msgspec.json.decode(body, type=Status), True
    except msgspec.MsgspecError:
        is_status = False
        status = Status(message=body[:_LONGEST_BODY_QUOTED].decode(errors="replace").strip())
    details = status.details or {}
    return Refusal(
        code=code or status.code,
        reason=status.reason,
        message=status.message,
        details=details,
        retry_after=_seconds(retry_after) or _seconds(details.get("retryAfterSeconds")),
        is_status=is_status,
    )


def _seconds(value: object) -> float | None:
    return float(str(value)) if str(value).isdecimal() else None
