"""The extender's HTTP face: three verbs by POST, everything else a clear refusal.

Answers are JSON with a Content-Length (a chunked answer makes Go's client open a new connection for every
call). Bad input gets a 4xx and one sentence, a bug of ours a 500 and one sentence; the trace is in the log.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
from flask import Flask, Response, g, request
from werkzeug.exceptions import HTTPException

from cluster.objects.quantity import QuantityError
from cluster.runtime.clock import Clock
from cluster.runtime.probes import PATHS, Probes
from extender.metrics import Metrics
from extender.state import Readiness
from extender.wire import Arguments, BindingArguments, BindingResult, FilterResult, HostPriority

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

JSON = "application/json"

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Verbs:
    """What is served."""

    filter: Callable[[Arguments], FilterResult]
    prioritize: Callable[[Arguments], list[HostPriority]]
    bind: Callable[[BindingArguments], BindingResult]


class _RefusedError(Exception):
    """The request cannot be answered as asked."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


def create_app(verbs: Verbs, obstacle: Readiness, clock: Clock, metrics: Metrics, *, limit: int) -> Flask:
    """The WSGI application.

    Args:
        verbs: the decisions.
        obstacle: why nothing may be decided now; the verbs answer 503 with it.
        clock: for the durations that are counted.
        metrics: where requests are counted.
        limit: largest accepted body, bytes.
    """
    app = Flask(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = limit

    def serve(name: str, kind: type[Any], verb: Callable[[Any], Any]) -> None:
        app.add_url_rule(
            f"/{name}",
            name,
            lambda: _json(verb(_question(kind, obstacle))),
            methods=["POST"],
            provide_automatic_options=False,
        )

    serve("filter", Arguments, verbs.filter)
    serve("prioritize", Arguments, verbs.prioritize)
    serve("bind", BindingArguments, _counted(verbs.bind, metrics))
    app.register_error_handler(_RefusedError, lambda refused: _sentence(refused.status, refused.sentence))
    app.register_error_handler(QuantityError, lambda error: _sentence(HTTPStatus.BAD_REQUEST, str(error)))
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _bug)
    _measure(app, clock, metrics)
    return app


def _measure(app: Flask, clock: Clock, metrics: Metrics) -> None:
    """Count every request, refused and failed ones too."""

    def begin() -> None:
        g.begin = clock.monotonic()

    def end(answer: Response) -> Response:
        verb = request.endpoint or "unknown"
        metrics.requests.labels(verb=verb, status=str(answer.status_code)).inc()
        metrics.seconds.labels(verb=verb).observe(clock.monotonic() - g.begin)
        return answer

    app.before_request(begin)
    app.after_request(end)


def with_probes(verbs: "WSGIApplication", probes: Probes) -> "WSGIApplication":
    """The verbs and, beside them, ``/healthz``, ``/readyz`` and ``/metrics``."""

    def switch(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        app = probes if environ.get("PATH_INFO") in PATHS else verbs
        return app(environ, start_response)

    return switch


def _question(kind: type[Any], obstacle: Readiness) -> Any:
    body = request.get_data(cache=False)
    if request.mimetype not in {"", JSON}:
        raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"The body must be {JSON}.")
    try:
        question = msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _RefusedError(
            HTTPStatus.BAD_REQUEST, f"The body is not what kube-scheduler sends: {error}."
        ) from error
    why = obstacle()
    if why:
        raise _RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, why)
    return question


def _counted(
    bind: Callable[[BindingArguments], BindingResult], metrics: Metrics
) -> Callable[[BindingArguments], BindingResult]:
    def counted(arguments: BindingArguments) -> BindingResult:
        result = bind(arguments)
        metrics.binds.labels(outcome="refused" if result.error else "bound").inc()
        log.info(
            "bind answered",
            pod=f"{arguments.pod_namespace}/{arguments.pod_name}",
            uid=arguments.pod_uid,
            node=arguments.node,
            error=result.error or None,
        )
        return result

    return counted


def _json(answer: Any, status: HTTPStatus = HTTPStatus.OK) -> Response:
    return Response(msgspec.json.encode(answer), status=status, content_type=JSON)


def _sentence(status: HTTPStatus, sentence: str) -> Response:
    return _json({"Error": sentence}, status)


def _http_error(error: HTTPException) -> Response:
    status = HTTPStatus(error.code or HTTPStatus.INTERNAL_SERVER_ERROR)
    sentences = {
        HTTPStatus.NOT_FOUND: f"There is nothing at {request.path}.",
        HTTPStatus.METHOD_NOT_ALLOWED: f"{request.path} does not answer {request.method}.",
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is larger than this extender accepts.",
    }
    answer = _sentence(status, sentences.get(status, f"{status.phrase}."))
    allowed = error.get_response().headers.get("Allow")
    if allowed:
        answer.headers["Allow"] = allowed
    return answer


def _bug(error: Exception) -> Response:
    log.error("a request failed through a fault of ours", path=request.path, exc_info=error)
    return _sentence(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "The extender failed to answer; its log says why (search for the path).",
    )
