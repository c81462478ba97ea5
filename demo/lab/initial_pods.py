"""The pods that are at work when the demo begins, as the API server would hold them."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from booking.server.records import Record
from cluster import names
from cluster.objects.assignment import encode_assignment
from cluster.objects.inventory import Device
from cluster.objects.share_request import DEFAULT_MODE
from demo.lab.nodes import A100, H100, by_claims
from demo.lab.people import ALICE, BOB, EVERYBODY, namespace_of
from demo.lab.pods import FREE, SHARE, SHARER, SHARERS, WORK, job, name_for, part
from demo.simulation.simulation import PRIORITIES

Json = dict[str, Any]
SEED: Final = 11
HOUR: Final = timedelta(hours=1)
BOBS: Final = 3
"""GPUs of the model that alice has booked are bob's, who began last: his pods lose least."""


class Seats:
    """Which GPUs of each node are still free."""

    def __init__(self, nodes: Mapping[str, tuple[Device, ...]]) -> None:
        counted = {name: devices for name, devices in nodes.items() if not by_claims(devices)}
        self.free = {name: [device.uuid for device in devices] for name, devices in counted.items()}
        self.model = {name: devices[0].model for name, devices in counted.items()}

    def take(self, node: str, count: int) -> tuple[str, ...]:
        """Take some, the first ones."""
        taken, self.free[node] = self.free[node][:count], self.free[node][count:]
        return tuple(taken)

    def node_for(self, model: str, count: int) -> str | None:
        """A node of a model with so many free GPUs."""
        return next((n for n, m in self.model.items() if m == model and len(self.free[n]) >= count), None)


def initial_pods(
    nodes: Mapping[str, tuple[Device, ...]], bookings: Iterable[Record], now: datetime
) -> Iterator[Json]:
    """Pods of bookings that run (alice has not begun hers), and jobs of others on what is left."""
    seats, chance = Seats(nodes), Random(SEED)  # noqa: S311 - the lab is to be the same each time
    for record in bookings:
        is_running = record.start <= now < record.end and record.memory is None
        if not is_running or record.user == ALICE:
            continue
        node = seats.node_for(record.model, record.count)
        if node:
            begun = max(record.start, now - chance.randint(3, 40) * HOUR)
            uuids = seats.take(node, record.count)
            name = name_for(record.id)
            yield running(name, record.user, node, uuids, begun=begun, model=record.model, booked=True)
    others = [person for person in EVERYBODY if person not in (ALICE, BOB)]
    yield from _sharers(seats, others, now)
    numbers = dict.fromkeys(WORK, 1)
    for node, model in seats.model.items():
        keep = FREE.get(model, 0) if node == last_of(seats.model, model) else 0
        while len(seats.free[node]) > keep:
            is_bobs = model == H100.label and len(seats.free[node]) - keep <= BOBS
            count = 1 if is_bobs else min(chance.choice((1, 1, 2)), len(seats.free[node]) - keep)
            if model == H100.label and not is_bobs:
                count = min(count, len(seats.free[node]) - keep - BOBS)
            person = BOB if is_bobs else chance.choice(others)
            work = chance.choice(WORK)
            name, numbers[work] = f"{work}-{numbers[work]}", numbers[work] + 1
            hours = timedelta(minutes=25 + 7 * numbers[work]) if is_bobs else chance.randint(2, 30) * HOUR
            left = chance.randint(2, 20) * 3600.0
            uuids = seats.take(node, count)
            yield running(name, person, node, uuids, begun=now - hours, model=model, seconds=left)


def last_of(models: Mapping[str, str], model: str) -> str:
    """The last node of a model: it keeps some GPUs free."""
    return [name for name, each in models.items() if each == model][-1]


def running(
    name: str,
    person: str,
    node: str,
    uuids: tuple[str, ...],
    *,
    begun: datetime,
    model: str,
    seconds: float | None = None,
    booked: bool = False,
) -> Json:
    """A pod that was created, admitted, bound and started at an instant."""
    pod = job(name, len(uuids), model=model, seconds=seconds)
    return _at_work(pod, person, node, uuids, begun=begun, booked=booked)


def _sharers(seats: Seats, people: list[str], now: datetime) -> Iterator[Json]:
    """Pods of several people that have a share of one GPU."""
    node = seats.node_for(A100.label, 1)
    uuids = seats.take(node, 1) if node else ()
    for number, person in enumerate(people[:SHARERS] if node and uuids else (), start=1):
        pod = part(f"{SHARER}-{number}", SHARE, model=A100.label)
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        limits[names.SHARED_RESOURCE] = limits.pop(names.GPU_RESOURCE)
        pod["metadata"]["annotations"][names.SHARING_MODE] = DEFAULT_MODE
        yield _at_work(pod, person, node or "", uuids, begun=now - number * HOUR)


def _at_work(
    pod: Json, person: str, node: str, uuids: tuple[str, ...], *, begun: datetime, booked: bool = False
) -> Json:
    at = begun.strftime("%Y-%m-%dT%H:%M:%SZ")
    ours = {
        names.USER: person,
        names.ADMITTED: "true",
        names.ASSIGNED: encode_assignment({"main": uuids}),
    }
    pod["metadata"] |= {
        "namespace": namespace_of(person),
        "creationTimestamp": at,
        "annotations": {**pod["metadata"]["annotations"], **ours},
    }
    pod["spec"] |= {
        "nodeName": node,
        "schedulerName": names.SCHEDULER_NAME,
        "priorityClassName": names.BOOKED_CLASS if booked else names.OPPORTUNISTIC_CLASS,
        "priority": PRIORITIES[names.BOOKED_CLASS] if booked else 0,
    }
    pod["status"] = {
        "phase": "Running",
        "startTime": at,
        "conditions": [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")],
        "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {"startedAt": at}}}],
    }
    return pod
