"""The extender's HTTP endpoints: four verbs by POST; everything else is refused with a clear message.

Answers are JSON with a Content-Length (a chunked answer makes Go's client open a new connection for every
call). Bad input gets a 4xx and a message, a bug of ours a 500 and a message; the traceback is in the log.
But kube-scheduler drops the body of any status but 200 (extender.go, ``send``), and with it the reason. So
``filter`` and ``bind`` answer a POST with 200 and the message in ``Error``, which it writes into the pod's
event.

This is a hand-written WSGI application: a request is answered in less than a millisecond, a third of which a
framework's routing and request objects would take.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog
from prometheus_client import Counter, Histogram

from cluster.objects.quantity import QuantityError
from cluster.process.clock import Clock
from cluster.process.probes import PATHS, Probes
from extender.metrics import Metrics
from extender.state.cluster_state import Readiness
from extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    LoggedAnswer,
)

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

JSON: Final = "application/json"
BIND: Final = "/bind"
WITH_ERROR: Final = ("/filter", BIND)
"""Verbs that can return a message: ``Error`` of ExtenderFilterResult and ExtenderBindingResult."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Verbs:
    """The verbs that are served."""

    filter: Callable[[ExtenderArgs], ExtenderFilterResult | LoggedAnswer]
    prioritize: Callable[[ExtenderArgs], list[HostPriority] | LoggedAnswer]
    preempt: Callable[[ExtenderPreemptionArgs], ExtenderPreemptionResult]
    bind: Callable[[ExtenderBindingArgs], ExtenderBindingResult]
    refuse_bind: Callable[[ExtenderBindingArgs], ExtenderBindingResult]
    """Answers a bind at once, while as many as may be are under way."""


class _RefusedError(Exception):
    """The request is refused with this status and message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def _too_large() -> _RefusedError:
    return _RefusedError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is larger than this extender accepts."
    )


class _Body:
    """A body in one piece, and work to do after it has been sent, for which no client waits."""

    def __init__(self, body: bytes, afterwards: Callable[[], None]) -> None:
        self._body = body
        self.close = afterwards

    def __iter__(self) -> Iterator[bytes]:
        return iter((self._body,))


def _nothing() -> None:
    """The usual work after a body: none."""


class App:
    """The WSGI application. Made by ``create_app``."""

    def __init__(
        self,
        verbs: dict[str, tuple["msgspec.json.Decoder[Any]", Callable[[Any], Any]]],
        unready_reason: Readiness,
        clock: Clock,
        *,
        metrics: Metrics,
        limit: int,
        priority: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """Args: verbs: path -> (decoder of its requests, function that answers them)."""
        self._priority = priority
        self._verbs = verbs
        self._unready_reason = unready_reason
        self._clock = clock
        self._metrics = metrics
        self._counted = cache(partial(_counted, metrics))
        self._limit = limit

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer one request and count it, including refused and failed ones."""
        begin, path = self._clock.monotonic(), environ.get("PATH_INFO", "")
        afterwards = _nothing
        try:
            answer = self._answer(path, environ)
            if isinstance(answer, LoggedAnswer):
                status, body, afterwards = HTTPStatus.OK, answer.text, partial(self._log, answer)
            else:
                status, body = HTTPStatus.OK, msgspec.json.encode(answer)
        except _RefusedError as refused:
            status, body = refused.status, _message(refused.message)
        except QuantityError as error:
            status, body = HTTPStatus.BAD_REQUEST, _message(str(error))
        except Exception:
            log.exception("internal error while answering a request", path=path)
            status, body = HTTPStatus.INTERNAL_SERVER_ERROR, _message(_FAULT)
        headers = [("Content-Type", JSON), ("Content-Length", str(len(body)))]
        if status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "POST"))
        sent = HTTPStatus.OK if path in WITH_ERROR and status is not HTTPStatus.METHOD_NOT_ALLOWED else status
        verb = path[1:] if path in self._verbs else "unknown"
        requests, seconds = self._counted(verb, status.value)
        requests.inc()
        seconds.observe(self._clock.monotonic() - begin)
        start_response(f"{sent.value} {sent.phrase}", headers)
        return _Body(body, afterwards)

    def _log(self, answer: LoggedAnswer) -> None:
        """Write one log line, and count the reasons why nodes were rejected."""
        log.info(answer.event, **answer.line)
        for reason, nodes in answer.reasons.items():
            self._metrics.rejections.labels(reason=reason).inc(nodes)

    def _answer(self, path: str, environ: "WSGIEnvironment") -> Any:
        if path not in self._verbs:
            raise _RefusedError(HTTPStatus.NOT_FOUND, f"There is nothing at {path}.")
        if (method := environ["REQUEST_METHOD"]) != "POST":
            raise _RefusedError(HTTPStatus.METHOD_NOT_ALLOWED, f"{path} does not answer {method}.")
        if path == BIND:  # it usually waits for the API server
            return self._verb(path, environ)
        with self._priority():
            return self._verb(path, environ)

    def _verb(self, path: str, environ: "WSGIEnvironment") -> Any:
        decoder, verb = self._verbs[path]
        body = self._body(environ)
        try:
            question = decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _RefusedError(
                HTTPStatus.BAD_REQUEST, f"The body is not what kube-scheduler sends: {error}."
            ) from error
        if why := self._unready_reason():
            raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, why)
        return verb(question)

    def _body(self, environ: "WSGIEnvironment") -> bytes:
        try:
            length = int(environ.get("CONTENT_LENGTH") or 0)
        except ValueError as error:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, "The Content-Length is not a number.") from error
        if length > self._limit:
            raise _too_large()
        if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() not in {"", JSON}:
            raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"The body must be {JSON}.")
        body: bytes = b""
        if length > 0:
            body = environ["wsgi.input"].read(length)
        elif "HTTP_TRANSFER_ENCODING" in environ:
            # waitress sets the length of a chunked body; the TLS server does not.
            body = environ["wsgi.input"].read(self._limit + 1)
        if len(body) > self._limit:
            raise _too_large()
        return body


