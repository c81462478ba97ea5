"""A cluster with something of everything: what pages are looked at with, in tests and documents."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.errors import RefusedError
from booking.server.records import BookingRequest, Record
from booking.server.store_records import Block
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from cluster.objects.device_usage import DeviceUsage, NodeUsage, Squatter, encode_use
from cluster.objects.pods import Pod
from tests.booking.server.web.pages.site import DAY, Site
from tests.fakes.objects import A100, A6000, a100, a6000, a_booking, a_lease, a_node, a_pod

H100: Final = "NVIDIA-H100-80GB-HBM3"
HOUR: Final = timedelta(hours=1)


def add_bookings(site: Site) -> None:
    """Fill a site. Alice has a running booking, a planned one that is at risk, and two that are over."""
    site.capacity = Capacity(
        {
            A100: {"gpu-a1": 4, "gpu-a2": 4},
            H100: {"gpu-h1": 8},
            A6000: {"gpu-b1": 4, "gpu-b2": 2},
        }
    )
    _others(site)
    running = _alices(site)
    _exempt(site)
    site.pods = {running.id: ("vision/train-resnet", "vision/notebook")}
    begin = site.clock.now().replace(hour=23) - DAY
    for node, count, start, end, reason in (
        ("gpu-a2", None, 15 * DAY, 18 * DAY, "driver update"),
        ("gpu-h1", 2, 17 * DAY, 19 * DAY + 12 * HOUR, "two cards are replaced"),
    ):
        site.block(
            Block(
                id=f"k-{node}",
                node=node,
                count=count,
                start=begin + start,
                end=begin + end,
                reason=reason,
                created_by="bob",
                created=site.clock.now(),
            )
        )


def _others(site: Site) -> None:
    begin = site.clock.now().replace(hour=23) - DAY
    for model, node, count, start, end in (
        (A100, "gpu-a1", 2, -1 * DAY, 5 * DAY + 9 * HOUR),
        (A100, "gpu-a2", 3, 1 * DAY + 9 * HOUR, 4 * DAY + 17 * HOUR),
        (A100, "gpu-a2", 4, 7 * DAY + 8 * HOUR, 12 * DAY),
        (A100, "gpu-a1", 3, 12 * DAY, 20 * DAY),
        (A6000, "gpu-b1", 1, 0 * DAY, 3 * DAY),
        (A6000, "gpu-b2", 2, 2 * DAY, 8 * DAY),
        (A6000, "gpu-b1", 3, 4 * DAY, 8 * DAY),
        (A6000, "gpu-b1", 1, 5 * DAY, 6 * DAY),
        (H100, "gpu-h1", 4, -5 * DAY, 8 * DAY),
        (H100, "gpu-h1", 4, 3 * DAY, 8 * DAY),
        (H100, "gpu-h1", 8, 10 * DAY, 14 * DAY),
        (H100, "gpu-h1", 2, 14 * DAY, 23 * DAY),
    ):
        site.add(begin + start, begin + end, model=model, count=count, node=node)


def _alices(site: Site) -> Record:
    begin = site.clock.now().replace(hour=23) - DAY
    site.add(
        begin - 40 * DAY,
        begin - 30 * DAY,
        user="alice",
        model=A6000,
        released=begin - 30 * DAY,
        id="b-9xq4tzk7bm",
    )
    site.add(begin - 20 * DAY, begin - 18 * DAY, user="alice", cancelled=begin - 22 * DAY, id="b-pm5wv28hdr")
    running = site.add(
        begin - 3 * DAY,
        begin + 2 * DAY + 9 * HOUR,
        user="alice",
        count=2,
        node="gpu-a1",
        namespace="vision",
        id="b-k7w2m9qx4t",
    )
    site.add(
        begin + 16 * DAY,
        begin + 18 * DAY,
        user="alice",
        count=2,
        node="gpu-a2",
        created_by="bob",
        id="b-3hd8rvnp2c",
    )
    return running


def add_cluster(site: Site) -> None:
    """Let the cluster be seen as well: nodes, devices and pods of everybody's."""
    now = site.clock.now()
    unhealthy = a100(2, "gpu-a2", health="unhealthy", reason="XID 79: the GPU has fallen off the bus")
    site.cache.of(NODES).replace(
        [
            a_node("gpu-a1", *(a100(index, "gpu-a1") for index in range(4))),
            a_node("gpu-a2", a100(0, "gpu-a2"), a100(1, "gpu-a2"), unhealthy, a100(3, "gpu-a2")),
            a_node("gpu-b1", *(a6000(index, "gpu-b1") for index in range(4))),
            a_node("gpu-h1", *(a100(index, "gpu-h1", model=H100) for index in range(8))),
        ]
    )
    for node in ("gpu-a1", "gpu-a2", "gpu-h1"):
        site.cache.of(LEASES).upsert(a_lease(node, renewed=now, use=encode_use(used(node, now))))
    for booking in (
        a_booking("b-k7w2m9qx4t", count=2, start=now - 3 * DAY, end=now + 2 * DAY, namespace="vision"),
        a_booking("b-4tzk7bm9xq", user="carol", model=H100, count=4, start=now - DAY, end=now + 7 * DAY),
    ):
        site.cache.of(BOOKINGS).upsert(booking)
    for pod in _pods(now):
        site.cache.of(PODS).upsert(pod)


