"""What a GPU's pods must do, on a card (``test_pods_with_the_card``) and rehearsed on a simulated one.

Every play takes the ground it is played on and fails with an AssertionError.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cluster import names
from cluster.kube.interface import Selection
from cluster.kube.resources import RESOURCE_SLICES
from cluster.objects.pods import Pod, asks_for_gpus
from devcluster.errors import ClusterError
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.gpu.work import CHEAP, Seen, Work, annotated, launches_in, seen_in, sharing

PATIENCE = 180.0
"""Seconds: a card that sleeps takes its time for the first CUDA context."""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """Where it is played: a node with GPUs of which all are free and well."""

    playground: Playground
    parts: Parts
    node: str
    work: Work

    @property
    def gpus(self) -> tuple[str, ...]:
        """The UUIDs of the node's GPUs."""
        found = self.playground.inventory().items()
        return tuple(sorted(uuid for uuid, (node, _) in found if node == self.node))

    def log(self, name: str) -> str:
        """What a pod has said up to now."""
        try:
            return self.playground.kubectl("logs", "-n", self.playground.namespace, name, "-c", "main")
        except ClusterError:  # its container is not there yet
            return ""

    def seen(self, name: str) -> Seen:
        """What a pod's program has found."""
        wait = self.playground.await_that
        return wait(f"{name} says what it sees", lambda: seen_in(self.log(name)), seconds=PATIENCE)

    def create(self, *pods: str, gpus: int = 1) -> None:
        """Pods of this node, which run when this returns."""
        for name in pods:
            self.playground.create(self.work.pod(name, gpus=gpus, node=self.node))
        self.playground.await_phase(pods)

    def await_computing(self, name: str) -> None:
        """Wait until a pod has computed once more, rightly."""
        before = launches_in(self.log(name))
        wait = self.playground.await_that
        wait(f"{name} computes", lambda: launches_in(self.log(name)) > before or None, seconds=PATIENCE)


def a_pod_computes_on_its_assigned_gpu(ground: Ground) -> None:
    """And sees no other, however many there are."""
    ground.create("one")
    seen = ground.seen("one")
    assert set(seen.uuids) == set(ground.playground.assignment("one")["main"]), seen
    assert len(seen.nodes) == 1, seen
    ground.await_computing("one")


def two_pods_share_a_gpu(ground: Ground) -> None:
    """Both compute on it, each sees no other, and is told its own limit."""
    shares = {"small": 25, "large": 40}
    for name, percent in shares.items():
        ground.playground.create(sharing(ground.work.pod(name, node=ground.node), percent))
    ground.playground.await_phase(list(shares))
    seen = {name: ground.seen(name) for name in shares}
    (gpu,) = {uuid for one in seen.values() for uuid in one.uuids}
    offered = ground.playground.inventory()[gpu][1].share
    assert offered is not None
    for name, percent in shares.items():
        assert ground.playground.assignment(name)["main"] == (gpu,)
        assert len(seen[name].nodes) == 1, seen
        assert seen[name].memory == str(offered.memory * percent // 100)
    for name in shares:
        ground.await_computing(name)
    ground.playground.check_law_1()


def a_pod_computes_on_a_claimed_gpu(ground: Ground) -> None:
    """For a while the node gives its GPUs by claims, and then under their resource again."""
    gpus, template = ground.gpus, {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    with _by_claims(ground, len(gpus)):
        requests = [{"name": "gpu", "exactly": {"deviceClassName": names.DRA_DRIVER}}]
        spec = {"spec": {"devices": {"requests": requests}}}
        ground.playground.apply({**template, "metadata": {"name": "claimed"}, "spec": spec})
        body = ground.work.pod("claimed", gpus=0, node=ground.node)
        container = body["spec"]["containers"][0]
        container["resources"] = {"claims": [{"name": "gpu"}]}
        # Claims put no UUID into the environment, without which the rehearsal's CUDA names no device.
        container["env"].append({"name": names.DEVICES_VARIABLE, "value": gpus[0]})
        body["spec"] |= {
            "schedulerName": "default-scheduler",
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "claimed"}],
        }
        ground.playground.create(body)
        ground.playground.await_phase(["claimed"])
        seen = ground.seen("claimed")
        assert len(seen.uuids) == len(seen.nodes) == 1, seen
        assert set(seen.uuids) <= set(gpus)
        ground.await_computing("claimed")


@contextmanager
def _by_claims(ground: Ground, gpus: int) -> Iterator[None]:
    playground, parts, node = ground.playground, ground.parts, ground.node
    parts.upgrade({"dra": {"enabled": True}})
    parts.agent(node).kill()
    playground.await_gpus(node, 0)
    claims = parts.start_agent(node, name="agent-claims", settings={names.setting("device_plugin"): "dra"})

    def published() -> bool | None:
        mine = Selection(field_selector=f"spec.nodeName={node}")
        found = playground.kube.list(RESOURCE_SLICES, mine).items
        return sum(len(one.spec.devices) for one in found) == gpus or None

    playground.await_that("the devices are published", published)
    yield
    playground.clear()
    playground.kubectl("delete", "resourceclaimtemplates", "--all", "--namespace", playground.namespace)
    claims.kill()
    parts.agent(node).restart()
    playground.await_gpus(node, gpus)
    parts.upgrade({})


