"""Dry runs of what administrators do: the answer or refusal is the same, and nothing is kept of it."""

from collections.abc import Callable
from typing import Any

import pytest

from booking.policy.limits import Limits
from booking.server.errors import NotAllowedError, RefusedError, UnknownError
from booking.server.service import BookingService, Key
from booking.server.service.context import PodToEvict
from booking.server.service.device_orders import NodeGpus
from booking.server.service.evict_orders import PodOrders
from booking.server.store import Store
from booking.server.store_records import Block
from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import NAMESPACES, NODES, PODS
from cluster.objects.device_orders import device_orders_of
from cluster.objects.evict_orders import order_of
from cluster.objects.inventory import Device, encode_inventory
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER, a_request, day

ALICE, ROOT = somebody("alice"), an_administrator()
KEY = Key.of("k-1", b"POST /admin/blocks", b"{}")
POD = {"namespace": "team", "pod": "train"}


@pytest.fixture
def kube(clock: FakeClock) -> FakeKube:
    """A pod of alice's on two GPUs of a node, and the node."""
    fake = FakeKube(clock)
    fake.create(NAMESPACES, {"metadata": {"name": "team"}})
    devices = (Device(uuid="GPU-a", index=0, model="NVIDIA-A100"),)
    fake.create(
        NODES, {"metadata": {"name": "n0", "annotations": {names.INVENTORY: encode_inventory(devices)}}}
    )
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "epoch", "uid": "r-1", "controller": True}
    limits = {names.GPU_RESOURCE: "2"}
    fake.create(
        PODS,
        {
            "metadata": {
                "name": "train",
                "annotations": {names.USER: "alice", names.BOOKING: "b-1"},
                "ownerReferences": [owner],
            },
            "spec": {"nodeName": "n0", "containers": [{"name": "main", "resources": {"limits": limits}}]},
        },
        namespace="team",
    )
    return fake


@pytest.fixture
def service(store: Store, clock: FakeClock, kube: FakeKube) -> BookingService:
    orders = PodOrders(kube, home=names.NAMESPACE)
    return BookingService(store, clock, Limits(), lambda: CLUSTER, evictions=orders, gpus=NodeGpus(kube))


def a_block(service: BookingService, **more: Any) -> Block:
    fields: dict[str, Any] = {"node": "n0", "start": day(1), "end": day(3), "reason": "new fans"}
    return service.add_block(ROOT, **{**fields, **more})


def an_exemption(service: BookingService, **more: Any) -> Any:
    fields: dict[str, Any] = {
        "user": "alice",
        "start": day(0),
        "end": day(10),
        "limits": {"longest": "P30D"},
        "reason": "a deadline",
    }
    return service.add_exemption(ROOT, **{**fields, **more})


def stored(service: BookingService, store: Store) -> tuple[object, ...]:
    """Everything that a dry run must leave as it is."""
    return (
        store.change(),
        service.audit(ROOT).entries,
        service.denied(ROOT).entries,
        service.blocks(ROOT),
        service.exemptions(ROOT),
        store.read(lambda reading: reading.replayed(ROOT.user, KEY.text)),
    )


DRY: dict[str, Callable[[BookingService, str, str], object]] = {
    "add a block": lambda service, *_: a_block(service, dry_run=True, key=KEY),
    "remove a block": lambda service, block, _: service.remove_block(ROOT, block, dry_run=True, key=KEY),
    "add an exemption": lambda service, *_: an_exemption(service, dry_run=True, key=KEY),
    "remove an exemption": lambda service, _, exemption: service.remove_exemption(
        ROOT, exemption, dry_run=True, key=KEY
    ),
    "evict": lambda service, *_: service.dry_run_evict(ROOT, "team", "train", "because"),
    "cordon": lambda service, *_: service.order_gpu(
        ROOT, "n0", "0", order="cordon", reason="loud", dry_run=True, key=KEY
    ),
}


@pytest.mark.parametrize("verb", DRY)
def test_a_dry_run_stores_nothing_keeps_no_key_and_writes_nothing_in_the_cluster(
    service: BookingService, store: Store, kube: FakeKube, verb: str
) -> None:
    block, exemption = a_block(service).id, an_exemption(service, user="bob").id
    before = stored(service, store)
    pod, node = kube.get(PODS, "train", namespace="team"), kube.get(NODES, "n0")
    DRY[verb](service, block, exemption)
    assert stored(service, store) == before
    assert kube.get(PODS, "train", namespace="team") == pod
    assert kube.get(NODES, "n0") == node


def test_a_dry_run_of_maintenance_answers_with_the_block_that_would_hold(service: BookingService) -> None:
    tried, made = a_block(service, dry_run=True, count=2), a_block(service, count=2)
    assert tried.id != made.id
    for field in ("node", "model", "count", "start", "end", "reason", "created_by", "created"):
        assert getattr(tried, field) == getattr(made, field)
    assert service.remove_block(ROOT, made.id, dry_run=True) == made
    assert service.blocks(ROOT) == (made,)


