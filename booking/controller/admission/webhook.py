"""The webhook's answer to one request: from bytes to bytes.

Until the cluster has been read once it answers 503, and the API server rejects the pod (``failurePolicy:
Fail``). After that there is always an answer: while the cache is too old (law L6) no new pod counts as
booked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import msgspec
import structlog

from booking.controller.admission.admission_review import (
    API_VERSION,
    KIND,
    AdmissionAnswer,
    AdmissionReview,
    Refusal,
    Request,
    Response,
)
from booking.controller.admission.metrics import Metrics
from booking.controller.admission.pod_reader import BadPodError
from booking.controller.admission.review import ClusterView, Outcome, Review, ReviewRequest
from booking.controller.gpu_stripping import named_gpu_resources
from cluster.kube.errors import ApiError
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
_MOST_KEYS: Final = 10
_LONGEST_KEY: Final = 100
"""The most forged keys in a log line, and characters of each: the user chooses how many there are."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An HTTP answer."""

    status: HTTPStatus
    body: bytes
    content_type: str = TEXT


def refusal(status: HTTPStatus, message: str) -> Reply:
    """An answer in the form of a message: the API server shows it to the user who created the pod."""
    return Reply(status, f"{message}\n".encode())


class BadRequestError(ValueError):
    """The body is not what the API server sends."""


class Answering:
    """Answers AdmissionReviews by what they say alone, from bytes to bytes. Thread-safe."""

    def __init__(self, decide: Callable[[Request], Outcome], metrics: Metrics) -> None:
        """Create it.

        Args:
            decide: decides; raises BadRequestError or BadPodError for an object that cannot be read.
            metrics: counts the answers.
        """
        self._decide, self._metrics = decide, metrics

    def __call__(self, body: bytes) -> Reply:
        """Answer one request."""
        try:
            request = admission_review_in(body).request
            outcome = self._decide(request)
        except (BadRequestError, BadPodError) as error:
            self._metrics.requests.labels(outcome=str(HTTPStatus.BAD_REQUEST.value)).inc()
            return refusal(HTTPStatus.BAD_REQUEST, str(error))
        self._metrics.requests.labels(outcome=outcome.kind).inc()
        return Reply(HTTPStatus.OK, answer(request, outcome), JSON)


