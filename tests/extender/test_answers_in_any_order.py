"""Two pods, one device, and an API server that answers Bindings in any way and any order (law L1)."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.decide.serving import ANSWERED_WITHIN
from cluster.fake.server import FakeKube
from cluster.kube.errors import (
    ApiError,
    NotFound,
    Refusal,
    Request,
    ServerError,
    Unreachable,
    Unsent,
    refused,
)
from cluster.kube.resources import PODS
from cluster.objects.assignment import assignment_of, devices_of
from cluster.objects.pods import Pod
from extender.binding.assumed_binds import ASK_AFTER
from tests.extender.cluster import Cluster
from tests.fakes.objects import a100, a_pod

BINDING: Final = Request("POST", "binding")
ANSWERS: Final = {
    "done": None,
    "done, answer lost": Unreachable(BINDING, "the connection broke"),
    "not done, answer lost": Unreachable(BINDING, "the connection broke"),
    "lands later": Unreachable(BINDING, "timed out"),
    "not sent": Unsent(BINDING, "no connection"),
    "500": ServerError(BINDING, Refusal(code=500, reason="InternalError")),
    "done, 500": ServerError(BINDING, Refusal(code=500, reason="InternalError")),
    "lands later, 504": ServerError(BINDING, Refusal(code=504, reason="Timeout")),
    "404": refused(BINDING, Refusal(code=404, reason="NotFound")),
    "409": refused(BINDING, Refusal(code=409, reason="Conflict")),
    "429": refused(BINDING, Refusal(code=429, reason="TooManyRequests")),
    "403": refused(BINDING, Refusal(code=403, reason="Forbidden")),
    "422": refused(BINDING, Refusal(code=422, reason="Invalid")),
}


class AnyOrder(FakeKube):
    """Answers the next Binding as the test has set; what lands later does so when the test lets it."""

    answer = "done"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.clock)
        self._late: list[Callable[[], None]] = []

    def create_subresource(self, *args: Any, **named: Any) -> None:
        """Answer as the test has set."""
        answer, self.answer = self.answer, "done"

        def do() -> None:
            super(AnyOrder, self).create_subresource(*args, **named)

        if answer.startswith("lands later"):
            self._late.append(do)
        elif answer.startswith("done"):
            do()
        error = ANSWERS[answer]
        if error:
            raise error

    def land(self, number: int) -> None:
        """One of those that were to land later does, if its preconditions still hold."""
        if self._late:
            late = self._late.pop(number % len(self._late))
            with suppress(ApiError):
                late()


class Play:
    """What happens, and the law."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.kube = self.kube = AnyOrder(self.cluster)
        self.cluster.bind = self.cluster.binding(patience=0)
        self.cluster.assumed_binds._kube = self.kube
        self.cluster.add_node("n0", a100(0, "n0"))
        for name in "pq":
            self.cluster.ask(self.cluster.create(a_pod(name).asks(1)))

    def pod(self, name: str) -> Pod | None:
        """As it is stored; None when it is gone."""
        with suppress(NotFound):
            return self.cluster.stored(name)
        return None

    def bind(self, name: str, answer: str) -> None:
        """The scheduler, which knows the pod's present state, asks for a bind."""
        pod = self.pod(name)
        if pod:
            if not pod.spec.node_name:
                self.cluster.ask(pod)
            self.kube.answer = answer
            self.cluster.bind_to(pod)
            self.kube.answer = "done"

    def repeat(self, name: str, answer: str) -> None:
        """The scheduler asks again for what it has asked for already."""
        if pod := self.pod(name):
            self.kube.answer = answer
            self.cluster.bind_to(pod)
            self.kube.answer = "done"

    def touch(self, name: str, _answer: str) -> None:
        """Somebody writes the pod: what was to land later is refused."""
        if self.pod(name):
            body = {"metadata": {"annotations": {"touched": str(self.cluster.clock.monotonic())}}}
            self.kube.patch(PODS, name, body, namespace="default")

    def watch(self, name: str, _answer: str) -> None:
        """The extender's watch comes to the pod."""
        if pod := self.pod(name):
            self.cluster.pods.upsert(pod)

    def land(self, name: str, _answer: str) -> None:
        """A delayed Binding arrives."""
        self.kube.land("pq".index(name))

    def settle(self, _name: str, _answer: str) -> None:
        """The extender settles the binds that it has not seen."""
        self.cluster.assumed_binds.reconcile()
        self.wait(ASK_AFTER)
        self.cluster.assumed_binds.reconcile()

    def wait(self, seconds: float) -> None:
        """Time passes; the node's agent is well."""
        self.cluster.clock.advance(seconds)
        self.cluster.renew()

    def pause(self, _name: str, _answer: str) -> None:
        """The node's kubelet does not say whether it takes the pod."""
        self.wait(ANSWERED_WITHIN)

    def check(self) -> None:
        """Law L1."""
        pods = [pod for pod in map(self.pod, "pq") if pod and pod.spec.node_name]
        given = [devices_of(assignment_of(pod) or {}) for pod in pods]
        assert sum(map(len, given)) == len(frozenset().union(*given)), given


HAPPENS: Final = ("bind", "repeat", "touch", "watch", "land", "settle", "pause")
STEPS: Final = st.tuples(st.sampled_from(HAPPENS), st.sampled_from("pq"), st.sampled_from(sorted(ANSWERS)))


@settings(max_examples=400)
@given(st.lists(STEPS, max_size=12))
def test_l1_no_order_of_answers_gives_one_device_to_two_pods(steps: list[tuple[str, str, str]]) -> None:
    play = Play()
    for what, name, answer in steps:
        getattr(play, what)(name, answer)
        play.check()
    for number in range(len(steps)):
        play.kube.land(number)
        play.check()


@pytest.mark.parametrize("answer", sorted(set(ANSWERS) - {"done"}))
@pytest.mark.parametrize("lost", ["lands later", "500", "done, answer lost"])
def test_l1_after_an_unknown_answer_no_answer_to_the_repeat_frees_the_device(lost: str, answer: str) -> None:
    play = Play()
    play.bind("p", lost)
    play.repeat("p", answer)
    play.pause("p", answer)
    play.bind("q", "done")
    play.kube.land(0)
    play.check()


def test_the_pod_is_bound_in_the_end_whatever_was_answered() -> None:
    for answer in ANSWERS:
        play = Play()
        play.bind("p", answer)
        play.touch("p", answer)
        play.watch("p", answer)
        play.settle("p", answer)
        play.bind("p", "done")
        pod = play.pod("p")
        assert pod is not None
        assert pod.spec.node_name == "n0", answer
