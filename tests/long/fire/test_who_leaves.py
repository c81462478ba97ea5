"""The pod that makes way in the short story: the one that is read, or another while a kubelet is away."""

from typing import Any, Final, cast

import pytest

from cluster import names
from cluster.fake.merging import merged
from cluster.kube.resources import PODS
from cluster.objects.hold import Hold
from devcluster.demo.rest import RestAnswer
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.fakes.objects import EPOCH, a_pod
from tests.laws.live import LiveWatch
from tests.long.fire.ending import Fate
from tests.long.fire.harm import Blow
from tests.long.fire.short_story import (
    ELSEWHERE,
    EXPECTED,
    HERS,
    VICTIM,
    WAITS,
    ShortStory,
    expected,
    may_leave,
    victim_that_leaves,
)

B: Final = "node-b/kubelet"


@pytest.mark.parametrize(
    ("blow", "anybody_else"),
    [
        (Blow(B, "begun", 2.4, 1.0), True),
        (Blow(B, "asked"), True),
        (Blow(B, "held"), False),
        (Blow(B, "asked", 0.1, 20.0, "paused"), False),
        (Blow("node-a/kubelet", "asked"), False),
        (Blow("node-b/containerd", "asked"), False),
    ],
    ids=str,
)
def test_another_pod_may_leave_where_the_kubelet_dies_before_the_device_is_chosen(
    blow: Blow, *, anybody_else: bool
) -> None:
    others = (Blow("etcd", "asked"), Blow("node-a/kubelet", "begun"))
    assert may_leave((*others, blow)) == ((VICTIM, *ELSEWHERE) if anybody_else else (VICTIM,))


def test_in_the_end_the_pod_that_made_way_has_no_gpu_and_the_waiting_pod_has_that_one() -> None:
    end = expected(ELSEWHERE[0])
    assert end.pods[ELSEWHERE[0]] == EXPECTED.pods[VICTIM]
    assert end.pods[VICTIM] == Fate("Running", device=VICTIM, model=EXPECTED.pods[WAITS].model)
    assert end.pods[WAITS].device == ELSEWHERE[0]


class EnoughError(Exception):
    """The victim is back: no more is to be seen here."""


class StoryContext:
    """A cluster in memory, and all who act on it: at each moment they do what is due until the next."""

    name = "alice and bob"

    def __init__(self, victim: str) -> None:
        """Args: victim: who makes way."""
        self.rest = self
        self.cluster = FakeCluster()
        self.cluster.book()
        self._victim = victim

    def create(self, body: dict[str, Any]) -> None:
        """Bob's pods run at once, alice's waits."""
        name = body["metadata"]["name"]
        more = {"namespace": "default", "uid": f"uid-{name}"}
        self.cluster.kube.put(PODS, merged(body, {"metadata": more}))
        if name != HERS:
            self._run(name, device=name)

    def ask(self, *_: object) -> RestAnswer:
        """The booking server: her booking runs."""
        return RestAnswer(200, {"bookings": [{"id": "b-1", "state": "active"}]})

    def check(self) -> None:
        """No law is broken."""

    def interlude(self, moment: str) -> None:
        """What happens until the next moment."""
        if moment == "asked":
            hold = Hold(node="n0", devices=(self._victim,), victims=(f"uid-{self._victim}",), at=EPOCH)
            self.cluster.hold(HERS, hold)
        elif moment == "held":
            self.cluster.kube.delete(PODS, self._victim, namespace="default")
        elif moment == "leaving":
            self._run(HERS, device=self._victim)
        elif moment == "served":
            self.cluster.gone(self._victim)
            back = a_pod(self._victim).with_annotation(names.RECREATED_FROM, f"uid-{self._victim}").raw
            running = {"metadata": {"uid": "uid-back"}, "status": {"phase": "Running"}}
            self.cluster.kube.put(PODS, merged(back, running))
        elif moment == "back":
            raise EnoughError

    def _run(self, name: str, *, device: str) -> None:
        given = a_pod(name).on("n0", {"main": (device,)}).annotations
        more = {
            "metadata": {"annotations": given},
            "spec": {"nodeName": "n0"},
            "status": {"phase": "Running"},
        }
        self.cluster.kube.put(PODS, merged(self.cluster.kube.raw(PODS, name, namespace="default"), more))


def story_on(context: StoryContext) -> ShortStory:
    """The short story, played there, in which anybody may leave."""
    ground = Playground(
        context.cluster.kube, lambda *_: "", namespace="default", laws=cast("LiveWatch", context)
    )
    persons = (cast("Person", context), cast("Person", context))
    everybody = (VICTIM, *ELSEWHERE)
    return ShortStory(*persons, ground, interlude=context.interlude, rival=False, may_leave=everybody)


@pytest.mark.parametrize("victim", [VICTIM, *ELSEWHERE])
def test_the_story_goes_on_with_the_pod_that_has_to_leave(victim: str) -> None:
    short = story_on(StoryContext(victim))
    with pytest.raises(EnoughError):
        short.play()
    assert short.victim == victim


def test_only_the_victim_counts_where_no_other_pod_may_leave() -> None:
    pods = [a_pod(VICTIM).obj, a_pod(ELSEWHERE[0]).terminating().obj]
    uids = {pod.metadata.name: pod.metadata.uid for pod in pods}
    assert victim_that_leaves(pods, uids) == ELSEWHERE[0]
    assert victim_that_leaves(pods, {VICTIM: uids[VICTIM]}) is None