class Webhook:
    """Answers AdmissionReviews. Thread-safe."""

    def __init__(
        self,
        review: Review,
        view: ClusterView,
        clock: Clock,
        metrics: Metrics,
        *,
        unready_reason: Callable[[], str | None],
        read_bookings: Callable[[], None],
        gpu_defaults: Callable[[str], frozenset[str]],
    ) -> None:
        """Create it.

        Args:
            review: decides.
            view: what is known of the cluster.
            clock: the time, which decides which bookings run.
            metrics: counts the answers.
            unready_reason: why the view cannot be trusted now, None when it can.
            read_bookings: reads bookings that the watch may not have reported yet; raises ApiError.
            gpu_defaults: the GPU resources that LimitRanges of a namespace fill in; raises ApiError.
        """
        self._review = review
        self._view = view
        self._clock = clock
        self._metrics = metrics
        self._unready_reason = unready_reason
        self._read_bookings = read_bookings
        self._gpu_defaults = gpu_defaults
        self._complete = False

    def problem(self) -> str | None:
        """Why no request can be answered yet: for the readiness probe. None once the cache has synced."""
        why = self._unready_reason()
        self._complete = self._complete or why is None
        return None if self._complete else why

    def __call__(self, body: bytes) -> Reply:
        """Answer one request, whatever it is."""
        return self._reply(body, is_last=False)

    def last(self, body: bytes) -> Reply:
        """Answer one request about a pod that passed here before and was changed by other webhooks since."""
        return self._reply(body, is_last=True)

    def _reply(self, body: bytes, *, is_last: bool) -> Reply:
        try:
            request = admission_review_in(body).request
            problem = self.problem()
            if problem:
                return self._refused(HTTPStatus.SERVICE_UNAVAILABLE, problem)
            outcome = self._decide(request, is_last=is_last)
        except (BadRequestError, BadPodError) as error:
            return self._refused(HTTPStatus.BAD_REQUEST, str(error))
        except Exception:
            log.exception("internal error while answering an admission review")
            why = "The webhook failed to answer; its log says why."
            return self._refused(HTTPStatus.INTERNAL_SERVER_ERROR, why)
        self._metrics.requests.labels(outcome=outcome.kind).inc()
        if outcome.forged:
            self._metrics.reserved_keys_removed.inc()
        _log_outcome(request, outcome)
        return Reply(HTTPStatus.OK, answer(request, outcome), JSON)

    def _decide(self, request: Request, *, is_last: bool) -> Outcome:
        if not request.is_new_pod:
            return Outcome(kind="untouched")
        review_request = ReviewRequest(
            creator=request.user_info.username,
            groups=frozenset(request.user_info.groups),
            namespace=request.namespace,
            pod=_object_in(request),
            is_last=is_last,
        )
        is_certain = self._unready_reason() is None
        outcome = self._review(review_request, self._view, self._clock.now(), is_certain=is_certain)
        if outcome.kind == "gpu-removed":
            zero = self._given_by_default(review_request)
            return self._review(
                review_request, self._view, self._clock.now(), is_certain=is_certain, zero=zero
            )
        if outcome.kind != "stripped":
            return outcome
        # A user who booked a moment ago would lose the GPU for good because the watch lags (law L2).
        try:
            self._read_bookings()
        except ApiError as error:
            log.warning("the Bookings could not be read: the pod keeps its GPU request", error=str(error))
            is_certain = False
        zero = self._given_by_default(review_request)
        return self._review(review_request, self._view, self._clock.now(), is_certain=is_certain, zero=zero)

    def _given_by_default(self, request: ReviewRequest) -> frozenset[str]:
        """The GPU resources that a LimitRange would give to the pod after us; if unknown, all its own."""
        try:
            return self._gpu_defaults(request.namespace)
        except ApiError as error:
            log.warning("the LimitRanges could not be read", namespace=request.namespace, error=str(error))
            return named_gpu_resources(request.pod["spec"])

    def _refused(self, status: HTTPStatus, message: str) -> Reply:
        self._metrics.requests.labels(outcome=str(status.value)).inc()
        return refusal(status, message)


def admission_review_in(body: bytes) -> AdmissionReview:
    """The AdmissionReview in a request body.

    Raises:
        BadRequestError: it is not one, or of another version.
    """
    try:
        review = msgspec.json.decode(body, type=AdmissionReview)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"The body is not an AdmissionReview: {error}.") from error
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        got = f"{review.api_version} {review.kind}"[:100]
        raise BadRequestError(f"This webhook answers {API_VERSION} {KIND}, not {got}.")
    return review


def _object_in(request: Request) -> dict[str, Any]:
    try:
        return msgspec.json.decode(request.object, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequestError(f"The object of the AdmissionReview is not a pod: {error}.") from error


def answer(request: Request, outcome: Outcome) -> bytes:
    """The AdmissionReview, as JSON, that answers a request with this outcome."""
    response = Response(
        uid=request.uid,
        allowed=outcome.refused is None,
        status=_status(outcome.refused) if outcome.refused else None,
        patch_type="JSONPatch" if outcome.patch else None,
        patch=msgspec.json.encode(outcome.patch) if outcome.patch else None,
        warnings=outcome.warnings or None,
    )
    return msgspec.json.encode(AdmissionAnswer(api_version=API_VERSION, kind=KIND, response=response))


def _status(message: str) -> Refusal:
    return Refusal(code=HTTPStatus.UNPROCESSABLE_ENTITY.value, reason="Invalid", message=message)


def _log_outcome(request: Request, outcome: Outcome) -> None:
    pod, creator = f"{request.namespace}/{request.name or '?'}", request.user_info.username
    if outcome.forged:
        keys = [key[:_LONGEST_KEY] for key in outcome.forged[:_MOST_KEYS]]
        log.warning(
            "reserved keys were removed from a new pod",
            pod=pod,
            creator=creator,
            keys=keys,
            omitted=len(outcome.forged) - len(keys),
        )
    log.info(
        "pod refused" if outcome.refused else "pod admitted",
        pod=pod,
        creator=creator,
        outcome=outcome.kind,
        dry_run=request.dry_run,
    )
