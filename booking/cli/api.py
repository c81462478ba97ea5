"""A client of the booking server's REST API for one command. Problems (RFC 9457) become sentences."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
import urllib3

from booking import wording
from booking.cli.errors import CommandError, UnreachableError
from cluster import names

ROOT: Final = "/api/v1"
_TIMEOUT: Final = urllib3.Timeout(connect=5.0, read=30.0)
"""Seconds; a change waits up to ten for the cluster."""
_NOT_SENT: Final = urllib3.Retry(
    total=2,
    connect=2,
    read=0,
    redirect=0,
    status=0,
    other=0,
    backoff_factor=0.2,
    respect_retry_after_header=False,
)
"""Retried only if the request was not sent. Every answer is shown, even one that says when to retry."""
_ONCE: Final = _NOT_SENT.new(total=0, connect=0)
"""For callers that wait only for a moment."""

_OPTIONS: Final = {"no-reason": " Give one with --reason."}
"""What a user adds to the command, by the rule that the server names."""
_CONNECTION: Final = re.compile(r"^HTTPS?Connection(?:Pool)?\([^)]*\): ")

Json = dict[str, Any]


class ServerAnswer(dict[str, Any]):
    """An answer whose fields the commands expect."""

    def __init__(self, body: Mapping[str, Any], url: str) -> None:
        super().__init__(body)
        self._url = url

    def __missing__(self, name: str) -> Any:
        """Report a missing field that every booking server of our version sends."""
        raise UnreachableError(
            f"What answers at {self._url} is not a booking server, or one of another version: its answer"
            f" lacks {name!r}. Is the address right?"
        )


class Api:
    """The API as seen by one user."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        ca_file: str | None = None,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
        localize: Callable[[str], str] = str,
        within: float | None = None,
        about_token: str = "",
        renew: Callable[[], str | None] = lambda: None,
        doubt: Callable[[], None] = lambda: None,
    ) -> None:
        """Create it without sending a request.

        Args:
            url: of the server, without a path.
            token: a token for the server's audience.
            ca_file: certificates of the authorities to trust.
            waiting: a context around every request that shows progress.
            localize: turns the server's messages into the reader's time zone.
            within: seconds in which each request must be answered, at the first attempt; None: as long as a
                user waits for a change.
            about_token: a sentence about where the token came from, for the answer that it is not accepted.
            renew: called when the server does not accept the token; returns another one, or None.
            doubt: called when no booking server answers at the address.
        """
        self._renew = renew
        self._doubt = doubt
        self._about_token = about_token
        self._waiting = waiting
        self._localized = localize
        self.url = url.rstrip("/")
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/json",
            "User-Agent": names.CLI,
        }
        timeout, retries = (_TIMEOUT, _NOT_SENT) if within is None else (urllib3.Timeout(total=within), _ONCE)
        self._pool = urllib3.PoolManager(ca_certs=ca_file, timeout=timeout, retries=retries)

    def get(self, path: str, query: Mapping[str, object] | None = None) -> Json:
        """The decoded answer to a GET of a path below the API's root."""
        return self.ask("GET", path, query=query)

    def pages(self, path: str, field: str, query: Mapping[str, object] | None = None) -> list[Json]:
        """All entries of a list, from all of its pages."""
        return list(self.each(path, field, query))

    def each(self, path: str, field: str, query: Mapping[str, object] | None = None) -> Iterator[Json]:
        """The entries of a list; each page is requested when it is needed."""
        parameters = dict(query or {})
        while True:
            page = self.get(path, parameters)
            yield from page[field]
            if not page.get("continue"):
                return
            parameters["continue"] = page["continue"]

    def ask(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        query: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Json:
        """Send one request below ``/api/v1``.

        Args:
            method: the HTTP method.
            path: with its parts already quoted (``part``).
            body: JSON.
            query: parameters; those that are None are left out.
            headers: in addition to our own.

        Raises:
            CommandError: the server refuses, or does not answer; the message says why.
        """
        url = f"{self.url}{ROOT}{path}"
        given = urlencode([(key, _text(value)) for key, value in (query or {}).items() if value is not None])
        sent = None if body is None else msgspec.json.encode(body)
        more = dict(headers or {}) | ({"Content-Type": "application/json"} if body is not None else {})
        target = f"{url}?{given}" if given else url
        answer = self._answer(method, target, sent, more)
        while answer.status == HTTPStatus.UNAUTHORIZED and (token := self._renew()):
            self._headers["Authorization"] = f"Bearer {token}"
            answer = self._answer(method, target, sent, more)
        elsewhere = answer.get_redirect_location()
        if elsewhere:
            self._doubt()
            raise UnreachableError(
                f"What answers at {self.url} is not a booking server: it redirects to"
                f" {wording.quoted(elsewhere)}, perhaps to sign in. Is the address right?"
            )
        return self._read(answer.status, answer.data)

    def _answer(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]
    ) -> urllib3.BaseHTTPResponse:
        try:
            with self._waiting():
                return self._pool.request(
                    method, target, redirect=False, body=body, headers=self._headers | dict(headers)
                )
        except urllib3.exceptions.HTTPError as error:
            self._doubt()
            raise UnreachableError(_unreachable(self.url, error, method)) from error

    def _read(self, status: int, data: bytes) -> Json:
        try:
            body = msgspec.json.decode(data or b"{}", type=dict[str, Any])
        except msgspec.MsgspecError as error:
            self._doubt()
            raise UnreachableError(
                f"What answers at {self.url} is not a booking server (HTTP {status}, no JSON object): is the"
                " address right?"
            ) from error
        if status >= HTTPStatus.BAD_REQUEST:
            passes = status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}
            text = problem_text(status, body)
            if status == HTTPStatus.UNAUTHORIZED and self._about_token:
                text = f"{text} {self._about_token}"
            raise (UnreachableError if passes else CommandError)(self._localized(text))
        return ServerAnswer(body, self.url)