def a_pod_without_a_request_sees_no_gpu(ground: Ground) -> None:
    """Not even when it asks for all by NVIDIA's variable."""
    body = ground.work.pod("none", gpus=0, node=ground.node)
    body["spec"]["containers"][0]["env"].append({"name": names.VISIBLE_DEVICES_VARIABLE, "value": "all"})
    ground.playground.create(body)
    ground.playground.await_phase(["none"])
    seen = ground.seen("none")
    assert (seen.uuids, seen.nodes) == ((), ()), seen
    assert seen.why


def a_pod_without_a_free_gpu_waits_for_one(ground: Ground) -> None:
    """And gets the one that another pod leaves."""
    holders = [f"holder-{number}" for number in range(len(ground.gpus))]
    ground.create(*holders)
    ground.playground.create(ground.work.pod("late", node=ground.node))
    assert ground.playground.await_waiting("late")
    left = ground.playground.assignment(holders[0])["main"]
    ground.playground.delete(holders[0])
    ground.playground.await_phase(["late"])
    assert set(ground.seen("late").uuids) == set(left)
    ground.await_computing("late")
    ground.playground.check_law_1()


def killing_the_agent_does_not_disturb_pods(ground: Ground) -> None:
    """Running pods go on computing, and pods that come afterwards get free GPUs."""
    ground.create("before")
    ground.await_computing("before")
    was = _containers(ground, "before")
    assert was
    ground.parts.agent(ground.node).kill()
    ground.await_computing("before")
    ground.parts.agent(ground.node).restart()
    ground.playground.await_gpus(ground.node, len(ground.gpus))
    assert _containers(ground, "before") == was
    ground.await_computing("before")
    if len(ground.gpus) > 1:
        ground.create("after")
        assert set(ground.seen("after").uuids).isdisjoint(ground.seen("before").uuids)


def a_booked_pod_gets_a_gpu_on_which_another_pod_computes(ground: Ground, alice: Person, bob: Person) -> None:
    """The whole story: bob's CUDA programs have every GPU of a model, and alice books one of them."""
    playground = ground.playground
    model = playground.inventory()[ground.gpus[0]][1].model
    count = sum(device.model == model for _, device in playground.inventory().values())
    names_ = [f"bob-{number}" for number in range(count)]
    for name in names_:
        body = ground.work.pod(name, model=model)
        bob.create(annotated(body, CHEAP) if name == names_[0] else body)
    playground.await_phase(names_)
    for name in names_:
        ground.await_computing(name)
    victim, others = playground.pod(names_[0]), [playground.pod(name) for name in names_[1:]]
    given = playground.assignment(names_[0])["main"]

    booking = alice.book(model=model)
    alice.create(ground.work.pod("alice", model=model))
    playground.await_phase(["alice"])
    assert set(ground.seen("alice").uuids) == set(given)
    ground.await_computing("alice")
    _comes_back(ground, victim)
    for other in others:
        assert playground.pod(other.metadata.name).metadata.uid == other.metadata.uid
        ground.await_computing(other.metadata.name)

    hers = playground.pod("alice")
    bob.create(ground.work.pod("bob-late", model=model))
    assert playground.await_waiting("bob-late")
    alice.release(booking)
    playground.await_phase(["bob-late"])
    assert set(ground.seen("bob-late").uuids) == set(given)
    ground.await_computing("bob-late")
    _comes_back(ground, hers)
    playground.check_law_1()


def _comes_back(ground: Ground, was: Pod) -> None:
    """Under its name, without a GPU, and its program finds none."""
    name = was.metadata.name

    def back() -> bool | None:
        pods = [pod for pod in ground.playground.pods() if pod.metadata.name == name]
        came = [pod for pod in pods if pod.metadata.annotation(names.RECREATED_FROM) == was.metadata.uid]
        return any(pod.status.phase == "Running" and not asks_for_gpus(pod) for pod in came) or None

    ground.playground.await_that(f"{name} comes back without a GPU", back, seconds=PATIENCE)
    seen = ground.seen(name)
    assert (seen.uuids, seen.nodes) == ((), ()), seen


def _containers(ground: Ground, name: str) -> str:
    """The runtime's ids of a pod's containers: others after every start."""
    words = ("get", "pod", name, "--namespace", ground.playground.namespace)
    return ground.playground.kubectl(*words, "--output=jsonpath={.status.containerStatuses[*].containerID}")
