"""The webhook, asked by a real API server, over its own authority and with the chart's match conditions."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Any, Final

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from booking.controller.admission.cluster_view import CachedClusterView
from booking.controller.admission.endpoint import PATH, Endpoint
from booking.controller.admission.metrics import Metrics
from booking.controller.admission.owner import Creators
from booking.controller.admission.review import Review
from booking.controller.admission.webhook import Webhook
from booking.controller.admission.webhook_installer import WebhookInstaller
from cluster import names
from cluster.cache import ClusterCache
from cluster.decide.identity import DEFAULT_RULES, Rule
from cluster.fake.clock import eventually
from cluster.kube.client import KubeClient
from cluster.kube.interface import Selection
from cluster.kube.reflector import Reflector
from cluster.kube.resources import BOOKINGS, LEASES, LIMIT_RANGES, NAMESPACES, NODES, PODS
from cluster.objects.bookings import Booking, BookingSpec
from cluster.objects.cover_annotations import text_of
from cluster.objects.limit_ranges import gpu_defaults
from cluster.objects.meta import Meta
from cluster.process.clock import SystemClock
from cluster.process.https import TlsServer
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.spec import ClusterSpec, NodeSpec
from tests.booking.controller.admission.fake_cluster_view import FakeClusterView
from tests.clusters import own
from tests.controlplane.access import client
from tests.controlplane.webhooks import address_towards, configuration
from tests.e2e.playground import PATIENCE
from tests.fakes.objects import A100, a100, a_lease, a_node
from tests.fakes.objects import a_pod as a_held_pod
from tests.long.controlplane.served_webhook import Created, People, ServedWebhook, a_pod, priority_class

pytestmark = pytest.mark.controlplane

Json = dict[str, Any]

CLOCK: Final = SystemClock()
HUB: Final = "system:serviceaccount:default:hub"
OURSELVES: Final = f"system:serviceaccount:{names.NAMESPACE}:{names.CONTROLLER}"
TODAY: Final = CLOCK.now().replace(microsecond=0)
BOOKING: Final = Booking(
    metadata=Meta(name="b-1"),
    spec=BookingSpec(user="alice", model=A100, count=1, start=TODAY, end=TODAY + timedelta(days=1)),
)
BOUND_TO_EDIT: Final = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "people"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
    "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
        for name in ("alice", "bob", HUB, OURSELVES)
    ],
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster.start(ClusterSpec(name=own("admission"), nodes=(NodeSpec(name="idle"),))) as running:
        objects = [
            BOUND_TO_EDIT,
            priority_class(names.BOOKED_CLASS, 1_000_000_000),
            priority_class(names.OPPORTUNISTIC_CLASS, 0),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": names.NAMESPACE}},
        ]
        for made in objects:
            running.kubectl("create", "-f", "-", given=msgspec.json.encode(made).decode())
        yield running


@pytest.fixture(scope="module")
def kube(cluster: Cluster) -> Iterator[KubeClient]:
    kube = client(cluster, cluster.administrator_token)
    yield kube
    kube.close()


@pytest.fixture(scope="module")
def webhook(cluster: Cluster, kube: KubeClient) -> Iterator[ServedWebhook]:
    """Served on the host, installed as the controller does it."""
    metrics, cache = Metrics(CollectorRegistry()), ClusterCache(CLOCK)
    cache.of(BOOKINGS).upsert(BOOKING)
    rules = (Rule(source="jupyterhub", match=r"(\w+)@kth[.]se", user=r"\1"), *DEFAULT_RULES)
    review = Review(creators=Creators(rules=rules, trusted=frozenset({HUB}), ourselves=OURSELVES))
    view = CachedClusterView(cache, rules=rules, known=["alice@kth.se"])
    admit = Webhook(
        review,
        view,
        CLOCK,
        metrics,
        unready_reason=lambda: None,
        read_bookings=lambda: None,
        gpu_defaults=lambda _: frozenset(),
    )
    webhook = ServedWebhook(admit, cache)
    host = address_towards(cluster.address)
    server = TlsServer(Endpoint(webhook, CLOCK, metrics), CLOCK, host=host, port=0)
    made = configuration(f"https://{host}:{server.port}{PATH}")
    cluster.kubectl("create", "-f", "-", given=msgspec.json.encode(made).decode())
    installed = WebhookInstaller(kube, CLOCK, server.present, namespace=names.NAMESPACE, hosts=[host])
    stop = Event()
    namespaces = Reflector(kube, NAMESPACES, cache.of(NAMESPACES), CLOCK)
    threads = [Thread(target=one.run, args=(stop,), daemon=True) for one in (installed, namespaces)]
    for thread in threads:
        thread.start()
    eventually(lambda: installed.problem() is None, deadline=PATIENCE)
    people = People(cluster)
    # The API server reads its webhooks by a watch: it is asked at the latest when it has seen the newest.
    eventually(lambda: names.USER in created_or_empty(people), deadline=PATIENCE)
    yield webhook
    stop.set()
    for thread in threads:
        thread.join(10)
    server.close()


def created_or_empty(people: People) -> Json:
    created = people.create("bob", a_pod(), dry_run=True)
    return created.annotations if created.status == 201 else {}


@pytest.fixture
def people(cluster: Cluster, webhook: ServedWebhook) -> People:
    webhook.calls = 0
    return People(cluster)


def test_a_booked_pod_gets_its_cover_annotations_and_a_priority(people: People) -> None:
    pod = people.create("alice", a_pod())
    assert pod.annotations == {
        names.ADMITTED: "true",
        names.USER: "alice",
        names.BOOKING: "b-1",
        names.TERMINATE_AT: text_of(BOOKING.spec.end),
        names.REPLACED: '{"schedulerName":"nobody"}',
    }
    assert pod.spec["schedulerName"] == names.SCHEDULER_NAME
    chosen = (names.BOOKED_CLASS, 1_000_000_000, "Never")
    assert (pod.spec["priorityClassName"], pod.spec["priority"], pod.spec["preemptionPolicy"]) == chosen
    assert f"Your booking of 1 x {A100} (b-1) covers this pod until" in pod.warnings[0]


def test_another_persons_pod_is_opportunistic(people: People) -> None:
    pod = people.create("bob", a_pod())
    assert pod.annotations == {
        names.ADMITTED: "true",
        names.USER: "bob",
        names.REPLACED: '{"schedulerName":"nobody"}',
    }
    assert (pod.spec["priorityClassName"], pod.spec["priority"]) == (names.OPPORTUNISTIC_CLASS, 0)
    assert "this pod may be evicted" in pod.warnings[0]


def test_l7_forged_keys_are_overwritten_or_removed(people: People) -> None:
    forged = {
        names.USER: "alice",
        names.BOOKING: "b-1",
        names.TERMINATE_AT: "2999-01-01T00:00:00Z",
        names.ASSIGNED: "{}",
        "note": "n",
    }
    labels = {names.USER: "alice", names.TERMINATE_AT: "never", "app": "x"}
    pod = people.create(
        "bob", a_pod(annotations=forged, labels=labels, finalizers=[names.COMEBACK, "example.org/kept"])
    )
    assert pod.annotations == {
        names.ADMITTED: "true",
        names.USER: "bob",
        names.REPLACED: '{"schedulerName":"nobody"}',
        "note": "n",
    }
    assert pod.body["metadata"]["labels"] == {"app": "x"}
    assert pod.body["metadata"]["finalizers"] == ["example.org/kept"]
    assert any("only GPU Booking writes such keys" in message for message in pod.warnings)


@pytest.mark.parametrize(
    "forged",
    [
        {"annotations": {names.TERMINATE_AT: "2999-01-01T00:00:00Z"}},
        {"annotations": {names.USER: "alice"}},
        {"labels": {names.COMEBACK: "true"}},
        {"labels": {names.TERMINATE_AT: "never"}},
        {"finalizers": [names.COMEBACK]},
    ],
)
def test_l7_forged_keys_on_a_pod_without_gpus_are_removed(people: People, forged: Json) -> None:
    pod = people.create("bob", a_pod(gpus=0, **forged))
    metadata = pod.body["metadata"]
    assert not [part for part in ("annotations", "labels", "finalizers") if metadata.get(part)]
    assert pod.spec["schedulerName"] == "nobody"
    assert "priorityClassName" not in pod.spec


@pytest.fixture
def limited(kube: KubeClient, people: People) -> Iterator[str]:
    """A namespace whose LimitRange lets nobody have more than two GPUs in a container."""
    namespace = kube.create(NAMESPACES, {"metadata": {"generateName": "limited-"}}).metadata.name
    limits = {"limits": [{"type": "Container", "max": {names.GPU_RESOURCE: "2"}}]}
    kube.create(LIMIT_RANGES, {"metadata": {"name": "gpus"}, "spec": limits}, namespace=namespace)

    def is_known() -> bool:
        tried = people.create("bob", a_pod(gpus=0), namespace=namespace, dry_run=True)
        return tried.status == 201 and names.LIMIT_RANGER in tried.annotations

    eventually(is_known, deadline=PATIENCE)
    yield namespace
    kube.delete(NAMESPACES, namespace)


def amounts(pod: Created) -> list[tuple[str, str]]:
    """Requests and limits of GPUs, of each container."""
    containers = (*pod.spec.get("initContainers", ()), *pod.spec["containers"])
    kinds = ("requests", "limits")
    found = [[one["resources"][kind][names.GPU_RESOURCE] for kind in kinds] for one in containers]
    return [(requested, limit) for requested, limit in found]


def test_nobodys_gpu_is_given_by_a_limit_range(people: People, limited: str) -> None:
    pod = people.create("bob", a_pod(gpus=0, where="initContainers"), namespace=limited)
    assert amounts(pod) == [("0", "0"), ("0", "0")]
    assert (pod.spec["schedulerName"], "priorityClassName" in pod.spec) == ("nobody", False)
    assert "asks and 1 more: without a GPU" in pod.warnings[0]
    asking = people.create("alice", a_pod(where="initContainers"), namespace=limited)
    assert amounts(asking) == [("1", "1"), ("0", "0")]
    assert asking.annotations[names.BOOKING] == "b-1"


def test_a_limit_range_gives_no_gpu_back_to_a_pod_that_starts_without_its_own(
    people: People, webhook: ServedWebhook, kube: KubeClient, limited: str
) -> None:
    whole = webhook.admit
    webhook.admit = Webhook(
        Review(creators=Creators(ourselves=OURSELVES), unbooked="strip"),
        FakeClusterView(bookings=(), has="full"),
        CLOCK,
        Metrics(CollectorRegistry()),
        unready_reason=lambda: None,
        read_bookings=lambda: None,
        gpu_defaults=lambda name: gpu_defaults(kube.list(LIMIT_RANGES, Selection(namespace=name)).items),
    )
    try:
        pod = people.create("bob", a_pod(), namespace=limited)
        assert names.STRIPPED in pod.annotations
        assert amounts(pod) == [("0", "0")]
        other = people.create("bob", a_pod())
        assert names.STRIPPED in other.annotations
        assert other.spec["containers"][0]["resources"] == {}
    finally:
        webhook.admit = whole


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(gpus=0),
        a_pod(gpus=0, annotations={names.MODEL: A100, f"x.{names.STATE_DOMAIN}/user": "alice"}),
        a_pod(gpus=0, labels={"app": "x"}, finalizers=["example.org/x"]),
    ],
)
def test_other_pods_never_reach_the_webhook(people: People, webhook: ServedWebhook, pod: Json) -> None:
    assert people.create("bob", pod).status == 201
    assert webhook.calls == 0


@pytest.mark.parametrize("where", ["containers", "initContainers"])
@pytest.mark.parametrize("resource", [names.GPU_RESOURCE, "nvidia.com/mig-1g.10gb"])
def test_pods_with_gpus_in_any_container_reach_the_webhook(
    people: People, webhook: ServedWebhook, where: str, resource: str
) -> None:
    pod = a_pod(where=where)
    pod["spec"][where][0]["resources"]["limits"] = {resource: "1"}
    assert people.create("bob", pod).annotations[names.USER] == "bob"
    assert webhook.calls == 1


def test_a_dry_run_shows_what_would_be_stored_and_changes_nothing(people: People, cluster: Cluster) -> None:
    cluster.kubectl("create", "namespace", "quiet")
    shown = people.create("alice", a_pod(), namespace="quiet", dry_run=True)
    assert shown.annotations[names.BOOKING] == "b-1"
    assert cluster.kubectl("get", "pods,events,podtemplates", "--namespace=quiet", "--output=name") == ""
    stored = people.create("alice", a_pod(), namespace="quiet")
    assert (stored.annotations, stored.warnings) == (shown.annotations, shown.warnings)


def test_only_a_trusted_creator_names_the_user_of_a_pod(people: People) -> None:
    named = a_pod(annotations={names.HUB_USER: "alice"})
    assert people.create(HUB, named).annotations[names.USER] == "alice"
    assert people.create("bob", named).annotations[names.USER] == "bob"


@pytest.mark.parametrize("label", ["alice-40kth-2ese", "alice-kth-se---5fc1f5b8"])
def test_a_hubs_pod_with_nothing_but_a_label_belongs_to_its_user(people: People, label: str) -> None:
    pod = a_pod(labels={names.HUB_USER: label})
    assert people.create(HUB, pod).annotations[names.USER] == "alice"
    assert people.create("bob", pod).annotations[names.USER] == "bob"


def test_a_notebook_for_which_no_gpu_is_free_starts_without_one(
    people: People, webhook: ServedWebhook
) -> None:
    notebook = a_pod(annotations={names.HUB_USER: "bob"})
    with full(webhook.cache):
        pod, other = people.create(HUB, notebook), people.create("bob", a_pod())
    (asks,) = pod.spec["containers"]
    assert not asks["resources"].get("limits")
    assert asks["env"] == [{"name": names.VISIBLE_DEVICES_VARIABLE, "value": "none"}]
    assert pod.spec["schedulerName"] == "nobody"
    assert "priorityClassName" not in pod.spec
    assert pod.annotations.keys() == {names.HUB_USER, names.STRIPPED}
    assert "it was created without a GPU" in pod.warnings[0]
    assert other.annotations[names.ADMITTED] == "true"


@contextmanager
def full(cache: ClusterCache) -> Iterator[None]:
    """One node, whose one GPU is held."""
    node, lease = a_node("n0", a100(0)), a_lease("n0", renewed=CLOCK.now())
    held = a_held_pod("held").asks(1).on("n0", {"main": ("GPU-n0-0",)}).obj
    cache.of(NODES).upsert(node)
    cache.of(LEASES).upsert(lease)
    cache.of(PODS).upsert(held)
    yield
    cache.of(PODS).remove(held)
    cache.of(LEASES).remove(lease)
    cache.of(NODES).remove(node)


@pytest.mark.parametrize(
    ("who", "message"),
    [
        ("alice", f"Warning: Your booking of 1 x {A100} (b-1) covers this pod until "),
        ("bob", "Warning: No running booking: this pod may be evicted when a booked pod needs its GPU."),
    ],
)
@pytest.mark.usefixtures("webhook")
def test_kubectl_shows_users_what_their_pods_were_given(cluster: Cluster, who: str, message: str) -> None:
    argv, environment = cluster.kubectl_command("create", "-f", "-", f"--as={who}")
    pod = {"apiVersion": "v1", "kind": "Pod", **a_pod()}
    done = subprocess.run(
        argv, input=msgspec.json.encode(pod), env=environment, capture_output=True, check=True
    )
    assert message in done.stderr.decode()


def test_no_pod_names_gpus_to_the_runtime(people: People) -> None:
    everything = {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "all"}
    pod = a_pod(where="initContainers")
    pod["spec"]["initContainers"][0]["env"] = [everything]
    pod["spec"]["containers"][0]["env"] = [everything]
    spec = people.create("bob", pod).spec
    assert "env" not in spec["initContainers"][0]
    assert spec["containers"][0]["env"] == [{**everything, "value": "void"}]


def test_a_pod_that_our_reclaimer_creates_keeps_everything(people: People) -> None:
    ours = {names.USER: "alice", names.RECREATED_FROM: "uid-1", names.FIRST_CREATED: text_of(TODAY)}
    back = a_pod(gpus=0, annotations=ours, labels={names.COMEBACK: "true"}, finalizers=[names.COMEBACK])
    pod = people.create(OURSELVES, back)
    assert pod.annotations == ours
    assert pod.body["metadata"]["labels"] == {names.COMEBACK: "true"}
    assert pod.body["metadata"]["finalizers"] == [names.COMEBACK]
    assert pod.spec["schedulerName"] == "nobody"
    assert pod.warnings == ()


@pytest.mark.parametrize("kind", ["Job", "Deployment"])
def test_a_controllers_pod_belongs_to_no_user_where_its_namespace_names_none(
    cluster: Cluster, webhook: ServedWebhook, kind: str
) -> None:
    namespace = f"unowned-{kind.lower()}"
    pod = made_by_a_controller(cluster, webhook, kind, namespace=namespace)
    why = f"no administrator has set {names.OWNER} on namespace {namespace}."
    assert pod["metadata"]["annotations"].pop(names.NO_USER).endswith(why)
    assert pod["metadata"]["annotations"] == {
        names.ADMITTED: "true",
        names.REPLACED: '{"schedulerName":"nobody"}',
    }
    assert pod["spec"]["priorityClassName"] == names.OPPORTUNISTIC_CLASS


def test_a_controllers_pod_belongs_to_the_user_that_its_namespace_names(
    cluster: Cluster, webhook: ServedWebhook
) -> None:
    pod = made_by_a_controller(cluster, webhook, "Deployment", namespace="owned", owner="alice")
    assert pod["metadata"]["annotations"][names.USER] == "alice"
    assert pod["metadata"]["annotations"][names.BOOKING] == "b-1"
    assert pod["spec"]["priorityClassName"] == names.BOOKED_CLASS


def made_by_a_controller(
    cluster: Cluster, webhook: ServedWebhook, kind: str, *, namespace: str, owner: str | None = None
) -> Json:
    """A pod that says that it is Bob's, made by Kubernetes in a namespace of its own."""
    annotations = {names.OWNER: owner} if owner else {}
    given = {"apiVersion": "v1", "kind": "Namespace"}
    made = {**given, "metadata": {"name": namespace, "annotations": annotations}}
    cluster.kubectl("create", "-f", "-", given=msgspec.json.encode(made).decode())
    eventually(lambda: namespace in webhook.cache.namespaces, deadline=PATIENCE)
    template = a_pod(annotations={names.USER: "bob"}, labels={"app": "x"})
    template["spec"]["restartPolicy"] = "Never" if kind == "Job" else "Always"
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": "x"}}}
    controller = {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "c", "namespace": namespace},
        "spec": {**selector, "template": {"metadata": template["metadata"], "spec": template["spec"]}},
    }
    cluster.kubectl("create", "-f", "-", given=msgspec.json.encode(controller).decode())
    kube, made_by_it = administrator(cluster), Selection(namespace=namespace, label_selector="app=x")
    eventually(lambda: kube.list(PODS, made_by_it).items, deadline=PATIENCE)
    words = ("get", "pods", f"--namespace={namespace}", "--selector=app=x", "--output=json")
    (pod,) = msgspec.json.decode(cluster.kubectl(*words))["items"]
    found: Json = pod
    return found


def test_before_the_first_list_gpu_pods_are_refused_and_others_are_not(
    people: People, webhook: ServedWebhook
) -> None:
    whole = webhook.admit
    unread = "The pods of the cluster have not been read yet."
    review = Review(creators=Creators(ourselves=OURSELVES))
    metrics = Metrics(CollectorRegistry())
    view = CachedClusterView(ClusterCache(CLOCK))
    webhook.admit = Webhook(
        review,
        view,
        CLOCK,
        metrics,
        unready_reason=lambda: unread,
        read_bookings=lambda: None,
        gpu_defaults=lambda _: frozenset(),
    )
    try:
        refused = people.create("bob", a_pod())
        assert refused.status == 500
        assert "failed calling webhook" in refused.body["message"]
        assert people.create("bob", a_pod(gpus=0)).status == 201
    finally:
        webhook.admit = whole