def part(text: str) -> str:
    """A name quoted as one part of a path: ``.`` and ``..`` would otherwise be resolved as path steps."""
    return quote(text, safe="") if text.strip(".") else text.replace(".", "%2E")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def problem_text(status: int, problem: Mapping[str, Any]) -> str:
    """A problem in sentences: everything that is wrong, then what would be right."""
    violations = [v for v in problem.get("violations") or () if isinstance(v, dict)]
    messages = [
        f"{v['message']}{_OPTIONS.get(str(v.get('rule')), '')}" for v in violations if v.get("message")
    ]
    lines = messages or [
        str(problem.get("detail") or problem.get("title") or f"The server answered {status}.")
    ]
    return "\n".join([*lines, *_better(problem)])


def _better(problem: Mapping[str, Any]) -> Iterable[str]:
    if problem.get("earliest_start"):
        yield f"Earliest valid start: {_moment(problem['earliest_start'])}"
    alternatives = [a for a in problem.get("alternatives") or () if isinstance(a, dict)]
    if alternatives:
        yield "What would be accepted:"
        yield from offers(alternatives)


def offers(alternatives: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """The alternatives, one per line; instants as in all messages of the server."""
    for one in alternatives:
        why = str(one.get("why") or "").replace("-", " ").replace("gpus", "GPUs")
        span = f"from {_moment(one.get('start'))} to {_moment(one.get('end'))}"
        memory = one.get("memory")
        share = f"{wording.mebibytes(memory)} of " if isinstance(memory, int) else ""
        yield f"  {one.get('count')} x {share}{one.get('model')} {span}" + (f" ({why})" if why else "")


def _moment(text: object) -> str:
    try:
        return wording.instant(datetime.fromisoformat(str(text)))
    except ValueError:
        return str(text)


def _unreachable(url: str, error: Exception, method: str) -> str:
    reason, hint = _first(error), "Is the address right, and is the server running?"
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        file = names.setting("ca_file")
        hint = f"Name the authorities that vouch for the server with --ca-file or {file}."
    elif "WRONG_VERSION_NUMBER" in reason:
        hint = "It speaks no TLS: does its address begin with http://?"
    elif method != "GET":
        hint = 'It may have been done all the same: look with "kubectl gpu bookings" before you try again.'
    return f"The booking server at {url} does not answer: {reason}. {hint}"


def _first(error: Exception) -> str:
    """The root cause of a chain of errors, without the library's name for a connection."""
    cause = getattr(error, "reason", None)
    return _CONNECTION.sub("", str(cause if cause is not None else error)).rstrip(".")
