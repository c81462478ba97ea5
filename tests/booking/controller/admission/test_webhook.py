"""The webhook's answer to one request, as bytes in and bytes out."""

import base64
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from booking.controller.admission.metrics import Metrics
from booking.controller.admission.patch import Operation
from booking.controller.admission.pod_reader import asks_for_gpus, read
from booking.controller.admission.review import Review
from booking.controller.admission.webhook import Reply, Webhook
from cluster import names
from cluster.decide.entitlement import UserCoverage
from cluster.fake.clock import FakeClock
from cluster.kube.errors import ApiError, Request, Unreachable
from cluster.objects.bookings import Booking
from cluster.objects.pods import Pod
from demo.simulation.json_patch import applied
from tests.booking.controller.admission.fake_cluster_view import CREATORS, FakeClusterView
from tests.fakes.objects import a_booking

Json = dict[str, Any]

FIXTURES = Path(__file__).parents[3] / "fixtures" / "admission"
USERS = (FIXTURES / "create_user.json").read_bytes()


class FailingClusterView(FakeClusterView):
    """The view of the cluster that the webhook reads."""

    def __init__(self) -> None:
        super().__init__(bookings=(a_booking("b-1", start=FakeClock().now()),))
        self.problem: str | None = None
        self.failure: Exception | None = None
        self.lags: tuple[Booking, ...] = ()
        """Bookings that the watch has not delivered yet."""
        self.unread: ApiError | None = None
        self.unlisted: ApiError | None = None
        self.defaults: frozenset[str] = frozenset()
        """GPU resources that a LimitRange gives."""

    def read_bookings(self) -> None:
        if self.unread:
            raise self.unread
        self.bookings = (*self.bookings, *self.lags)

    def gpu_defaults(self, namespace: str) -> frozenset[str]:
        if self.unlisted:
            raise self.unlisted
        return self.defaults if namespace == "default" else frozenset()

    def unready_reason(self) -> str | None:
        return self.problem

    def user_coverage(self, pod: Pod, now: datetime) -> UserCoverage:
        if self.failure:
            raise self.failure
        return super().user_coverage(pod, now)


@pytest.fixture
def cache() -> FailingClusterView:
    return FailingClusterView()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def admit(cache: FailingClusterView, registry: CollectorRegistry) -> Webhook:
    return Webhook(
        Review(creators=CREATORS, unbooked="strip"),
        cache,
        FakeClock(),
        Metrics(registry),
        unready_reason=cache.unready_reason,
        read_bookings=cache.read_bookings,
        gpu_defaults=cache.gpu_defaults,
    )


def response(reply: Reply) -> Json:
    assert (reply.status, reply.content_type) == (HTTPStatus.OK, "application/json")
    review: Json = msgspec.json.decode(reply.body)
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    found: Json = review["response"]
    return found


def patch_in(answer: Json) -> list[Operation]:
    return msgspec.json.decode(base64.b64decode(answer["patch"]), type=list[Operation])


def changed(**changes: Any) -> bytes:
    review = msgspec.json.decode(USERS)
    review["request"] |= changes
    return msgspec.json.encode(review)


def test_a_users_pod_is_answered_with_a_patch(admit: Webhook, registry: CollectorRegistry) -> None:
    answer = response(admit(USERS))
    request = msgspec.json.decode(USERS)["request"]
    assert (answer["uid"], answer["allowed"], answer["patchType"]) == (request["uid"], True, "JSONPatch")
    pod = applied(request["object"], patch_in(answer))
    assert pod["metadata"]["annotations"][names.USER] == "alice"
    assert answer["warnings"] == [
        "Your booking of 1 x NVIDIA-A100-SXM4-80GB (b-1) covers this pod until Wed 2026-11-25 09:00 UTC."
    ]
    counted = registry.get_sample_value("gpu_booking_admission_requests_total", {"outcome": "booked"})
    assert counted == 1


