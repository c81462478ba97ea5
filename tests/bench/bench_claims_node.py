"""What an agent of claims does: its start, the next pod of a full node, a GPU that was ill.

Each beside an agent that gives its GPUs by ``nvidia.com/gpu``. A part of ``bench_claims``.
"""

from collections.abc import Iterator
from statistics import median
from typing import Final

from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import RESOURCE_SLICES
from cluster.process.clock import SystemClock
from devcluster.product import Parts
from tests.bench.agent_log import logged
from tests.bench.claim_pods import FLOOR, GPUS, WAYS, body
from tests.bench.pods import Ground
from tests.bench.rows import Kind, Row, Target

STARTS: Final = 5
ROUNDS: Final = 10
ILLNESSES: Final = 5
NO_ACTION, RESET = 0, 1
"""What the driver asks for."""
PUBLISHED: Final = "devices for claims published"
STARTED: Final = {
    "claim": ("the driver is registered with the kubelet", PUBLISHED),
    "resource": ("registered with the kubelet", "devices advertised to the kubelet"),
}
"""What an agent that has started writes into its log."""
_START: Final = Kind(
    "claims-start",
    "agent of a node with claims: started to registered with the kubelet and its ResourceSlices published,"
    f" median of {STARTS}",
    "ms",
    "with nvidia.com/gpu: to registered and its devices with the kubelet",
    target=Target(value=1100),
)
_NEXT: Final = Kind(
    "claims-next-prepare",
    f"full node: the devices of a claim freed (Unprepare) to the next claim prepared, median of {ROUNDS}",
    "ms",
    target=Target(value=300),
)
_FULL: Final = Kind(
    "claims-next-running",
    f"full node: a pod told to end, 1 s of it grace, to the next pod Running, median of {ROUNDS}",
    "ms",
    FLOOR,
)
_ILL: Final = Kind(
    "claims-taint", f"a GPU falls ill: to its taint in the ResourceSlice, median of {ILLNESSES}", "ms"
)
_WELL: Final = Kind(
    "claims-recovered",
    f"a GPU is well again, by its agent: to the pod Running that waits for it, median of {ILLNESSES}",
    "ms",
    FLOOR,
    target=Target(value=1500),
)
KINDS: Final = (_START, _NEXT, _FULL, _ILL, _WELL)
_CLOCK: Final = SystemClock()


def measure(parts: Parts, ground: Ground, kube: Kube) -> Iterator[Row]:
    """All rows; no pod is there."""
    starts = {way: median(_start(parts, kube, way) for _ in range(STARTS)) for way in WAYS}
    yield _START.row(1000 * starts["claim"], 1000 * starts["resource"])
    prepared, full = zip(*(_next(parts, ground, way) for way in WAYS), strict=True)
    yield _NEXT.row(1000 * prepared[0])
    yield _FULL.row(1000 * full[0], 1000 * full[1])
    ill, well = zip(*(_recovered(parts, ground, way) for way in WAYS), strict=True)
    yield _ILL.row(1000 * ill[0])
    yield _WELL.row(1000 * well[0], 1000 * well[1])


def _start(parts: Parts, kube: Kube, way: str) -> float:
    """Seconds from an agent's start until its devices can be given out; nothing is left of them before."""
    agent, of_node = parts.agent(WAYS[way]), Selection(field_selector=f"spec.nodeName={WAYS[way]}")
    agent.kill()
    for one in kube.list(RESOURCE_SLICES, of_node).items:
        kube.delete(RESOURCE_SLICES, one.metadata.name)
    begin = _CLOCK.now()
    agent.control.start_again(agent.name)
    return (max(logged(agent, event, since=begin) for event in STARTED[way]) - begin).total_seconds()


def _next(parts: Parts, ground: Ground, way: str) -> tuple[float, float]:
    """Seconds from Unprepare to the next Prepare (0 without claims), and from a pod's end to the next pod."""
    agent, pods = parts.agent(WAYS[way]), [f"full-{way}-{number}" for number in range(GPUS + ROUNDS)]
    ground.bear(*(body(name, way) for name in pods[:GPUS]))
    prepared, running = list[float](), list[float]()
    for ends, waits in zip(pods, pods[GPUS:], strict=False):
        ground.create(body(waits, way))
        ground.await_waiting(waits)
        begin = _CLOCK.now()
        ground.remove(ends)
        running.append(ground.born(waits) + ground.birth(waits).running - ground.left(ends))
        if way == "claim":
            over = logged(agent, "a claim is over", since=begin)
            prepared.append((logged(agent, "a claim is prepared", since=begin) - over).total_seconds())
    ground.remove_all(pods[-GPUS:])
    return median(prepared or [0.0]), median(running)


def _recovered(parts: Parts, ground: Ground, way: str) -> tuple[float, float]:
    """Seconds from a fault to the taint (0 without claims), and from a healthy GPU to the next pod."""
    agent, driver = parts.agent(WAYS[way]), parts.fake_nvml(WAYS[way])
    ill, well = list[float](), list[float]()
    for number in range(ILLNESSES):
        begin = _CLOCK.now()
        driver.recovery_action(0, RESET)
        logged(agent, "devices prepared", since=begin, healthy=GPUS - 1)
        if way == "claim":
            ill.append((logged(agent, PUBLISHED, since=begin) - begin).total_seconds())
        if number == 0:
            ground.bear(body(f"stays-{way}", way))  # on the other one
        waits = f"waits-{way}-{number}"
        ground.create(body(waits, way))
        ground.await_waiting(waits)
        begin = _CLOCK.now()
        driver.recovery_action(0, NO_ACTION)
        healthy = logged(agent, "devices prepared", since=begin, healthy=GPUS)
        well.append(_instant(ground.born(waits) + ground.birth(waits).running) - healthy.timestamp())
        ground.remove(waits)
    ground.remove(f"stays-{way}")
    return median(ill or [0.0]), median(well)


def _instant(at: float) -> float:
    """An instant of the monotonic clock on the wall clock."""
    return at + _CLOCK.now().timestamp() - _CLOCK.monotonic()
