"""A kubelet without the Pods API (1.32 to 1.36): who is being admitted is found by our own watch."""

import hashlib
import json
import threading
from collections.abc import Iterator
from itertools import count

import grpc
import pytest

from cluster import names
from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.reflector import Reflector
from cluster.kube.resources import PODS
from cluster.process.clock import SystemClock
from deviceplugin.kubelet.apiserver_pods import ApiServerPods
from deviceplugin.kubelet.bound_pods import BoundPods
from tests.deviceplugin.agents import RunningAgent, devices
from tests.fakes.kubelet import FakeContainer, FakeKubelet, FakePod

NODE = "node-a"
FIELD = f"spec.nodeName={NODE}"


class OlderNode:
    """An agent between a kubelet without the Pods API and an API server in memory."""

    def __init__(self, kubelet: FakeKubelet) -> None:
        self.kubelet = kubelet
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.bound = BoundPods(SystemClock())
        self.reflector = Reflector(self.kube, PODS, self.bound, SystemClock(), field_selector=FIELD)
        self.agent = RunningAgent(
            kubelet, advertised=devices(8), stored=ApiServerPods(self.kube, NODE), bound=self.bound
        )
        self._uids = count(1)

    def a_pod(self, *assigned: str, name: str = "", containers: list[FakeContainer] | None = None) -> FakePod:
        """A pod that is bound here, with what the extender wrote in its Binding."""
        number = next(self._uids)
        made = containers or [FakeContainer("main", len(assigned) or 1)]
        annotations = {names.ASSIGNED: json.dumps({"main": assigned})} if assigned else {}
        pod = FakePod(name or f"pod-{number}", f"uid-{number}", made, annotations)
        self.kube.put(PODS, stored(pod))
        return pod

    def deleted(self, pod: FakePod) -> None:
        self.kube.delete(PODS, pod.name, namespace=pod.namespace, grace_seconds=0)

    def in_step(self) -> None:
        """Wait until the watch has shown what is stored."""
        eventually(
            lambda: (
                {pod.metadata.uid for pod in self.bound.present}
                == {pod.metadata.uid for pod in self.kube.list(PODS).items}
            )
        )

    def lists(self) -> int:
        """How often the API server was asked for pods."""
        return sum(call.verb == "LIST" for call in self.kube.calls)

    def verdicts(self) -> dict[str, float]:
        samples = [sample for metric in self.agent.registry.collect() for sample in metric.samples]
        return {
            sample.labels["verdict"]: sample.value
            for sample in samples
            if sample.name.endswith("agent_admissions_total")
        }


