import pytest

from cluster.kube.errors import NotFound, Unreachable
from cluster.kube.port import Kube, Selection
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from tests.contracts.kube import KubeContract, pod_body
from tests.fakes.kube import FakeKube


class TestContract(KubeContract):
    @pytest.fixture
    def kube(self) -> Kube:
        return FakeKube()

    @pytest.fixture
    def namespace(self) -> str:
        return "team"


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def bound(kube: FakeKube) -> Pod:
    body = pod_body("a", namespace="team")
    return kube.put(PODS, {**body, "spec": {**body["spec"], "nodeName": "n0"}})


def test_a_terminating_pod_stays_until_its_kubelet_lets_go(kube: FakeKube, bound: Pod) -> None:
    kube.delete(PODS, "a", namespace="team")
    assert kube.get(PODS, "a", namespace="team").metadata.uid == bound.metadata.uid
    kube.finish(PODS, "a", namespace="team")
    with pytest.raises(NotFound):
        kube.get(PODS, "a", namespace="team")


def test_a_finalizer_holds_an_object_until_it_is_taken_off(kube: FakeKube) -> None:
    kube.put(PODS, pod_body("a", namespace="team", finalizers=["x/y"]))
    kube.delete(PODS, "a", namespace="team")
    assert kube.get(PODS, "a", namespace="team").metadata.deletion_timestamp
    kube.patch(PODS, "a", {"metadata": {"finalizers": None}}, namespace="team")
    assert kube.list(PODS, Selection(namespace="team")).items == ()


def test_an_eviction_ends_the_pod(kube: FakeKube, bound: Pod) -> None:
    kube.create_subresource(PODS, "eviction", {}, name=bound.metadata.name, namespace="team")
    assert kube.get(PODS, "a", namespace="team").metadata.deletion_timestamp


def test_while_it_is_down_nothing_happens(kube: FakeKube) -> None:
    kube.down = True
    with pytest.raises(Unreachable):
        kube.create(PODS, pod_body("a"), namespace="team")
    kube.down = False
    assert kube.list(PODS).items == ()
    assert [call.verb for call in kube.calls] == ["POST", "LIST"]


def test_a_rival_acts_just_before_the_call(kube: FakeKube, bound: Pod) -> None:
    kube.before("GET", lambda: kube.finish(PODS, bound.metadata.name, namespace="team"))
    with pytest.raises(NotFound):
        kube.get(PODS, "a", namespace="team")
