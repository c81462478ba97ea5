"""The WSGI application of the demo: lets visitors in, serves the bar, and asks the booking server's own."""

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from importlib import resources
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import msgspec

from demo.web.bar import FIELD, PERSONS, framed, shut
from demo.web.visitors import Visitors

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

ENTER: Final = "/demo/enter"
ACT: Final = "/demo/act"
STATE: Final = "/demo/state"
FIRST_PAGE: Final = "/now"
LONGEST_FORM: Final = 4096
_STATIC: Final = {
    "/demo/bar.css": "text/css; charset=utf-8",
    "/demo/bar.js": "text/javascript; charset=utf-8",
}
_HTML: Final = "text/html; charset=utf-8"
_HEADERS: Final = [
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'self'; frame-ancestors 'none'"),
    ("Referrer-Policy", "same-origin"),
    ("X-Content-Type-Options", "nosniff"),
]
_STRANGER: Final = "Open the address that the demo has printed in its terminal: it lets you in."
_ELSEWHERE: Final = "The demo answers only to the address that it has printed."

Headers = list[tuple[str, str]]


class Doorway:
    """The application. Thread-safe, as are its parts."""

    def __init__(
        self,
        app: "WSGIApplication",
        visitors: Visitors,
        *,
        hosts: frozenset[str],
        act: Callable[[str, str, str], None],
        shown: Callable[[str], str],
        state: Callable[[str], Mapping[str, Any]],
        person: str,
    ) -> None:
        """Create it.

        Args:
            app: the booking server's.
            visitors: who are let in.
            hosts: the values of the header ``Host`` that are ours: no name of another site leads here.
            act: does what a button says: visitor, person, value.
            shown: the bar for a person, HTML.
            state: what changes in it, for a person.
            person: as whom a visitor begins.
        """
        self._app = app
        self._visitors = visitors
        self._hosts = hosts
        self._act = act
        self._shown = shown
        self._state = state
        self._person = person
        static = resources.files("demo.web") / "static"
        self._files = {path: (static / path.rpartition("/")[2]).read_bytes() for path in _STATIC}

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer one request."""
        path = environ.get("PATH_INFO", "")
        if environ.get("HTTP_HOST") not in self._hosts:
            return _page(start_response, HTTPStatus.MISDIRECTED_REQUEST, "Not here", _ELSEWHERE)
        if path in self._files:
            return _answer(start_response, HTTPStatus.OK, self._files[path], _STATIC[path])
        if path == ENTER:
            return self._enter(environ, start_response)
        visitor = self._visitors.of(environ.pop("HTTP_COOKIE", ""))
        if visitor is not None:
            return self._visited(visitor, path, environ, start_response)
        if "HTTP_AUTHORIZATION" in environ or path.startswith("/static/"):
            return self._app(environ, start_response)
        return _page(start_response, HTTPStatus.FORBIDDEN, "This demo is somebody's", _STRANGER)

    def _visited(
        self, visitor: str, path: str, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        if path == ACT:
            return self._acted(visitor, environ, start_response)
        if path == STATE:
            content = msgspec.json.encode(self._state(self._visitors.person(visitor)))
            return _answer(start_response, HTTPStatus.OK, content, "application/json")
        environ["HTTP_COOKIE"] = self._visitors.signed_in(visitor)
        return self._with_bar(visitor, environ, start_response)

    # --- the demo's own ----------------------------------------------------------------------------------
    def _enter(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        given = parse_qs(environ.get("QUERY_STRING", "")).get("key", [""])[0]
        cookie = self._visitors.enter(given, self._person)
        if cookie is None:
            return _page(start_response, HTTPStatus.FORBIDDEN, "This demo is somebody's", _STRANGER)
        return _see(start_response, FIRST_PAGE, [("Set-Cookie", cookie)])

    def _acted(
        self, visitor: str, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        form = _form(environ)
        if environ["REQUEST_METHOD"] != "POST" or form.get(FIELD) != self._visitors.secret:
            return _page(
                start_response, HTTPStatus.FORBIDDEN, "Nothing was changed", "This form is not the bar's."
            )
        value = form.get("do", "")
        person = value.removeprefix("be ")
        if person in dict(PERSONS):
            self._visitors.become(visitor, person)
        else:
            self._act(visitor, self._visitors.person(visitor), value)
        return _see(start_response, _back(environ), [])

    # --- the booking server's ----------------------------------------------------------------------------
    def _with_bar(
        self, visitor: str, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        begun: list[tuple[str, Headers]] = []

        def begin(status: str, headers: Headers, _error: Any = None) -> Callable[[bytes], object]:
            begun.append((status, headers))
            return _no_write

        # Plain: the bar goes into the page.
        plain = {name: value for name, value in environ.items() if name != "HTTP_ACCEPT_ENCODING"}
        answer = self._app(plain, begin)
        try:
            content = b"".join(answer)
        finally:
            close = getattr(answer, "close", None)
            if close:
                close()
        status, headers = begun[-1]
        if any(name == "Content-Type" and value.startswith("text/html") for name, value in headers):
            content = framed(content.decode(), self._shown(self._visitors.person(visitor))).encode()
            headers = [(name, value) for name, value in headers if name != "Content-Length"]
            headers.append(("Content-Length", str(len(content))))
        start_response(status, headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [content]


def _no_write(_content: bytes) -> None:
    raise NotImplementedError("Flask returns its content.")


def _form(environ: "WSGIEnvironment") -> Mapping[str, str]:
    length = min(int(environ.get("CONTENT_LENGTH") or 0), LONGEST_FORM)
    fields = parse_qs(environ["wsgi.input"].read(length).decode(errors="replace"))
    return {name: values[0] for name, values in fields.items()}


def _back(environ: "WSGIEnvironment") -> str:
    """Where the form was: a page of ours."""
    sent = urlsplit(environ.get("HTTP_REFERER", ""))
    if sent.netloc != environ.get("HTTP_HOST") or not sent.path.startswith("/") or sent.path.startswith("//"):
        return FIRST_PAGE
    return sent.path + (f"?{sent.query}" if sent.query else "")


def _page(start_response: "StartResponse", status: HTTPStatus, title: str, message: str) -> Iterable[bytes]:
    return _answer(start_response, status, shut(title, message).encode(), _HTML)


def _see(start_response: "StartResponse", address: str, headers: Headers) -> Iterable[bytes]:
    return _answer(
        start_response, HTTPStatus.SEE_OTHER, b"", _HTML, headers=[("Location", address), *headers]
    )


def _answer(
    start_response: "StartResponse",
    status: HTTPStatus,
    content: bytes,
    content_type: str,
    *,
    headers: Iterable[tuple[str, str]] = (),
) -> Iterable[bytes]:
    sent = [("Content-Type", content_type), ("Content-Length", str(len(content))), *_HEADERS, *headers]
    start_response(f"{status.value} {status.phrase}", sent)
    return [content]
