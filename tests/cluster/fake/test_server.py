import pytest

from cluster.fake.server import FakeKube
from cluster.kube.errors import NotFound, TooManyRequests
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from tests.contracts.kube import KubeContract, pod_body
from tests.contracts.kube_ground import PRIORITY_CLASSES
from tests.controlplane.access import NAMESPACES

EVICTION = {"metadata": {"name": "a"}}


class TestContract(KubeContract):
    @pytest.fixture
    def kube(self) -> Kube:
        kube = FakeKube()
        kube.put(NAMESPACES, {"metadata": {"name": "team"}})
        return kube

    @pytest.fixture
    def namespace(self) -> str:
        return "team"

    def pass_a_minute(self, kube: Kube) -> None:
        assert isinstance(kube, FakeKube)
        kube.bookmark()

    def forget_history(self, kube: Kube) -> None:
        assert isinstance(kube, FakeKube)
        kube.forget_history()


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
def bound(kube: FakeKube) -> Pod:
    return kube.put(PODS, pod_body("a", namespace="team", spec={"nodeName": "n0"}))


class TestPut:
    def test_an_object_is_put_exactly_as_given(self, kube: FakeKube) -> None:
        status = {"phase": "Running"}
        pod = kube.put(PODS, {**pod_body("a", namespace="team", uid="mine"), "status": status})
        assert (pod.metadata.uid, pod.status.phase) == ("mine", "Running")
        assert kube.calls == []

    def test_an_object_that_is_put_again_keeps_its_uid_and_deletion_time(
        self, kube: FakeKube, bound: Pod
    ) -> None:
        kube.delete(PODS, "a", namespace="team")
        again = kube.put(PODS, pod_body("a", namespace="team", labels={"x": "1"}))
        assert again.metadata.uid == bound.metadata.uid
        assert again.metadata.deletion_timestamp
        assert again.metadata.labels == {"x": "1"}

    def test_putting_an_unchanged_object_is_no_write(self, kube: FakeKube, bound: Pod) -> None:
        again = kube.put(PODS, pod_body("a", namespace="team", spec={"nodeName": "n0"}))
        assert again == bound

    def test_a_pod_that_is_put_as_terminating_has_its_grace_period(self, kube: FakeKube) -> None:
        terminating = {"deletionTimestamp": "2026-03-02T09:00:00Z"}
        pod = kube.put(PODS, pod_body("a", namespace="team", spec={"nodeName": "n0"}, **terminating))
        assert pod.metadata.deletion_grace_period_seconds == 30
        unbound = kube.put(PODS, pod_body("b", namespace="team", **terminating))
        assert unbound.metadata.deletion_grace_period_seconds == 0

    def test_a_raw_read_returns_a_copy(self, kube: FakeKube, bound: Pod) -> None:
        kube.raw(PODS, "a", namespace="team")["spec"]["nodeName"] = "other"
        assert kube.get(PODS, "a", namespace="team") == bound


class TestKubelet:
    def test_a_terminating_pod_stays_until_its_kubelet_has_finished_it(
        self, kube: FakeKube, bound: Pod
    ) -> None:
        kube.delete(PODS, "a", namespace="team")
        assert kube.get(PODS, "a", namespace="team").metadata.uid == bound.metadata.uid
        kube.finish(PODS, "a", namespace="team")
        with pytest.raises(NotFound):
            kube.get(PODS, "a", namespace="team")

    def test_the_last_event_of_a_terminating_pod_shows_how_it_ended(self, kube: FakeKube, bound: Pod) -> None:
        kube.delete(PODS, bound.metadata.name, namespace="team")
        watch = kube.watch(PODS)
        kube.finish(PODS, "a", namespace="team", phase="Succeeded")
        seen = [(event.type, event.object.status.phase) for event in watch.ready()]
        assert seen == [("ADDED", None), ("MODIFIED", "Succeeded"), ("DELETED", "Succeeded")]

    def test_a_pod_that_its_kubelet_finished_stays_for_its_finalizers(self, kube: FakeKube) -> None:
        kube.put(PODS, pod_body("a", namespace="team", finalizers=["x/y"], spec={"nodeName": "n0"}))
        kube.delete(PODS, "a", namespace="team")
        kube.finish(PODS, "a", namespace="team", phase="Succeeded")
        assert kube.get(PODS, "a", namespace="team").status.phase == "Succeeded"
        kube.patch(PODS, "a", {"metadata": {"finalizers": None}}, namespace="team")
        assert kube.list(PODS, Selection(namespace="team")).items == ()

    def test_a_missing_object_cannot_be_finished(self, kube: FakeKube) -> None:
        with pytest.raises(KeyError):
            kube.finish(PODS, "a", namespace="team")


class TestWhatItDoesNotKnow:
    def test_any_namespace_is_accepted_until_one_exists(self, kube: FakeKube) -> None:
        assert kube.create(PODS, pod_body("a"), namespace="anywhere").metadata.namespace == "anywhere"
        kube.put(NAMESPACES, {"metadata": {"name": "team"}})
        with pytest.raises(NotFound):
            kube.create(PODS, pod_body("b"), namespace="anywhere")

    def test_any_priority_class_is_accepted_until_one_exists(self, kube: FakeKube) -> None:
        body = pod_body("a", spec={"priorityClassName": "any", "priority": 5})
        assert kube.create(PODS, body, namespace="team").spec.priority == 5

    def test_pods_without_a_priority_class_get_the_default_one(self, kube: FakeKube) -> None:
        kube.put(PRIORITY_CLASSES, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
        pod = kube.create(PODS, pod_body("a"), namespace="team")
        assert (pod.spec.priority_class_name, pod.spec.priority) == ("usual", 7)


def test_a_budget_forbids_evictions_as_long_as_a_test_wants_it(kube: FakeKube, bound: Pod) -> None:
    kube.protect(bound.metadata.uid)
    with pytest.raises(TooManyRequests, match="disruption budget"):
        kube.create_subresource(PODS, "eviction", EVICTION, name="a", namespace="team")
    assert kube.get(PODS, "a", namespace="team") == bound
    kube.protect(bound.metadata.uid, protected=False)
    kube.create_subresource(PODS, "eviction", EVICTION, name="a", namespace="team")
    assert kube.get(PODS, "a", namespace="team").metadata.deletion_timestamp


def test_generated_names_are_never_the_same(kube: FakeKube) -> None:
    body = pod_body("", generateName="a-")
    made = {kube.create(PODS, body, namespace="team", dry_run=True).metadata.name for _ in range(2000)}
    assert len(made) == 2000
