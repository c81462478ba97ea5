"""The HTTP API of MAIA's pod terminator, implemented by us: a WSGI app without authentication.

A NetworkPolicy decides which clients can reach it. Nothing here evicts a pod: ``/random-delete`` triggers the
reclaimer, which evicts only for a stored booked pod; ``/delete-expired-pod`` requests the end of an expired
pod by an annotation on it, and the leading controller ends it as it would at the end of a booking. Paths and
JSON are those of minnelab/MAIA at df4a600 (2026-08).
"""

from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from booking.controller.maia.expired import expired
from cluster import names
from cluster.cache import ClusterCache
from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Kube
from cluster.kube.resources import PODS
from cluster.objects.cover_annotations import text_of
from cluster.objects.pods import Pod
from cluster.process.clock import Clock

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

log = structlog.get_logger(__name__)

LONGEST_BODY_BYTES: Final = 4096
NONE_EXPIRED: Final = {"status": "no expired pods found"}

Json = Mapping[str, Any]
TerminatorAnswer = tuple[HTTPStatus, Json]


class _Request(msgspec.Struct):
    """Body of ``/delete-expired-pod``."""

    pod_name: str = ""
    namespace: str = ""


class PodTerminator:
    """The WSGI app; its paths are those of MAIA's tools. Thread-safe."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        cache: ClusterCache,
        *,
        unready_reason: Callable[[], str | None],
        trigger_reclaimer: Callable[[], None],
    ) -> None:
        """Create it.

        Args:
            kube: the API server, for the requests to end pods.
            clock: the time.
            cache: the pods.
            unready_reason: why the cache is not trusted, None if it is (law L6).
            trigger_reclaimer: makes the reclaimer reconcile at once.
        """
        self._kube = kube
        self._clock = clock
        self._cache = cache
        self._unready_reason = unready_reason
        self._trigger_reclaimer = trigger_reclaimer
        self._routes: dict[str, tuple[str, Callable[[bytes], TerminatorAnswer]]] = {
            "/random-delete": ("POST", self._random_delete),
            "/get-expired-pods": ("GET", self._get_expired),
            "/delete-expired-pod": ("POST", self._delete_expired),
        }

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer MAIA's tools: which pods have expired, and request the end of one."""
        status, answer = self._answer(environ)
        body = msgspec.json.encode(answer)
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response(f"{status.value} {status.phrase}", headers)
        return [body]

    def _answer(self, environ: "WSGIEnvironment") -> TerminatorAnswer:
        method, route = self._routes.get(environ.get("PATH_INFO", ""), (None, None))
        if route is None:
            paths = ", ".join(self._routes)
            return _error(HTTPStatus.NOT_FOUND, f"There is nothing here but {paths}.")
        if environ["REQUEST_METHOD"] != method:
            return _error(HTTPStatus.METHOD_NOT_ALLOWED, f"This path answers {method} alone.")
        if why := self._unready_reason():
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, why)
        try:
            return route(environ["wsgi.input"].read(LONGEST_BODY_BYTES))
        except ApiError as error:
            log.warning("a request from MAIA could not be answered", error=str(error))
            return _error(HTTPStatus.SERVICE_UNAVAILABLE, str(error))

    def _random_delete(self, _body: bytes) -> TerminatorAnswer:
        """No pod is chosen at random: a pod leaves only for a booked pod that is stored."""
        self._trigger_reclaimer()
        if not self._expired():
            return HTTPStatus.OK, NONE_EXPIRED
        message = "Nothing is deleted at random: a pod leaves when a booked pod that exists needs its GPU."
        return HTTPStatus.OK, {"status": "success", "deleted_pod": "", "message": message}

    def _get_expired(self, _body: bytes) -> TerminatorAnswer:
        found = sorted(pod.metadata.name for pod in self._expired())
        if not found:
            return HTTPStatus.OK, NONE_EXPIRED
        return HTTPStatus.OK, {"status": "success", "expired_pods": found}

    def _delete_expired(self, body: bytes) -> TerminatorAnswer:
        request = _request_in(body)
        if not request.pod_name or not request.namespace:
            return _error(HTTPStatus.BAD_REQUEST, "pod_name and namespace are required")
        wanted = (request.namespace, request.pod_name)
        pod = next((p for p in self._expired() if (p.metadata.namespace, p.metadata.name) == wanted), None)
        if pod is None:
            return _error(HTTPStatus.BAD_REQUEST, "Pod is not expired")
        metadata = {"uid": pod.metadata.uid, "annotations": {names.END_REQUESTED: text_of(self._clock.now())}}
        try:
            self._kube.patch(PODS, request.pod_name, {"metadata": metadata}, namespace=request.namespace)
        except NotFound:
            return _error(HTTPStatus.NOT_FOUND, "Pod not found")
        log.info("MAIA asked to end an expired pod", pod=pod.key, uid=pod.metadata.uid)
        self._trigger_reclaimer()
        return HTTPStatus.OK, {"status": "success", "deleted_pod": request.pod_name}

    def _expired(self) -> list[Pod]:
        now = self._clock.now()
        with self._cache.locked():
            pods, covered = list(self._cache.pods.values()), self._cache.cover(now)
        return list(expired(pods, covered, now))


def _request_in(body: bytes) -> _Request:
    try:
        return msgspec.json.decode(body, type=_Request)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Request()


def _error(status: HTTPStatus, message: str) -> TerminatorAnswer:
    return status, {"status": "error", "message": message}