def test_a_share_that_cannot_be_granted_is_refused_with_its_sentence(
    admit: Webhook, registry: CollectorRegistry
) -> None:
    pod = msgspec.json.decode(USERS)["request"]["object"]
    pod["spec"]["containers"][0]["resources"]["limits"][names.GPU_MEMORY] = "0"
    answer = response(admit(changed(object=pod)))
    assert (answer["allowed"], answer["status"]["code"]) == (False, 422)
    assert names.GPU_MEMORY in answer["status"]["message"]
    assert "patch" not in answer
    counted = registry.get_sample_value("gpu_booking_admission_requests_total", {"outcome": "refused"})
    assert counted == 1


@pytest.mark.parametrize(
    ("defaults", "is_read", "amounts"),
    [
        (frozenset(), True, {}),
        (frozenset({names.GPU_RESOURCE}), True, {names.GPU_RESOURCE: "0"}),
        (frozenset(), False, {names.GPU_RESOURCE: "0"}),
    ],
    ids=["no LimitRange", "a LimitRange fills in GPUs", "LimitRanges cannot be read"],
)
def test_a_pod_without_its_gpu_names_none_unless_a_limit_range_would_fill_it_in(
    admit: Webhook, cache: FailingClusterView, amounts: Json, defaults: frozenset[str], *, is_read: bool
) -> None:
    cache.bookings, cache.has, cache.defaults = (), "full", defaults
    cache.unlisted = None if is_read else Unreachable(Request("GET", "limitranges"), "no answer")
    pod = applied(msgspec.json.decode(USERS)["request"]["object"], patch_in(response(admit(USERS))))
    (container,) = pod["spec"]["containers"]
    assert container["resources"] == {"limits": amounts, "requests": amounts}


def test_a_pod_whose_gpu_another_webhook_has_removed_names_none_where_a_limit_range_would_fill_it_in(
    admit: Webhook, cache: FailingClusterView
) -> None:
    cache.defaults = frozenset({names.GPU_RESOURCE})
    pod = applied(msgspec.json.decode(USERS)["request"]["object"], patch_in(response(admit(USERS))))
    pod["spec"]["containers"][0]["resources"] = {}
    review = msgspec.json.decode(USERS)
    review["request"]["object"] = pod
    after = applied(pod, patch_in(response(admit.last(msgspec.json.encode(review)))))
    (container,) = after["spec"]["containers"]
    assert container["resources"]["limits"] == {names.GPU_RESOURCE: "0"}


def test_a_pod_whose_gpu_another_webhook_has_removed_is_allowed_without_priority(
    admit: Webhook, registry: CollectorRegistry
) -> None:
    pod = applied(msgspec.json.decode(USERS)["request"]["object"], patch_in(response(admit(USERS))))
    for container in pod["spec"]["containers"]:
        container["resources"] = {}
    answer = response(admit.last(changed(object=pod)))
    stored = applied(pod, patch_in(answer))
    assert answer["allowed"]
    assert stored["metadata"]["annotations"][names.STRIPPED] == answer["warnings"][0]
    assert "priorityClassName" not in stored["spec"]
    counted = registry.get_sample_value("gpu_booking_admission_requests_total", {"outcome": "gpu-removed"})
    assert counted == 1


def test_l2_a_pod_keeps_its_gpu_request_when_the_watch_has_not_delivered_its_booking_yet(
    admit: Webhook, cache: FailingClusterView
) -> None:
    cache.lags, cache.bookings, cache.has = cache.bookings, (), "full"
    answer = response(admit(USERS))
    pod = applied(msgspec.json.decode(USERS)["request"]["object"], patch_in(answer))
    assert asks_for_gpus(read(pod))
    assert pod["metadata"]["annotations"][names.BOOKING] == "b-1"


def test_a_pod_without_a_booking_starts_without_a_gpu_when_none_is_free(
    admit: Webhook, cache: FailingClusterView
) -> None:
    cache.bookings, cache.has = (), "full"
    answer = response(admit(USERS))
    pod = applied(msgspec.json.decode(USERS)["request"]["object"], patch_in(answer))
    assert not asks_for_gpus(read(pod))


def test_l6_a_pod_keeps_its_gpu_request_when_the_bookings_cannot_be_read(
    admit: Webhook, cache: FailingClusterView
) -> None:
    cache.bookings, cache.has = (), "full"
    cache.unread = Unreachable(Request("GET", "/bookings"), "connection refused")
    answer = response(admit(USERS))
    pod = applied(msgspec.json.decode(USERS)["request"]["object"], patch_in(answer))
    assert asks_for_gpus(read(pod))
    assert "Bookings cannot be read now" in answer["warnings"][0]


