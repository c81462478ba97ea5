"""Where the pods of the node come from while the kubelet waits."""

import threading

import grpc
import msgspec
import pytest

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from deviceplugin.kubelet.apiserver_pods import ApiServerPods
from deviceplugin.kubelet.bound_pods import BoundPods
from deviceplugin.kubelet.pod_resources import PodResourcesError
from deviceplugin.kubelet.pod_source import PodSource, PodsSnapshot, StoredPodsError
from deviceplugin.kubelet.pods_api import PodsApiError, decode
from tests.deviceplugin.pods import GPU, pod
from tests.fakes.kubelet import FakeContainer, FakePod


class Sources:
    """Kubelet and API server, each unresponsive until it is given pods."""

    def __init__(self) -> None:
        self.kubelet: tuple[Pod, ...] | None = None
        self.accepted: frozenset[tuple[str, str]] | None = None
        self.in_store: tuple[Pod, ...] | None = None
        self.calls: list[str] = []
        self.pods = PodSource(self, self, self.stored)

    def list(self, *, patient: bool = True, gpus_only: bool = True) -> tuple[Pod, ...]:
        self.calls.append(("kubelet" if patient else "kubelet, once") + ("" if gpus_only else ", for all"))
        if self.kubelet is None:
            raise PodsApiError("initializing", code=grpc.StatusCode.FAILED_PRECONDITION)
        return self.kubelet

    def names(self) -> frozenset[tuple[str, str]]:
        self.calls.append("accepted")
        if self.accepted is None:
            raise PodResourcesError("no list")
        return self.accepted

    def stored(self) -> tuple[Pod, ...]:
        self.calls.append("stored")
        if self.in_store is None:
            raise StoredPodsError("the API server is away")
        return self.in_store


A, B = pod("a"), pod("b")


def test_only_the_kubelet_is_asked_while_it_answers() -> None:
    sources = Sources()
    sources.kubelet = (A,)
    assert sources.pods.for_admission(in_flight=False) == PodsSnapshot((A,))
    assert sources.calls == ["kubelet"]


def test_a_kubelet_that_is_initializing_names_the_pods_that_the_api_server_knows() -> None:
    sources = Sources()
    sources.accepted = frozenset({("default", "pod-b")})
    sources.in_store = (A, B)
    assert sources.pods.for_admission(in_flight=False) == PodsSnapshot((B,), messages=("initializing",))


@pytest.mark.parametrize("accepted", [None, frozenset[tuple[str, str]]()])
def test_the_pods_are_unknown_when_no_source_answers(accepted: frozenset[tuple[str, str]] | None) -> None:
    sources = Sources()
    sources.accepted = accepted
    seen = sources.pods.for_admission(in_flight=False)
    assert seen.pods is None
    assert len(seen.messages) == 2 + (accepted is None)


def test_while_devices_are_in_flight_the_accepted_pods_are_not_asked_for() -> None:
    sources = Sources()
    sources.kubelet = (A,)
    sources.pods.for_admission(in_flight=False)
    sources.kubelet = None
    assert sources.pods.for_admission(in_flight=True) == PodsSnapshot(
        (A,), remembered=True, messages=("initializing", "the API server is away")
    )
    assert "accepted" not in sources.calls


@pytest.mark.parametrize("in_flight", [True, False])
def test_without_the_kubelet_s_list_the_pods_that_are_bound_here_are_used(*, in_flight: bool) -> None:
    sources = Sources()
    sources.in_store = (A, B)
    seen = sources.pods.for_admission(in_flight=in_flight)
    assert (seen.pods, seen.from_watch, seen.remembered) == ((A, B), True, False)


