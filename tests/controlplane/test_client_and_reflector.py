"""Our client, reflector, lease and events against a real API server."""

import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from cluster import event_reasons, names
from cluster.fake.clock import eventually
from cluster.kube.client import KubeClient
from cluster.kube.errors import ApiError, Conflict, Forbidden, NotFound, Unauthorized, Unprocessable
from cluster.kube.events import EventRecorder
from cluster.kube.interface import Kube, Selection
from cluster.kube.leader_election import LeaderElector
from cluster.kube.node_lease import LeaseRenewer
from cluster.kube.reflector import Reflector, Tuning
from cluster.kube.resources import BOOKINGS, EVENTS, LEASES, POD_TEMPLATES, PODS, Resource
from cluster.objects.pods import Pod
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.product import chart
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.contracts.kube import KubeContract, pod_body
from tests.contracts.kube_ground import IMPORTANT, PRIORITY_CLASSES
from tests.controlplane.access import ACCOUNTS, BUDGETS, NAMESPACES, client
from tests.patience import PATIENCE

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name=own("kube"), nodes=(NodeSpec(name="idle"),))) as running:
        running.kubectl("apply", "--server-side", "-f", str(chart.CHART / "files" / "bookings.yaml"))
        chart.await_established(running, f"crd/bookings.{names.DOMAIN}")
        yield running


@pytest.fixture(scope="module")
def administrator(cluster: Cluster) -> Iterator[KubeClient]:
    kube = client(cluster, cluster.administrator_token)
    yield kube
    kube.close()


@pytest.fixture(scope="module")
def room(administrator: KubeClient) -> Iterator[str]:
    """A namespace in which pods can be created."""
    name = administrator.create(NAMESPACES, {"metadata": {"generateName": "test-"}}).metadata.name
    eventually(lambda: administrator.list(ACCOUNTS, Selection(namespace=name)).items, deadline=PATIENCE)
    yield name
    administrator.delete(NAMESPACES, name)


@pytest.fixture
def fresh_namespace(room: str, administrator: KubeClient) -> Iterator[str]:
    """The same one, empty: faster than a new one for each test."""
    yield room
    for resource in (PODS, LEASES, POD_TEMPLATES, BUDGETS, EVENTS):
        remove_all(administrator, resource, room)


def remove_all(kube: KubeClient, resource: Resource[Any], namespace: str) -> None:
    for obj in kube.list(resource, Selection(namespace=namespace)).items:
        name, finalizers = obj.metadata.name, obj.metadata.finalizers
        try:
            if finalizers:
                kube.patch(resource, name, {"metadata": {"finalizers": None}}, namespace=namespace)
            kube.delete(resource, name, namespace=namespace, grace_seconds=0)
        except NotFound:
            pass  # the last finalizer was all that held it


def answers(kube: Kube) -> bool:
    """Whether the API server answers, and not only with the failures of its start.

    All that other tests may ask for: whichever comes next.
    """
    try:
        for resource in (PODS, BOOKINGS, PRIORITY_CLASSES):
            kube.list(resource)
    except ApiError:
        return False
    return True


class TestContract(KubeContract):
    @pytest.fixture(autouse=True)
    def _of_this_cluster(self, cluster: Cluster, administrator: KubeClient) -> Iterator[None]:
        self.cluster = cluster
        yield
        for made in administrator.list(PRIORITY_CLASSES).items:
            if made.metadata.name.startswith(IMPORTANT):
                administrator.delete(PRIORITY_CLASSES, made.metadata.name)
        for booking in administrator.list(BOOKINGS).items:
            administrator.delete(BOOKINGS, booking.name)

    @pytest.fixture
    def kube(self, administrator: KubeClient) -> Kube:
        return administrator

    @pytest.fixture
    def namespace(self, fresh_namespace: str) -> str:
        return fresh_namespace

    def forget_history(self, kube: Kube) -> None:
        self.cluster.restart("kube-apiserver")
        eventually(lambda: answers(kube), deadline=PATIENCE)


class TestClient:
    def test_the_clocks_agree_on_one_machine(self, administrator: KubeClient) -> None:
        administrator.list(NAMESPACES)
        skew = administrator.skew()
        assert skew is not None
        assert abs(skew) < timedelta(seconds=30)

    def test_an_unknown_token_is_unauthorized(self, cluster: Cluster) -> None:
        with pytest.raises(Unauthorized):
            client(cluster, "no such token").list(PODS)

    def test_a_refusal_names_the_user_and_the_resource(self, cluster: Cluster) -> None:
        token = cluster.service_account_token("default", "default")
        with pytest.raises(Forbidden, match=r"system:serviceaccount:default:default.*cannot list.*pods"):
            client(cluster, token).list(PODS)

    def test_an_invalid_object_is_unprocessable_with_the_reason(
        self, administrator: KubeClient, fresh_namespace: str
    ) -> None:
        body = {"metadata": {"name": "a"}, "spec": {"containers": []}}
        with pytest.raises(Unprocessable, match=r"spec\.containers: Required value"):
            administrator.create(PODS, body, namespace=fresh_namespace)

    def test_a_silent_watch_is_ended_from_another_thread_over_tls(
        self, administrator: KubeClient, fresh_namespace: str
    ) -> None:
        watch = administrator.watch(PODS, Selection(namespace=fresh_namespace))
        thread = threading.Thread(target=lambda: list(watch), daemon=True)
        thread.start()
        watch.close()
        thread.join(30)
        assert not thread.is_alive()