def _counted(metrics: Metrics, verb: str, status: int) -> tuple[Counter, Histogram]:
    """What is counted of such a request. Looking it up by its labels takes longer than counting."""
    return metrics.requests.labels(verb=verb, status=str(status)), metrics.seconds.labels(verb=verb)


def create_app(
    verbs: Verbs,
    unready_reason: Readiness,
    clock: Clock,
    metrics: Metrics,
    *,
    limit: int,
    binds_at_once: int,
    priority: Callable[[], AbstractContextManager[None]],
) -> App:
    """The WSGI application.

    Args:
        verbs: the decisions.
        unready_reason: why nothing may be decided now; the verbs answer with it.
        clock: for the durations that are measured.
        metrics: where requests are counted.
        limit: the largest accepted body, in bytes.
        binds_at_once: how many of the threads binds may take.
        priority: returns a context that is entered while a request other than ``bind`` is answered.
    """
    decisions = msgspec.json.Decoder(ExtenderArgs)
    return App(
        {
            "/filter": (decisions, verbs.filter),
            "/prioritize": (decisions, verbs.prioritize),
            "/preempt": (msgspec.json.Decoder(ExtenderPreemptionArgs), verbs.preempt),
            BIND: (
                msgspec.json.Decoder(ExtenderBindingArgs),
                _limited(verbs, metrics, binds_at_once),
            ),
        },
        unready_reason,
        clock,
        metrics=metrics,
        limit=limit,
        priority=priority,
    )


_FAULT: Final = "The extender failed to answer; its log says why (search for the path)."


def _message(message: str) -> bytes:
    return msgspec.json.encode({"Error": message})


def with_probes(verbs: "WSGIApplication", probes: Probes) -> "WSGIApplication":
    """The verbs together with ``/healthz``, ``/readyz`` and ``/metrics``."""

    def switch(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        app = probes if environ.get("PATH_INFO") in PATHS else verbs
        return app(environ, start_response)

    return switch


def _limited(
    verbs: Verbs, metrics: Metrics, at_once: int
) -> Callable[[ExtenderBindingArgs], ExtenderBindingResult]:
    """Count binds, and limit how many of the server's threads they take.

    Each takes a thread while it waits for a kubelet and for the API server. When that many are in progress,
    further ones are refused at once, so that the other verbs always have threads left.
    """
    threads = threading.BoundedSemaphore(at_once)

    def limited(arguments: ExtenderBindingArgs) -> ExtenderBindingResult:
        if threads.acquire(blocking=False):
            try:
                result = verbs.bind(arguments)
            finally:
                threads.release()
        else:
            result = verbs.refuse_bind(arguments)
        metrics.binds.labels(outcome="refused" if result.error else "bound").inc()
        return result

    return limited