def test_l7_forged_keys_are_reported_with_their_sender(admit: Webhook, registry: CollectorRegistry) -> None:
    pod = msgspec.json.decode(USERS)["request"]["object"]
    forged = {f"{names.USER}-{number}": "x" for number in range(50)}
    pod["metadata"]["annotations"] = forged
    with capture_logs() as lines:
        assert response(admit(changed(object=pod)))["allowed"]
    (logged,) = [line for line in lines if line["log_level"] == "warning"]
    assert logged["creator"] == msgspec.json.decode(USERS)["request"]["userInfo"]["username"]
    assert set(logged["keys"]) < set(forged)
    assert len(logged["keys"]) + logged["omitted"] == len(forged)
    assert registry.get_sample_value("gpu_booking_admission_reserved_keys_removed_total") == 1


def test_requests_about_anything_but_new_pods_are_allowed(admit: Webhook, cache: FailingClusterView) -> None:
    for body in (
        (FIXTURES / "binding.json").read_bytes(),
        changed(operation="UPDATE"),
        changed(operation="DELETE", object=None),
        changed(subResource="status"),
        changed(kind={"group": "apps", "version": "v1", "kind": "Deployment"}),
    ):
        answer = response(admit(body))
        assert answer.keys() == {"uid", "allowed"}
        assert answer["allowed"] is True
    assert cache.user_coverage_of == []


def test_a_dry_run_is_answered_like_any_other(admit: Webhook) -> None:
    assert patch_in(response(admit(changed(dryRun=True)))) == patch_in(response(admit(USERS)))


class TestWithoutACache:
    def test_requests_before_the_first_cache_are_answered_with_503(
        self, admit: Webhook, cache: FailingClusterView
    ) -> None:
        cache.problem = "The pods of the cluster have not been read yet."
        assert admit.problem() == cache.problem
        reply = admit(USERS)
        assert reply.status == HTTPStatus.SERVICE_UNAVAILABLE
        assert reply.body.decode() == "The pods of the cluster have not been read yet.\n"

    def test_l6_no_new_pod_counts_as_booked_with_a_stale_cache(
        self, admit: Webhook, cache: FailingClusterView
    ) -> None:
        assert admit.problem() is None
        cache.problem = "There have been no events of pods."
        assert admit.problem() is None
        answer = response(admit(USERS))
        assert "cannot be read now" in answer["warnings"][0]
        spec = applied(msgspec.json.decode(USERS)["request"]["object"], patch_in(answer))["spec"]
        assert spec["priorityClassName"] == names.OPPORTUNISTIC_CLASS
        assert cache.user_coverage_of == []


class TestBadBodies:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"{",
            b"null",
            b"[]",
            b"\xff\xfe",
            b"{}",
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
            b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}',
            USERS.replace(b"admission.k8s.io/v1", b"admission.k8s.io/v1beta1"),
            USERS.replace(b'"AdmissionReview"', b'"ConversionReview"'),
            changed(object=None),
            changed(object=[]),
            changed(object={"metadata": {"annotations": {"a": 1}}, "spec": {}}),
            changed(object={"metadata": None, "spec": None}),
            changed(userInfo=None),
            b"[" * 100_000,
            USERS.replace(b'"spec": {', b'"spec": {"x":' + b"[" * 50_000 + b"]" * 50_000 + b",", 1),
        ],
    )
    def test_bad_bodies_are_refused_with_a_message(self, admit: Webhook, body: bytes) -> None:
        reply = admit(body)
        assert reply.status == HTTPStatus.BAD_REQUEST
        message = reply.body.decode()
        assert message.endswith(".\n")
        assert "Traceback" not in message
        assert len(message) < 400

    def test_a_fault_of_ours_is_answered_without_a_traceback(
        self, admit: Webhook, cache: FailingClusterView
    ) -> None:
        cache.failure = RuntimeError("boom")
        reply = admit(USERS)
        assert reply.status == HTTPStatus.INTERNAL_SERVER_ERROR
        assert b"boom" not in reply.body