class Cache:
    """A handler that keeps its events."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.replaced = 0

    def replace(self, items: Sequence[Pod], _version: str) -> None:
        self.pods = {pod.metadata.name: pod for pod in items}
        self.replaced += 1

    def upsert(self, obj: Pod) -> None:
        self.pods[obj.metadata.name] = obj

    def remove(self, obj: Pod) -> None:
        self.pods.pop(obj.metadata.name, None)


class TestReflector:
    @pytest.fixture(params=[True, False], ids=["streamed", "pages"])
    def following(
        self, request: pytest.FixtureRequest, administrator: KubeClient, fresh_namespace: str
    ) -> Iterator[tuple[Reflector[Pod], Cache]]:
        for name in "abc":
            administrator.create(PODS, pod_body(name), namespace=fresh_namespace)
        cache, stop = Cache(), threading.Event()
        tuning = Tuning(stream=request.param, page_size=2)
        reflector = Reflector(
            administrator, PODS, cache, SystemClock(), namespace=fresh_namespace, tuning=tuning
        )
        thread = threading.Thread(target=reflector.run, args=(stop,), daemon=True)
        thread.start()
        eventually(lambda: reflector.is_synced, deadline=PATIENCE)
        yield reflector, cache
        stop.set()
        thread.join(30)
        assert not thread.is_alive()

    def test_the_cache_follows_the_cluster(
        self, following: tuple[Reflector[Pod], Cache], administrator: KubeClient, fresh_namespace: str
    ) -> None:
        reflector, cache = following
        assert sorted(cache.pods) == ["a", "b", "c"]
        administrator.create(PODS, pod_body("d"), namespace=fresh_namespace)
        administrator.delete(PODS, "a", namespace=fresh_namespace, grace_seconds=0)
        eventually(lambda: sorted(cache.pods) == ["b", "c", "d"], deadline=PATIENCE)
        assert reflector.staleness() is not None

    def test_a_restart_of_the_api_server_is_survived(
        self,
        following: tuple[Reflector[Pod], Cache],
        cluster: Cluster,
        administrator: KubeClient,
        fresh_namespace: str,
    ) -> None:
        _, cache = following
        cluster.restart("kube-apiserver")
        eventually(lambda: self.can_create(administrator, fresh_namespace), deadline=PATIENCE)
        eventually(lambda: sorted(cache.pods) == ["a", "b", "c", "d"], deadline=PATIENCE)
        eventually(lambda: answers(administrator), deadline=PATIENCE)

    def can_create(self, kube: KubeClient, namespace: str) -> bool:
        try:
            kube.create(PODS, pod_body("d"), namespace=namespace)
        except ApiError as error:
            return isinstance(error, Conflict) and error.reason == "AlreadyExists"
        return True


class TestLeaseAndEvents:
    def test_an_agents_lease_is_created_renewed_taken_over_and_ended(
        self, administrator: KubeClient, fresh_namespace: str
    ) -> None:
        clock = SystemClock()
        older, newer = (
            LeaseRenewer(administrator, clock, name="gpu-node-x", holder=holder, namespace=fresh_namespace)
            for holder in ("a", "b")
        )
        assert older.renew()
        assert older.renew()
        assert newer.renew()
        older.release_lease()
        lease = administrator.get(LEASES, "gpu-node-x", namespace=fresh_namespace)
        assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("b", 1)
        assert lease.metadata.annotation(names.STOPPING) is None
        newer.release_lease()
        lease = administrator.get(LEASES, "gpu-node-x", namespace=fresh_namespace)
        assert lease.metadata.annotation(names.STOPPING)

    def test_a_leader_gives_its_lease_back_to_the_next(
        self, administrator: KubeClient, fresh_namespace: str
    ) -> None:
        first, second = (
            LeaderElector(
                administrator, SystemClock(), name="leader", holder=holder, namespace=fresh_namespace
            )
            for holder in ("a", "b")
        )
        assert first.attempt()
        assert first.attempt()
        assert not second.attempt()
        first.release()
        assert second.attempt()
        lease = administrator.get(LEASES, "leader", namespace=fresh_namespace)
        assert (lease.spec.holder_identity, lease.spec.lease_transitions) == ("b", 1)

    def test_an_event_is_accepted_and_counted(self, administrator: KubeClient, fresh_namespace: str) -> None:
        pod = administrator.create(PODS, pod_body("a"), namespace=fresh_namespace)
        recorder = EventRecorder(administrator, SystemClock(), component="tests")
        for _ in range(2):
            recorder.warning(pod, event_reasons.WAITING_FOR_GPU, "No node has 9 GPUs.")
        recorder.flush()
        selection = Selection(
            namespace=fresh_namespace, field_selector=f"involvedObject.uid={pod.metadata.uid}"
        )
        (event,) = administrator.list(EVENTS, selection).items
        assert (event.reason, event.count) == (event_reasons.WAITING_FOR_GPU, 2)