def test_one_pod_may_be_remembered_but_several_are_asked_for_again() -> None:
    sources = Sources()
    sources.kubelet = (A, B)
    sources.pods.for_admission(in_flight=False)
    assert sources.pods.of(["a"]) == {"a": A}
    assert sources.calls == ["kubelet"]
    sources.kubelet = (B,)
    assert sources.pods.of(["a", "b"]) == {"b": B}
    sources.kubelet = None
    assert sources.pods.of(["a", "b"]) is None
    assert sources.pods.of(["c"]) is None


def test_a_list_that_comes_late_does_not_hide_a_pod_from_a_caller_that_asked_after_it() -> None:
    sources = Sources()
    sources.kubelet = (A, B)

    class Overtaken(PodSource):
        def _remember(self, pods: tuple[Pod, ...], *sentences: str) -> PodsSnapshot:
            seen = super()._remember(pods, *sentences)
            super()._remember((A,))  # another thread's answer, older, arrives just now
            return seen

    assert Overtaken(sources, sources, sources.stored).of(["a", "b"]) == {"a": A, "b": B}


def test_allocate_asks_the_kubelet_once() -> None:
    sources = Sources()
    assert sources.pods.at_once() is None
    assert sources.calls == ["kubelet, once"]


def test_a_lookup_of_all_pods_is_empty_where_the_kubelet_does_not_list_them() -> None:
    sources = Sources()
    assert sources.pods.all_pods() == ()
    sources.kubelet = (A, B)
    assert sources.pods.all_pods() == (A, B)
    assert sources.calls == ["kubelet, once, for all"] * 2


def test_a_pod_in_its_protobuf_form_is_read() -> None:
    fake = FakePod(
        "trainer",
        "uid-1",
        [
            FakeContainer("setup", 1, init=True),
            FakeContainer("proxy", sidecar=True),
            FakeContainer("main", 2),
        ],
        {names.MODEL: "x"},
        namespace="team",
        started=True,
        deleting=True,
    )
    read = decode(fake.marshal())
    assert read.key == "team/trainer"
    assert read.metadata.uid == "uid-1"
    assert read.metadata.annotation(names.MODEL) == "x"
    assert read.metadata.deletion_timestamp is not None
    assert read.status.phase == "Pending"
    assert read.status.start_time is not None
    shapes = [
        (one.name, one.is_sidecar, ((one.resources and one.resources.limits) or {}).get(GPU))
        for one in (*(read.spec.init_containers or ()), *(read.spec.containers or ()))
    ]
    assert shapes == [("setup", False, "1"), ("proxy", True, None), ("main", False, "2")]


def test_the_api_server_is_asked_for_the_pods_of_this_node_alone() -> None:
    kube = FakeKube()
    for name, node in (("here", "node-a"), ("there", "node-b")):
        kube.put(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": {"nodeName": node}})
    assert [one.metadata.name for one in ApiServerPods(kube, "node-a")()] == ["here"]


def test_an_api_server_that_is_away_or_slow_is_given_up() -> None:
    kube = FakeKube()
    kube.down = True
    with pytest.raises(StoredPodsError, match="did not list the pods of this node: "):
        ApiServerPods(kube, "node-a")()
    kube.down = False
    answering = threading.Event()
    kube.before("LIST", answering.wait)
    with pytest.raises(StoredPodsError, match=r"within 0\.05 s"):
        ApiServerPods(kube, "node-a", deadline=0.05)()
    answering.set()


def test_changes_shown_by_our_own_watch_since_the_question_are_read_again() -> None:
    sources, bound = Sources(), BoundPods(FakeClock())
    pods = PodSource(sources, sources, sources.stored, bound)
    sources.accepted, sources.in_store = frozenset({("default", "pod-a")}), (A,)
    before = msgspec.structs.replace(
        A, metadata=msgspec.structs.replace(A.metadata, uid="of-that-name-before")
    )
    bound.replace((before,), "0")
    assert pods.for_admission(in_flight=False).pods == (before,)
    bound.upsert(A)
    assert pods.caught_up()
    assert A in (pods.for_admission(in_flight=False).pods or ())
