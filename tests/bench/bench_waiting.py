"""How soon a booked pod is bound while many others wait for a model that is full, and pods change.

Every change of any pod makes kube-scheduler retry all pods that an extender has rejected. Booked pods have
the higher priority, so that each waits at most for the one that is being tried. Also measured while no pod
waits, which is the cost of the changes themselves, and while all but a few wait behind our scheduling gate.
"""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import Final

from cluster import names
from cluster.decide.queueing import AHEAD
from cluster.fake.clock import eventually
from cluster.fake.merging import merged
from cluster.kube.interface import Kube
from cluster.kube.resources import BOOKINGS, PODS
from cluster.objects.cover_annotations import cover_annotations_of
from cluster.objects.scheduling_gates import is_queued
from cluster.process.clock import SystemClock
from devcluster.product import Parts
from tests.bench.arena import ALICE, Arena, arena, gpu_pod
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.pods import NAMESPACE, PATIENCE
from tests.bench.rows import Kind, Row, Target
from tests.bench.simulated import GPUS, describe, program
from tests.bench.table import percentile
from tests.e2e.usual import WITHOUT_SHARES
from tests.fakes.objects import A100, A6000, a6000

OF_EACH: Final = 50
"""Nodes of the full model, and nodes of the free one."""
WAITING: Final = 500
EVENTS: Final = 100
"""Changes of pods per second."""
WRITERS: Final = 4
"""Threads that make the changes: one alone would be slowed by waiting for answers."""
BOOKED: Final = 150
"""Pods that are measured, first idle and then busy."""
BETWEEN: Final = 0.05
"""Seconds between the bind of a booked pod and the creation of the next one."""
_NOTE: Final = "example.com/note"
_SCENARIO: Final = (
    f"while {WAITING} pods wait for a full model, another one is free and {EVENTS} changes of pods arrive"
    f" each second, {2 * OF_EACH} simulated nodes"
)
_SCENARIOS: Final = {
    "alone": f"while {EVENTS} changes of pods arrive each second and nobody waits",
    "bound": _SCENARIO,
    "gated": f"{_SCENARIO}, and all that wait do so behind our scheduling gate but for {AHEAD}",
}
_KINDS: Final = {
    (name, percent): Kind(
        f"waiting-{name}-p{percent}",
        f"booked pod: created to bound {scenario}, p{percent} of {BOOKED}",
        "ms",
        "nobody waits and nothing changes",
        target=Target(ratio=3) if percent == 99 and name != "alone" else None,
    )
    for name, scenario in _SCENARIOS.items()
    for percent in (50, 99)
}
_RATE: Final = Kind("waiting-changes", "the changes of pods that did arrive then", "1/s")


def measure(_lab: Lab) -> Iterator[Row]:
    """Idle, then with pods that wait and pods that change."""
    with arena(2 * OF_EACH) as place, place.scheduling():
        running = _fill(place)
        idle = _bound(place, "idle")
        with _changing(place.kube, running):
            found = {"alone": _bound(place, "alone")}
        waiting = [f"waiting-{number}" for number in range(WAITING)]
        place.create(gpu_pod(name, model=A100) for name in waiting)
        for name in waiting:
            place.sightings.at(name, "rejected")
        with _changing(place.kube, running) as rates:
            found["bound"] = _bound(place, "busy")
        place.remove(waiting)
        with _queueing(place), _changing(place.kube, running):
            found["gated"] = _bound(place, "gated")
        for (name, percent), kind in _KINDS.items():
            yield kind.row(1000 * percentile(found[name], percent), 1000 * percentile(idle, percent))
        yield _RATE.row(sum(rates))


@contextmanager
def _queueing(place: Arena) -> Iterator[None]:
    """As many pods behind our gate, set as admission would set it, and the controller that removes it."""
    queued = [f"queued-{number}" for number in range(WAITING)]
    gate = {"spec": {"schedulingGates": [{"name": names.QUEUE}]}}
    place.create(merged(gpu_pod(name, model=A100), gate) for name in queued)
    controller = Parts(place.cluster).start_controller(
        {names.setting("queue_gate"): "true", **WITHOUT_SHARES}
    )
    eventually(lambda: sum(map(is_queued, place.kube.list(PODS).items)) < WAITING, deadline=PATIENCE)
    yield
    controller.kill()


def _fill(place: Arena) -> list[str]:
    """Give half of the nodes another model, which alice books, and fill the others with pods; these pods."""
    for name in place.nodes[OF_EACH:]:
        describe(place.kube, name, [a6000(index, name) for index in range(GPUS)])
    now = SystemClock().now()
    span = {"start": f"{now - timedelta(hours=1):%FT%TZ}", "end": f"{now + timedelta(days=1):%FT%TZ}"}
    spec = {"user": ALICE, "model": A6000, "count": BOOKED, **span}
    place.kube.create(BOOKINGS, {"metadata": {"name": "booked"}, "spec": spec})
    running = [f"running-{number}" for number in range(OF_EACH * GPUS)]
    place.create(gpu_pod(name, model=A100) for name in running)
    for name in running:
        place.sightings.at(name, "Running")
    return running


def _bound(place: Arena, prefix: str) -> list[float]:
    """Seconds from creation to bind of booked pods, one after the other; they are removed afterwards."""
    clock, never = SystemClock(), threading.Event()
    pods, found = [f"{prefix}-{number}" for number in range(BOOKED)], []
    # Annotated as by admission, so that no controller has to do it.
    annotated = {"metadata": {"annotations": cover_annotations_of(place.kube.get(BOOKINGS, "booked"))}}
    for name in pods:
        clock.wait(never, BETWEEN)
        pod = merged(gpu_pod(name, model=A6000, booked=True), annotated)
        begin = clock.monotonic()
        place.kube.create(PODS, pod, namespace=NAMESPACE)
        found.append(place.sightings.at(name, "bound") - begin)
    place.remove(pods)
    return found


@contextmanager
def _changing(kube: Kube, pods: Sequence[str]) -> Iterator[list[float]]:
    """Writers change pods again and again; at the end, the rate of each writer per second."""
    stop, rates = threading.Event(), list[float]()
    with ThreadPoolExecutor(WRITERS) as pool:
        writers = [pool.submit(_change, kube, pods[first::WRITERS], stop) for first in range(WRITERS)]
        try:
            yield rates
        finally:
            stop.set()
        rates.extend(writer.result() for writer in writers)


def _change(kube: Kube, pods: Sequence[str], stop: threading.Event) -> float:
    """Write on one pod after the other until stopped; the number of writes per second."""
    clock = SystemClock()
    begin, every = clock.monotonic(), WRITERS / EVENTS
    for made in count():
        if clock.wait(stop, max(0.0, begin + made * every - clock.monotonic())):
            break
        note = {"metadata": {"annotations": {_NOTE: str(made)}}}
        kube.patch(PODS, pods[made % len(pods)], note, namespace=NAMESPACE)
    return made / (clock.monotonic() - begin)


MEASURE: Final = Measure("waiting", (*_KINDS.values(), _RATE), measure, on_cluster=True, prepare=program)
