"""``/holders``: the holders of each device now, on the port of the probes.

It names pods, users and bookings, so it is served only on the loopback interface, to people who may forward a
port to the agent's pod or run a command in it.
"""

from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec

from deviceplugin.usage.holders import HolderSnapshot

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

PATH: Final = "/holders"
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
_FORBIDDEN: Final = (
    "The holders of the GPUs are served only on this node agent's own loopback: kubectl port-forward to its "
    "pod, and ask there.\n"
)


class HoldersPage:
    """A WSGI app in front of another one, which serves all other paths."""

    def __init__(self, otherwise: "WSGIApplication", snapshot: Callable[[], HolderSnapshot]) -> None:
        """Args: snapshot: called for every response, by any thread."""
        self._otherwise = otherwise
        self._snapshot = snapshot

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer ``PATH`` with the holders as JSON, only for clients on the loopback interface."""
        if environ.get("PATH_INFO") != PATH:
            return self._otherwise(environ, start_response)
        status, kind, body = self._answer(environ)
        headers = [("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", "no-store")]
        start_response(f"{status.value} {status.phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]

    def _answer(self, environ: "WSGIEnvironment") -> tuple[HTTPStatus, str, bytes]:
        text = "text/plain; charset=utf-8"
        if environ.get("REMOTE_ADDR") not in _LOOPBACK:
            return HTTPStatus.FORBIDDEN, text, _FORBIDDEN.encode()
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            return HTTPStatus.METHOD_NOT_ALLOWED, text, f"{PATH} can only be read.\n".encode()
        snapshot = self._snapshot()
        content = {"certain": snapshot.is_certain, "holders": snapshot.held}
        return HTTPStatus.OK, "application/json", msgspec.json.encode(content) + b"\n"