@pytest.mark.parametrize(
    "more", [{}, {"count": 1}, {"count": 3}, {"node": "n1"}, {"start": day(4), "end": day(9)}]
)
def test_a_dry_run_of_maintenance_reports_the_bookings_that_it_would_affect(
    service: BookingService, more: dict[str, Any]
) -> None:
    service.create(ALICE, a_request(day(2), day(5), count=4))
    service.create(somebody("bob"), a_request(day(2), day(4), count=2))
    tried = service.affected(a_block(service, dry_run=True, **more))
    assert tried == service.affected(a_block(service, **more))


def test_a_dry_run_of_maintenance_reports_the_later_of_two_competing_bookings(
    service: BookingService, clock: FakeClock
) -> None:
    """The earlier booking is kept; of bookings of one second, the ids decide."""
    service.create(ALICE, a_request(day(2), day(5), count=4))
    clock.advance(1)
    lost = service.create(somebody("bob"), a_request(day(2), day(4), count=2))
    assert service.affected(a_block(service, node="n1", dry_run=True)) == (lost,)


def test_a_dry_run_of_an_exemption_answers_with_the_exemption_that_would_hold(
    service: BookingService,
) -> None:
    tried = an_exemption(service, dry_run=True)
    assert (tried.user, dict(tried.limits), tried.end) == ("alice", {"longest": "P30D"}, day(10))
    assert service.limits(ALICE)["longest"] == "P14D"
    made = an_exemption(service)
    assert service.remove_exemption(ROOT, made.id, dry_run=True) == made
    assert service.limits(ALICE)["longest"] == "P30D"


def test_a_dry_run_of_an_eviction_names_the_user_of_the_pod(service: BookingService, kube: FakeKube) -> None:
    pod = service.dry_run_evict(ROOT, "team", "train", " because ")
    assert pod == PodToEvict(user="alice", booking="b-1", node="n0", gpus=2, controller="ReplicaSet/epoch")
    dry_run = kube.calls[-1]
    assert (dry_run.verb, dry_run.path) == ("PATCH", "/api/v1/namespaces/team/pods/train?dryRun=All")
    service.evict(ROOT, "team", "train", "because")
    assert kube.calls[-1].body == dry_run.body
    assert order_of(kube.get(PODS, "train", namespace="team")) is not None


def test_a_dry_run_of_a_cordon_names_the_gpu(service: BookingService, kube: FakeKube) -> None:
    assert service.order_gpu(ROOT, "n0", "0", order="cordon", reason="loud", dry_run=True) == "GPU-a"
    assert kube.calls[-1].path == "/api/v1/nodes/n0?dryRun=All"
    assert device_orders_of(kube.get(NODES, "n0")) == {}


REFUSED: dict[str, tuple[type[Exception], Callable[[BookingService], object]]] = {
    "a node that there is not": (RefusedError, lambda service: a_block(service, node="n9", dry_run=True)),
    "no reason for a block": (RefusedError, lambda service: a_block(service, reason=" ", dry_run=True)),
    "a limit that is none": (
        RefusedError,
        lambda service: an_exemption(service, limits={"x": 1}, dry_run=True),
    ),
    "no such block": (UnknownError, lambda service: service.remove_block(ROOT, "b-0", dry_run=True)),
    "no such exemption": (UnknownError, lambda service: service.remove_exemption(ROOT, "b-0", dry_run=True)),
    "no such pod": (UnknownError, lambda service: service.dry_run_evict(ROOT, "team", "other", "because")),
    "no name of a pod": (
        UnknownError,
        lambda service: service.dry_run_evict(ROOT, "team", "../x", "because"),
    ),
    "no reason for an eviction": (
        RefusedError,
        lambda service: service.dry_run_evict(ROOT, **POD, reason=""),
    ),
    "no such GPU": (
        UnknownError,
        lambda service: service.order_gpu(ROOT, "n0", "7", order="cordon", reason="x", dry_run=True),
    ),
    "no administrator evicts": (
        NotAllowedError,
        lambda service: service.dry_run_evict(ALICE, **POD, reason="because"),
    ),
    "no administrator cordons": (
        NotAllowedError,
        lambda service: service.order_gpu(ALICE, "n0", "0", order="cordon", reason="x", dry_run=True),
    ),
    "no administrator blocks": (
        NotAllowedError,
        lambda service: service.add_block(
            ALICE, node="n0", start=day(1), end=day(2), reason="x", dry_run=True
        ),
    ),
}


@pytest.mark.parametrize("verb", REFUSED)
def test_a_dry_run_is_refused_as_its_verb_would_be_and_no_refusal_is_recorded(
    service: BookingService, store: Store, verb: str
) -> None:
    before = stored(service, store)
    error, do = REFUSED[verb]
    with pytest.raises(error):
        do(service)
    assert stored(service, store) == before
