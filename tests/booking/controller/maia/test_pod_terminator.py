"""MAIA's tools talk to us: the whole way from HTTP to the pod that ends."""

import io
import json
from datetime import timedelta
from http import HTTPStatus
from typing import Any

import pytest

from booking.controller.maia.pod_terminator import PodTerminator
from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.kube.resources import PODS
from cluster.objects.cover_annotations import text_of
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.fakes.objects import EPOCH

LONG_AGO = "1900-01-01T08:00:00Z"
LATER = text_of(EPOCH + timedelta(hours=1))


class Site:
    """A cluster in which MAIA's own webhook annotates pods, and a client of its terminator."""

    def __init__(self) -> None:
        self.cluster = FakeCluster(terms=EvictionSettings(maia=True))
        self.triggered = 0
        self.unready_reason: str | None = None
        self.cluster.add_node()

    def pod(self, name: str, index: int, until: str) -> None:
        """A pod of bob's that MAIA has annotated."""
        self.cluster.opportunist(name, index)
        change = {"metadata": {"annotations": {names.TERMINATE_AT: until}}}
        self.cluster.kube.patch(PODS, name, change, namespace="default")
        self.cluster.sync()

    def trigger(self) -> None:
        self.triggered += 1

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of an answer."""
        cache, statuses = self.cluster.cache, []
        door = PodTerminator(
            self.cluster.kube,
            self.cluster.clock,
            cache,
            unready_reason=lambda: self.unready_reason,
            trigger_reclaimer=self.trigger,
        )
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "wsgi.input": io.BytesIO(sent)}
        (text,) = door(environ, lambda status, _headers: statuses.append(status))
        return int(statuses[0].partition(" ")[0]), json.loads(text)

    def left(self) -> list[str]:
        """The pods that have been ended after some passes."""
        self.cluster.reconcile(3)
        return [name for name, _ in self.cluster.evictor.left]


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_random_delete_request_triggers_the_reclaimer_and_ends_no_pod(site: Site) -> None:
    site.pod("p", 0, LONG_AGO)
    status, answer = site.ask("POST", "/random-delete")
    assert (status, answer["status"], answer["deleted_pod"]) == (HTTPStatus.OK, "success", "")
    assert site.triggered == 1
    assert site.left() == []


def test_a_triggered_reclaimer_evicts_for_a_booked_pod_that_is_stored_already(site: Site) -> None:
    for index in range(4):
        site.pod(f"p{index}", index, LONG_AGO)
    site.cluster.book()
    site.cluster.waiting()
    site.ask("POST", "/random-delete")
    assert len(site.left()) == 1


@pytest.mark.parametrize(("method", "path"), [("POST", "/random-delete"), ("GET", "/get-expired-pods")])
def test_the_answer_reports_when_no_pod_is_expired(site: Site, method: str, path: str) -> None:
    site.pod("p", 0, LATER)
    assert site.ask(method, path) == (HTTPStatus.OK, {"status": "no expired pods found"})


def test_expired_pods_are_named(site: Site) -> None:
    site.pod("late", 0, LONG_AGO)
    site.pod("in-time", 1, LATER)
    site.cluster.clock.advance(3601)
    site.cluster.renew()
    site.pod("fresh", 2, text_of(EPOCH + timedelta(hours=3)))
    answer = site.ask("GET", "/get-expired-pods")
    assert answer == (HTTPStatus.OK, {"status": "success", "expired_pods": ["in-time", "late"]})


def test_an_expired_pod_ends_by_name_as_at_the_end_of_a_booking(site: Site) -> None:
    site.pod("p", 0, LONG_AGO)
    body = {"pod_name": "p", "namespace": "default"}
    answer = site.ask("POST", "/delete-expired-pod", body)
    assert answer == (HTTPStatus.OK, {"status": "success", "deleted_pod": "p"})
    assert site.left() == ["p"]
    assert site.cluster.evictor.why["p"].reason == "ended"


def test_the_leader_ends_the_pod_even_when_another_replica_was_asked(site: Site) -> None:
    site.pod("p", 0, LONG_AGO)
    site.ask("POST", "/delete-expired-pod", {"pod_name": "p", "namespace": "default"})
    site.cluster.restart()
    assert site.left() == ["p"]


def test_l6_no_pod_is_ended_while_the_bookings_may_be_stale(site: Site) -> None:
    site.pod("p", 0, LONG_AGO)
    site.ask("POST", "/delete-expired-pod", {"pod_name": "p", "namespace": "default"})
    site.cluster.stop_mirror()
    site.cluster.after(61)
    assert site.left() == []
    site.cluster.resume_mirror()
    assert site.left() == ["p"]


def test_without_the_setting_a_request_has_no_effect(site: Site) -> None:
    site.pod("p", 0, LONG_AGO)
    site.ask("POST", "/delete-expired-pod", {"pod_name": "p", "namespace": "default"})
    site.cluster.terms = EvictionSettings()
    site.cluster.restart()
    assert site.left() == []


@pytest.mark.parametrize("body", [None, b"", b"{", b"[]", {"pod_name": "p"}, {"pod_name": 1}, b"\xff"])
def test_an_unreadable_request_is_refused_in_maias_words(site: Site, body: Any) -> None:
    status, answer = site.ask("POST", "/delete-expired-pod", body)
    assert status == HTTPStatus.BAD_REQUEST
    assert answer == {"status": "error", "message": "pod_name and namespace are required"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", HTTPStatus.NOT_FOUND),
        ("GET", "/random-delete", HTTPStatus.METHOD_NOT_ALLOWED),
        ("DELETE", "/delete-expired-pod", HTTPStatus.METHOD_NOT_ALLOWED),
    ],
)
def test_other_paths_and_methods_are_refused(site: Site, method: str, path: str, status: HTTPStatus) -> None:
    assert site.ask(method, path)[0] == status


def test_while_the_state_is_unknown_requests_are_refused_and_have_no_effect(site: Site) -> None:
    site.pod("p", 0, LONG_AGO)
    site.unready_reason = "There are no events."
    for method, path in (("GET", "/get-expired-pods"), ("POST", "/delete-expired-pod")):
        status, answer = site.ask(method, path, {"pod_name": "p", "namespace": "default"})
        assert (status, answer["message"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "There are no events.")
    site.unready_reason = None
    assert site.left() == []


def test_without_the_api_server_the_answer_is_an_error(site: Site) -> None:
    site.pod("p", 0, LONG_AGO)
    site.cluster.kube.down = True
    status, answer = site.ask("POST", "/delete-expired-pod", {"pod_name": "p", "namespace": "default"})
    assert (status, answer["status"]) == (HTTPStatus.SERVICE_UNAVAILABLE, "error")


def test_maias_annotation_stays_on_a_pod_that_no_booking_of_ours_covers(site: Site) -> None:
    site.pod("p", 0, LATER)
    site.cluster.reconcile(3)
    pod = site.cluster.kube.get(PODS, "p", namespace="default")
    assert pod.metadata.annotation(names.TERMINATE_AT) == LATER
