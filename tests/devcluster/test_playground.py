"""Waiting on a whole cluster, as its tests do: transient errors are waited out, others fail at once."""

from typing import Any, cast

import pytest

from cluster.fake.server import FakeKube
from cluster.kube.errors import Conflict, Refusal, Request, ServerError, TooManyRequests, Unreachable, Unsent
from cluster.kube.resources import EVENTS, PODS
from tests.e2e.playground import SCHEDULER_ERROR, UNSCHEDULABLE, Playground, unscheduled_message
from tests.fakes.objects import a_pod
from tests.laws.broken import LawBrokenError

HOME = "default"
REQUEST = Request("GET", "/api/v1/pods")


class Laws:
    """A watcher of the laws: raises what it has found."""

    def __init__(self) -> None:
        self.found: LawBrokenError | None = None

    def check(self) -> None:
        if self.found is not None:
            raise self.found


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def laws() -> Laws:
    return Laws()


@pytest.fixture
def ground(kube: FakeKube, laws: Laws) -> Playground:
    def no_kubectl(*words: str, given: str | None = None) -> str:
        raise AssertionError(
            f"kubectl {words} is a process: what the client can read is read by it ({given})"
        )

    return Playground(kube, no_kubectl, namespace=HOME, laws=cast("Any", laws))


@pytest.mark.parametrize(
    "error",
    [
        Unreachable(REQUEST, "it hangs"),
        Unsent(REQUEST, "no connection in 15 s"),
        ServerError(REQUEST, Refusal(500, message="etcdserver: request timed out")),
        ServerError(REQUEST, Refusal(503)),
        TooManyRequests(REQUEST, Refusal(429)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_api_server_that_does_not_answer_for_a_moment_is_asked_again(
    ground: Playground, kube: FakeKube, error: Exception
) -> None:
    kube.put(PODS, a_pod("p").raw)
    kube.fail("LIST", error)
    ground.await_phase(["p"], "Pending")


def test_an_api_server_that_stays_away_is_reported(ground: Playground, kube: FakeKube) -> None:
    kube.down = True
    with pytest.raises(
        AssertionError, match=r"Not within 0 s: all is well \(the last trouble: .+ got no answer"
    ):
        ground.await_that("all is well", ground.nodes, seconds=0)


def test_a_refusal_is_not_waited_out(ground: Playground, kube: FakeKube) -> None:
    kube.fail("LIST", Conflict(REQUEST, Refusal(409)))
    with pytest.raises(Conflict):
        ground.await_phase(["p"])


def test_a_condition_that_fails_ends_the_wait(ground: Playground) -> None:
    def wrong() -> bool:
        raise AssertionError("it is another pod")

    with pytest.raises(AssertionError, match="it is another pod"):
        ground.await_that("it is the same pod", wrong)


def test_a_law_that_is_broken_ends_the_wait(ground: Playground, laws: Laws) -> None:
    laws.found = LawBrokenError("L1", "GPU-1 is in two pods.", ())
    with pytest.raises(LawBrokenError, match="GPU-1"):
        ground.await_that("never", lambda: None)


def test_events_are_read_by_the_client(ground: Playground, kube: FakeKube) -> None:
    for number, (about, namespace) in enumerate({"p": HOME, "q": HOME, "node-a": "default"}.items()):
        body = {
            "metadata": {"name": f"event-{number}"},
            "involvedObject": {"name": about, "namespace": namespace},
            "message": f"{about} says it at last",
        }
        kube.create(EVENTS, body, namespace=namespace)
    assert ground.await_event("p", "at last") == "p says it at last"
    ground.await_node_event("node-a", "node-a says")


def test_everything_is_deleted_though_the_api_server_is_away_for_a_moment(
    ground: Playground, kube: FakeKube
) -> None:
    kube.put(PODS, a_pod("p").raw)
    kube.fail("LIST", Unreachable(REQUEST, "it hangs"))
    kube.fail("DELETE", Unreachable(REQUEST, "it hangs"))
    ground.kubectl = lambda *_words, **_more: ""
    ground.clear()
    assert not ground.pods()


def test_a_failed_bind_does_not_count_as_a_pod_that_fits_nowhere(kube: FakeKube, ground: Playground) -> None:
    pod = a_pod("p").raw
    condition = {"type": "PodScheduled", "status": "False"}
    later = {**condition, "reason": SCHEDULER_ERROR, "message": "The kubelet has not answered yet."}
    kube.put(PODS, {**pod, "status": {"conditions": [later]}})
    assert unscheduled_message(ground.pod("p"), UNSCHEDULABLE) is None
    assert ground.await_scheduler_error("p") == later["message"]

    full = {**condition, "reason": UNSCHEDULABLE, "message": "0/1 nodes are available."}
    kube.put(PODS, {**pod, "status": {"conditions": [full]}})
    assert ground.await_waiting("p") == "0/1 nodes are available."
