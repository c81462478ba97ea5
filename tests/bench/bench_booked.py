"""How soon a booked pod runs if a GPU must be taken back for it.

The floor cannot be avoided: the kubelet ends an equal pod, and starts one without a booking.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from cluster import names
from cluster.kube.interface import Kube
from devcluster import probe
from devcluster.demo.access import person
from devcluster.demo.rest import Rest
from devcluster.product import Parts
from tests.bench.lab import Lab, Standing
from tests.bench.measure import Measure
from tests.bench.pods import NAMESPACE, Ground
from tests.bench.rows import Kind, Row, Target
from tests.bench.table import percentile

A100: Final = "NVIDIA-A100-SXM4-80GB"
ROUNDS: Final = 10
OTHERS: Final = 3
PERCENTS: Final = (50, 95)
_SAFE: Final = {names.CHECKPOINT_AT: "2100-01-01T00:00:00Z"}
"""A checkpoint in the future counts as one of now: this pod loses nothing, and is the victim."""
_DECIDED: Final = Kind(
    "booked-decided-p50",
    f"booked pod seen by the controller to its victim given notice, p50 of {ROUNDS}",
    "ms",
    target=Target(value=50),
)
_NOTICE: Final = Kind(
    "booked-notice-p50",
    f"booked pod: created to its victim given notice, as a watch sees both, p50 of {ROUNDS}",
    "ms",
)
_RUNNING: Final = {
    percent: Kind(
        f"booked-running-p{percent}",
        f"booked pod, one eviction: created to Running, p{percent} of {ROUNDS}",
        "ms",
        "the kubelet's end of an equal pod + the start of a pod without a booking",
        target=Target(ratio=1.2) if percent == 50 else None,
    )
    for percent in PERCENTS
}
_MEMORY: Final = Kind("memory-controller", "memory of the controller after all that", "MiB")


@dataclass
class _Times:
    decided: list[float] = field(default_factory=list)
    """Seconds by the controller's own clock."""
    noticed: list[float] = field(default_factory=list)
    running: list[float] = field(default_factory=list)
    floor: list[float] = field(default_factory=list)


def measure(lab: Lab) -> Iterator[Row]:
    """Alice books one of four A100s; each round takes one back for her pod."""
    standing = lab.standing
    parts = standing.parts
    times = _booked(standing)
    yield _DECIDED.row(1000 * percentile(times.decided, 50))
    yield _NOTICE.row(1000 * percentile(times.noticed, 50))
    for percent, kind in _RUNNING.items():
        yield kind.row(1000 * percentile(times.running, percent), 1000 * percentile(times.floor, percent))
    yield _MEMORY.row(parts.metric(parts.controller(), "process_resident_memory_bytes") / 2**20)


def _booked(standing: Standing) -> _Times:
    parts, ground, times = standing.parts, standing.ground, _Times()
    parts.people.admit("alice", NAMESPACE)
    alice = person(standing.cluster, parts.people.token("alice"))
    rest = Rest(parts.booking_url, parts.people.token("alice", names.AUDIENCE))
    answer = rest.book(model=A100, count=1, duration="P2D")
    if answer.is_refusal:
        raise RuntimeError(f"The bench may not book: {answer.body}")
    others = [body(f"other-{number}") for number in range(OTHERS)]
    ground.bear(*others)
    try:
        for number in range(ROUNDS):
            before = _decisions(parts)
            _round(ground, alice, number, times)
            count, seconds = (now - then for now, then in zip(_decisions(parts), before, strict=True))
            if count != 1:
                raise RuntimeError(f"The controller has decided {count:.0f} times in round {number}.")
            times.decided.append(seconds)
    finally:
        rest.release(answer.body["id"])
        alice.close()
    ground.remove_all(other["metadata"]["name"] for other in others)
    return times


def _round(ground: Ground, alice: Kube, number: int, times: _Times) -> None:
    victim, hers, plain = f"victim-{number}", f"booked-{number}", f"plain-{number}"
    ground.bear(body(victim, safe=True))
    (birth,) = ground.bear(body(hers), by=alice)
    times.noticed.append(ground.left(victim) - ground.born(hers))
    times.running.append(birth.running)
    ground.remove(hers)
    ground.await_return(victim)
    ground.remove(victim)
    (start,) = ground.bear(body(plain))
    times.floor.append(ground.remove(plain) + start.running)


def _decisions(parts: Parts) -> tuple[float, float]:
    """The number of decisions that the controller has measured, and their total seconds."""
    name = "gpu_booking_reclaimer_decision_seconds"
    controller = parts.controller()
    return parts.metric(controller, f"{name}_count"), parts.metric(controller, f"{name}_sum")


def body(name: str, *, safe: bool = False) -> dict[str, Any]:
    """The body of a pod with one A100; ``safe``: its eviction loses no work."""
    body = probe.pod(name, [probe.container("main", gpus=1)], model=A100)
    body["metadata"]["annotations"].update(_SAFE if safe else {})
    return body


MEASURE: Final = Measure("booked", (_DECIDED, _NOTICE, *_RUNNING.values(), _MEMORY), measure, on_cluster=True)