class Chance:
    """Numbers without a pattern, the same ones in every run."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn = 0

    def below(self, bound: int) -> int:
        self._drawn += 1
        return int.from_bytes(hashlib.sha256(f"{self._seed} {self._drawn}".encode()).digest()[:4]) % bound


def stored(pod: FakePod) -> dict[str, object]:
    def container(one: FakeContainer) -> dict[str, object]:
        limits = {names.GPU_RESOURCE: str(one.gpus)} if one.gpus else {}
        policy = {"restartPolicy": "Always"} if one.sidecar else {}
        return {"name": one.name, "resources": {"limits": limits}, **policy}

    return {
        "metadata": {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "annotations": dict(pod.annotations),
        },
        "spec": {
            "nodeName": NODE,
            "initContainers": [container(one) for one in pod.containers if one.init or one.sidecar],
            "containers": [container(one) for one in pod.containers if not (one.init or one.sidecar)],
        },
        "status": {"phase": pod.phase},
    }


@pytest.fixture
def early(kubelet: FakeKubelet) -> Iterator[OlderNode]:
    """A node whose agent has just started, and does not watch yet."""
    kubelet.stop()
    (kubelet.root / "pods-api" / "pods-api.sock").unlink(missing_ok=True)
    kubelet.has_pods_api = False
    kubelet.start()
    node = OlderNode(kubelet)
    with node.agent:
        yield node


@pytest.fixture
def quiet(early: OlderNode) -> OlderNode:
    """A node whose watch has seen an empty list and gets no events; a test that wants events runs it."""
    early.bound.replace((), "0")
    return early


@pytest.fixture
def node(quiet: OlderNode) -> Iterator[OlderNode]:
    """A node whose watch runs."""
    stop = threading.Event()
    thread = threading.Thread(target=quiet.reflector.run, args=(stop,), daemon=True)
    thread.start()
    eventually(lambda: quiet.reflector.is_synced)
    yield quiet
    stop.set()
    thread.join()


def test_a_burst_gets_exactly_the_assigned_devices_without_asking_the_api_server(node: OlderNode) -> None:
    before = node.lists()
    pods = [node.a_pod(f"GPU-{number}") for number in (5, 2, 7, 0, 1, 6, 3, 4)]
    node.in_step()
    list_calls = node.lists()
    for pod in pods:
        assert node.kubelet.admit(pod)
        assert node.kubelet.devices_of(pod.uid) == set(json.loads(pod.annotations[names.ASSIGNED])["main"])
        node.kubelet.prestart(pod.uid, "main")
    assert node.verdicts() == {"assigned": 8}
    assert node.lists() == list_calls >= before
    assert node.kubelet.calls.count("List") == 8


def test_assigned_devices_are_given_while_the_api_server_is_away(node: OlderNode) -> None:
    pod = node.a_pod("GPU-3")
    node.in_step()
    node.kube.down = True
    assert node.kubelet.admit(pod)
    assert node.kubelet.devices_of(pod.uid) == {"GPU-3"}
    node.kubelet.prestart(pod.uid, "main")
    node.kube.down = False


def test_a_pod_that_the_watch_has_not_shown_yet_is_read(quiet: OlderNode) -> None:
    pod = quiet.a_pod("GPU-6")
    assert quiet.kubelet.admit(pod)
    assert quiet.kubelet.devices_of(pod.uid) == {"GPU-6"}
    assert quiet.verdicts() == {"assigned": 1}


def test_l6_a_pod_that_neither_watch_nor_api_server_shows_is_refused(quiet: OlderNode) -> None:
    quiet.kubelet.admit(quiet.a_pod("GPU-0"))
    unseen = quiet.a_pod("GPU-7")
    quiet.kube.down = True
    assert not quiet.kubelet.admit(unseen)
    assert "The pods of this node could not be read" in unseen.message
    assert quiet.verdicts() == {"assigned": 1, "pods-unavailable": 1}
    quiet.kube.down = False


def test_without_the_kubelet_s_list_the_bound_pods_tell_what_was_assigned(node: OlderNode) -> None:
    (node.kubelet.root / "pod-resources" / "kubelet.sock").unlink()
    pod = node.a_pod("GPU-5")
    node.in_step()
    assert node.kubelet.admit(pod)
    assert node.kubelet.devices_of(pod.uid) == {"GPU-5"}


def test_a_pod_deleted_from_the_api_server_still_gets_its_assigned_devices(node: OlderNode) -> None:
    pod = node.a_pod("GPU-4")
    node.in_step()
    node.deleted(pod)
    node.in_step()
    assert node.kubelet.admit(pod)
    assert node.kubelet.devices_of(pod.uid) == {"GPU-4"}
    node.kubelet.prestart(pod.uid, "main")


def test_a_pod_with_a_reused_name_is_another_pod(node: OlderNode) -> None:
    first = node.a_pod("GPU-1", name="trainer-0")
    node.in_step()
    assert node.kubelet.admit(first)
    node.deleted(first)
    second = node.a_pod("GPU-2", name="trainer-0")
    assert node.kubelet.admit(second)
    assert node.kubelet.devices_of(second.uid) == {"GPU-2"}


def test_a_new_pod_with_a_reused_name_that_the_watch_has_not_shown_is_read(quiet: OlderNode) -> None:
    first = quiet.a_pod("GPU-1", name="trainer-0")
    quiet.kubelet.admit(first)
    quiet.kubelet.end(first.uid)
    quiet.deleted(first)
    second = quiet.a_pod("GPU-2", name="trainer-0")
    assert quiet.kubelet.admit(second)
    assert quiet.kubelet.devices_of(second.uid) == {"GPU-2"}


def test_two_waiting_pods_with_the_same_name_cannot_be_distinguished(node: OlderNode) -> None:
    first = node.a_pod("GPU-1", name="trainer-0")
    node.in_step()
    node.deleted(first)
    second = node.a_pod("GPU-2", name="trainer-0")
    node.in_step()
    assert not node.kubelet.admit(second)
    assert node.verdicts() == {"ambiguous": 1}


def test_only_the_watch_identifies_the_pod_while_devices_are_in_flight(node: OlderNode) -> None:
    containers = [FakeContainer("setup", 1, init=True), FakeContainer("main", 2)]
    pod = node.a_pod(containers=containers)
    pod.annotations[names.ASSIGNED] = json.dumps({"setup": ["GPU-1"], "main": ["GPU-1", "GPU-3"]})
    node.kube.patch(PODS, pod.name, {"metadata": {"annotations": pod.annotations}}, namespace="default")
    eventually(lambda: node.bound.by_uid().get(pod.uid) and node.bound.by_uid()[pod.uid].metadata.annotations)
    assert node.kubelet.admit(pod)
    assert node.kubelet.held[pod.uid, "main"] == {"GPU-1", "GPU-3"}
    assert node.kubelet.calls.count("List") == 1


def test_one_pod_too_many_is_refused_rather_than_sharing(node: OlderNode) -> None:
    node.agent.advertise(devices(1))
    eventually(lambda: node.kubelet.capacity == 1)
    holder, second = node.a_pod("GPU-0"), node.a_pod("GPU-0")
    node.in_step()
    node.kubelet.admit(holder)
    node.kubelet.free_by_mistake(holder.uid)
    assert not node.kubelet.admit(second)
    assert f"default/{holder.name}" in second.message


def test_two_pods_with_one_device_do_not_start_until_one_is_gone(node: OlderNode) -> None:
    first, second = node.a_pod("GPU-0"), node.a_pod("GPU-1")
    node.in_step()
    node.kubelet.admit(first)
    node.kubelet.admit(second)
    node.kubelet.held[second.uid, "main"] = {"GPU-0"}
    node.kubelet.write_checkpoint()
    with pytest.raises(grpc.RpcError, match="more than one pod"):
        node.kubelet.prestart(second.uid, "main")
    node.deleted(first)
    node.in_step()
    node.kubelet.prestart(second.uid, "main")


def test_a_second_holder_that_the_watch_does_not_know_is_read(quiet: OlderNode) -> None:
    first = quiet.a_pod("GPU-0")
    quiet.kubelet.admit(first)
    second = quiet.a_pod("GPU-0")
    quiet.kubelet.pods[second.uid] = second
    quiet.kubelet.held[second.uid, "main"] = {"GPU-0"}
    quiet.kubelet.write_checkpoint()
    with pytest.raises(grpc.RpcError, match="more than one pod"):
        quiet.kubelet.prestart(second.uid, "main")
    quiet.kube.down = True
    third = FakePod("third", "uid-third", [FakeContainer("main", 1)])
    quiet.kubelet.held[third.uid, "main"] = {"GPU-0"}
    quiet.kubelet.write_checkpoint()
    with pytest.raises(grpc.RpcError, match="more than one pod"):
        quiet.kubelet.prestart(second.uid, "main")
    quiet.kube.down = False


def test_a_rejected_pod_that_stays_in_the_kubelets_list_is_no_candidate_once_another_was_admitted(
    node: OlderNode,
) -> None:
    """Before Kubernetes 1.34. The API server does not know yet that it was rejected."""
    node.kubelet.lists_active_pods = False
    rejected, other, equal = node.a_pod("GPU-1"), node.a_pod("GPU-2", "GPU-3"), node.a_pod("GPU-4")
    node.in_step()
    node.kubelet.reject(rejected)
    for pod in (other, equal):
        assert node.kubelet.admit(pod)
        assert node.kubelet.devices_of(pod.uid) == set(json.loads(pod.annotations[names.ASSIGNED])["main"])
    assert node.verdicts() == {"assigned": 2}


@pytest.mark.parametrize("when", ["early", "node"])
def test_a_pod_whose_only_rival_was_rejected_waits_until_the_api_server_says_so(
    request: pytest.FixtureRequest, when: str
) -> None:
    node: OlderNode = request.getfixturevalue(when)
    node.kubelet.lists_active_pods = False
    rejected, equal = node.a_pod("GPU-1"), node.a_pod("GPU-4")
    if when == "node":
        node.in_step()
    node.kubelet.reject(rejected)
    before = node.lists()

    def reported_late() -> None:
        eventually(lambda: node.lists() > before)
        failed = {"status": {"phase": "Failed"}}
        node.kube.patch(PODS, rejected.name, failed, namespace="default", subresource="status")

    late = threading.Thread(target=reported_late)
    late.start()
    assert node.kubelet.admit(equal)
    late.join()
    assert node.kubelet.devices_of(equal.uid) == {"GPU-4"}
    assert node.verdicts() == {"assigned": 1}


@pytest.mark.parametrize("when", ["early", "node"])
def test_l6_a_pod_with_a_rival_of_which_nothing_is_known_is_refused_and_the_next_ones_are_not(
    request: pytest.FixtureRequest, when: str
) -> None:
    node: OlderNode = request.getfixturevalue(when)
    node.kubelet.lists_active_pods = False
    rejected, equal, again = node.a_pod("GPU-1"), node.a_pod("GPU-4"), node.a_pod("GPU-4")
    if when == "node":
        node.in_step()
    node.kubelet.reject(rejected)
    assert not node.kubelet.admit(equal)
    assert f"default/{rejected.name}, default/{equal.name}. Create the pod again." in equal.message
    assert node.kubelet.admit(again)
    assert node.kubelet.devices_of(again.uid) == {"GPU-4"}
    assert node.verdicts() == {"ambiguous": 1, "assigned": 1}


def test_a_kubelet_that_starts_again_may_admit_what_was_refused(node: OlderNode) -> None:
    """It was killed before it had reported that."""
    node.kubelet.lists_active_pods = False
    rejected, equal = node.a_pod("GPU-1"), node.a_pod("GPU-4")
    node.in_step()
    node.kubelet.reject(rejected)
    assert not node.kubelet.admit(equal)
    node.kubelet.pods.clear()
    node.kubelet.restart()
    node.agent.wait_registered()
    node.kubelet.admit_first_batch([equal])
    assert node.kubelet.devices_of(equal.uid) == {"GPU-4"}


def test_a_rejected_pod_that_was_created_and_bound_before_is_no_candidate(node: OlderNode) -> None:
    """Whatever the API server knows of it."""
    node.kubelet.lists_active_pods = False
    rejected = node.a_pod("GPU-1")
    node.clock.advance(1)
    equal = node.a_pod("GPU-4")
    node.in_step()
    node.kubelet.reject(rejected)
    assert node.kubelet.admit(equal)
    assert node.kubelet.devices_of(equal.uid) == {"GPU-4"}
    assert node.verdicts() == {"assigned": 1}


def test_the_first_pods_after_a_kubelet_start_are_identified(node: OlderNode) -> None:
    pods = [node.a_pod("GPU-3"), node.a_pod("GPU-1"), node.a_pod("GPU-0", "GPU-2")]
    node.in_step()
    node.kubelet.restart()
    node.agent.wait_registered()
    node.kubelet.admit_first_batch(pods)
    assert [node.kubelet.devices_of(pod.uid) for pod in pods] == [{"GPU-3"}, {"GPU-1"}, {"GPU-0", "GPU-2"}]


def test_the_devices_a_pod_really_has_can_be_compared_with_its_assignment(node: OlderNode) -> None:
    pod = node.a_pod("GPU-3")
    node.in_step()
    assert [one.metadata.uid for one in node.agent.pods.at_once() or ()] == [pod.uid]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_pod_gets_its_assigned_devices_under_mixed_load(node: OlderNode, seed: int) -> None:
    """Pods come, end and are deleted, some while they are being admitted; names are used again."""
    chance = Chance(seed)
    free, live = {f"GPU-{number}" for number in range(8)}, list[FakePod]()
    admitted = 0
    for _ in range(60):
        while live and (len(free) < 2 or chance.below(10) < 4):
            leaving = live.pop(chance.below(len(live)))
            free |= node.kubelet.devices_of(leaving.uid)
            node.kubelet.end(leaving.uid, ("Succeeded", "Failed")[chance.below(2)])
            phase = node.kubelet.pods[leaving.uid].phase
            node.kube.patch(
                PODS, leaving.name, {"status": {"phase": phase}}, namespace="default", subresource="status"
            )
            node.deleted(leaving)
        assigned = sorted(free)[: (1, 1, 2)[chance.below(3)]]
        busy = {pod.name for pod in live}
        name = next(one for one in (f"trainer-{n}" for n in range(99)) if one not in busy)
        pod = node.a_pod(*assigned, name=name)
        early = chance.below(5) == 0
        if early:
            node.in_step()
            node.deleted(pod)
        assert node.kubelet.admit(pod), pod.message
        assert node.kubelet.devices_of(pod.uid) == set(assigned)
        node.kubelet.prestart(pod.uid, "main")
        admitted += 1
        if early:
            node.kubelet.end(pod.uid)
        else:
            free -= set(assigned)
            live.append(pod)
    assert node.verdicts() == {"assigned": admitted}