BUSY: Final = {
    "gpu-a1": (("train-resnet", 96, 61), ("notebook", 3, 12), ("finetune", 88, 70), ("finetune", 91, 70)),
    "gpu-a2": (("sweep-7", 74, 22), (None, 0, 0), (None, 0, 0), ("render", 41, 9)),
    "gpu-h1": (*(("diffusion", 99, 77),) * 4, ("eval", 12, 5), (None, 63, 18), (None, 0, 0), (None, 0, 0)),
}
"""Node -> pod, percent and GiB of each GPU."""


def used(node: str, now: datetime) -> NodeUsage:
    """How a node's GPUs are used; somebody who has logged in to gpu-h1 computes on a free one."""
    return NodeUsage(
        at=now,
        devices=tuple(
            DeviceUsage(
                uuid=f"GPU-{node}-{index}",
                utilisation=percent,
                memory=gib * 1024,
                temperature=34 + percent // 3,
                power=62 + 3 * percent,
                pods={f"uid-{pod}": gib * 1024} if pod else None,
            )
            for index, (pod, percent, gib) in enumerate(BUSY[node])
        ),
        squatters=(
            Squatter(device="GPU-gpu-h1-5", pid=48113, command="python3", memory=18 * 1024),
            Squatter(
                device="GPU-gpu-h1-5",
                pid=48200,
                command="jupyter",
                uid="uid-lab",
                namespace="vision",
                name="lab",
            ),
        )
        if node == "gpu-h1"
        else (),
    )


def _pods(now: datetime) -> Iterator[Pod]:
    for name, user, node, devices, hours in (
        ("train-resnet", "alice", "gpu-a1", (0,), 30),
        ("notebook", "alice", "gpu-a1", (1,), 5),
        ("sweep-7", "alice", "gpu-a2", (0,), 2),
        ("finetune", "postdoc-1", "gpu-a1", (2, 3), 9),
        ("render", "student-1", "gpu-a2", (3,), 26),
        ("diffusion", "carol", "gpu-h1", (0, 1, 2, 3), 20),
        ("eval", "postdoc-1", "gpu-h1", (4,), 1),
        ("probe", "student-1", "gpu-b1", (0,), 3),
    ):
        uuids = tuple(f"GPU-{node}-{index}" for index in devices)
        made = a_pod(name).of(user).created(now - hours * HOUR).asks(len(uuids)).on(node, {"main": uuids})
        yield _started(made.obj, now - hours * HOUR)
    yield _started(a_pod("ablation").of("alice").wants(A100).asks(4).unschedulable().obj, None)


def _started(pod: Pod, since: datetime | None) -> Pod:
    """In the namespace of the vision group, at work since then."""
    meta = msgspec.structs.replace(pod.metadata, namespace="vision")
    status = msgspec.structs.replace(pod.status, start_time=since)
    return msgspec.structs.replace(pod, metadata=meta, status=status)


def _exempt(site: Site) -> None:
    """Alice may have a running and a planned booking at a time."""
    bob = Principal(user="bob", name="bob", is_administrator=True)
    now = site.clock.now()
    site.service.add_exemption(
        bob,
        user="alice",
        start=now,
        end=now + 60 * DAY,
        limits={"max_active": 2, "max_planned": 2, "cooldown": "P0D"},
        reason="Her defence is in March.",
    )


def add_audit_entries(site: Site) -> None:
    """Let bob have granted an exemption, and a postdoc have asked for too much."""
    now = site.clock.now()
    bob = Principal(user="bob", name="bob", is_administrator=True)
    site.service.add_exemption(
        bob, user="carol", start=now, end=now + 30 * DAY, limits={"longest": "P21D"}, reason="A paper is due."
    )
    request = BookingRequest(model=H100, start=now, end=now + 90 * DAY, count=8)
    with suppress(RefusedError):
        site.service.create(Principal(user="postdoc-1", name="postdoc-1"), request)
