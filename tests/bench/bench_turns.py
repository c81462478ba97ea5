"""Turns on a real API server: how soon a freed GPU is the next pod's, and what a long line costs others.

Pods wait behind our gate, set as admission would set it; a stock kube-scheduler binds them. Their users and
priorities are such that it is known who is next.
"""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from cluster import names
from cluster.fake.merging import merged
from cluster.kube.resources import LEASES, PODS
from cluster.process.clock import SystemClock
from devcluster.daemons import Daemon
from devcluster.product import Parts
from devcluster.wait import poll
from tests.bench.arena import Arena, arena, gpu_pod
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.pods import NAMESPACE
from tests.bench.rows import Kind, Row, Target
from tests.bench.simulated import GPUS, describe, in_parallel, program
from tests.bench.table import percentile
from tests.fakes.objects import A100, A6000, a6000

OF_EACH: Final = 50
"""Nodes of the model that everybody wants, and nodes of the free one."""
USERS: Final = 50
WAITING: Final = 500
FREED: Final = 100
"""GPUs that are freed one after the other."""
AT_ONCE: Final = 200
SUBMITTED: Final = 10_000
ALONE: Final = 60
"""Pods of alice's that are measured while nothing happens."""
BLOCKS: Final = 8
OF_BLOCK: Final = 25
"""Pods of hers that are measured one after the other in a mode, before it is the other's turn."""
BETWEEN: Final = 0.05
"""Seconds between two of her pods."""
_SWITCHED_WITHIN: Final = 60.0
_IDLE: Final = "nobody waits: a pod created to bound on a free GPU"
_LINE: Final = f"while {WAITING} pods of {USERS} users wait, {2 * OF_EACH} simulated nodes"
_FREED: Final = {
    percent: Kind(
        f"turns-freed-p{percent}",
        f"GPU freed to the next pod bound {_LINE}, p{percent} of {FREED}",
        "ms",
        _IDLE,
        target=Target(value={50: 60, 99: 150}[percent]),
    )
    for percent in (50, 99)
}
_RATE: Final = Kind(
    "turns-rate",
    f"turns a second, {AT_ONCE} GPUs freed at once {_LINE} (published: KAI's fill 10, Kueue 42)",
    "1/s",
    target=Target(value=100, at_least=True),
)
_SHARED: Final = Kind(
    "turns-idle",
    f"nobody waits: a pod created to bound on a free GPU, fair shares `order`, p50 of {BLOCKS * OF_BLOCK}",
    "ms",
    "the same with `off`, in turn with these",
    target=Target(ratio=1.02),
)
_BESIDE: Final = Kind(
    "turns-beside",
    f"alice's pod on a free GPU, created to bound while bob submits {SUBMITTED} for another model, p50",
    "ms",
    _IDLE,
    target=Target(ratio=1.2),
)
_BURST: Final = Kind(
    "turns-beside-burst", _BESIDE.what, "ms", "the same, while no controller runs", target=Target(ratio=1.2)
)


def measure(_lab: Lab) -> Iterator[Row]:
    """Idle, then with a line, then with a long one."""
    with arena(2 * OF_EACH) as place, place.scheduling(), ExitStack() as parts:
        switch = _controller(place, parts)
        line = Line(place)
        line.fill()
        yield _both_idle(line, switch)
        idle = line.bound_alone("idle", lambda number: number >= ALONE)
        line.stand()
        freed = [line.free(number % USERS, number // USERS) for number in range(FREED)]
        for percent, kind in _FREED.items():
            yield kind.row(1e3 * percentile(freed, percent), 1e3 * percentile(idle, percent))
        yield _RATE.row(AT_ONCE / line.free_many())
        busy = line.bound_beside("busy")
        yield _BESIDE.row(1e3 * percentile(busy, 50), 1e3 * percentile(idle, 50))
        switch.daemon.kill()
        alone = line.bound_beside("alone")
        yield _BURST.row(1e3 * percentile(busy, 50), 1e3 * percentile(alone, 50))


def _both_idle(line: "Line", switch: "Switch") -> Row:
    """Alice's pods without and with fair shares, block after block; they stay on."""
    found: dict[str, list[float]] = {"off": [], "order": []}
    for block in range(BLOCKS):
        for mode in found:
            switch.turn_to(mode)
            found[mode] += line.bound_alone(f"{mode}-{block}", lambda number: number >= OF_BLOCK)
    return _SHARED.row(1e3 * percentile(found["order"], 50), 1e3 * percentile(found["off"], 50))


def _controller(place: Arena, parts: ExitStack) -> "Switch":
    """A controller that gives turns, and how it is told not to."""
    policy = Path(parts.enter_context(TemporaryDirectory())) / "policy.yaml"
    _write(policy, "order")
    daemon = Parts(place.cluster).start_controller({names.setting("policy_file"): str(policy)})
    parts.callback(daemon.kill)
    return Switch(place, policy, daemon)


def _write(policy: Path, mode: str) -> None:
    policy.write_text(f"fair_shares: {{mode: {mode}}}\n")


class Switch:
    """The policy file of a controller, which reads it within seconds."""

    def __init__(self, place: Arena, policy: Path, daemon: Daemon) -> None:
        self._place, self._policy, self.daemon = place, policy, daemon

    def turn_to(self, mode: str) -> None:
        """The mode is in force when this returns."""
        _write(self._policy, mode)
        if not poll(lambda: (self._mode() or "off") == mode, seconds=_SWITCHED_WITHIN):
            raise RuntimeError(f"The controller does not say that its mode is {mode}.")

    def _mode(self) -> str | None:
        lease = self._place.kube.get(LEASES, names.CONTROLLER_LEASE, namespace=names.NAMESPACE)
        return lease.metadata.annotation(names.FAIR_SHARES)


class Line:
    """The users' pods: ``runs-USER-NUMBER`` and ``waits-USER-NUMBER``."""

    def __init__(self, place: Arena) -> None:
        self._place = place
        self._clock = SystemClock()

    def fill(self) -> None:
        """Half of the nodes get another model; all GPUs of the first are in use, by everybody alike."""
        for name in self._place.nodes[OF_EACH:]:
            describe(self._place.kube, name, [a6000(index, name) for index in range(GPUS)])
        found = [(user, number) for user in range(USERS) for number in range(OF_EACH * GPUS // USERS)]
        self._place.create(_pod(f"runs-{user}-{number}", f"u{user}") for user, number in found)
        for user, number in found:
            self._place.sightings.at(f"runs-{user}-{number}", "Running")

    def stand(self) -> None:
        """Everybody's pods wait, each user's in the order of their numbers."""
        each = WAITING // USERS
        self._place.create(
            _queued(f"waits-{user}-{number}", f"u{user}", priority=100 - number)
            for user in range(USERS)
            for number in range(each)
        )

    def free(self, user: int, number: int) -> float:
        """Seconds until the pod of a user who has just lost one is bound: nobody holds less."""
        begin = self._remove(user, number)
        return self._place.sightings.at(f"waits-{user}-{number}", "bound") - begin

    def _remove(self, user: int, number: int) -> float:
        begin = self._clock.monotonic()
        name = f"runs-{user}-{number}"
        self._place.kube.delete(PODS, name, namespace=NAMESPACE, grace_seconds=0)
        return begin

    def free_many(self) -> float:
        """Seconds until as many pods are bound as GPUs are freed at once."""
        first, each = FREED // USERS, AT_ONCE // USERS
        chosen = [(user, first + number) for user in range(USERS) for number in range(each)]
        begin = self._clock.monotonic()
        in_parallel([partial(self._remove, user, number) for user, number in chosen])
        bound = [self._place.sightings.at(f"waits-{user}-{number}", "bound") for user, number in chosen]
        return max(bound) - begin

    def bound_alone(self, prefix: str, is_over: Callable[[int], bool]) -> list[float]:
        """Seconds from creation to bind of alice's pods, one after the other, on the free model."""
        found: list[float] = []
        never = threading.Event()
        while not is_over(len(found)):
            self._clock.wait(never, BETWEEN)
            name, begin = f"{prefix}-{len(found)}", self._clock.monotonic()
            self._place.kube.create(PODS, _pod(name, "alice", model=A6000), namespace=NAMESPACE)
            found.append(self._place.sightings.at(name, "bound") - begin)
            self._place.remove([name])
        return found

    def bound_beside(self, prefix: str) -> list[float]:
        """The same while bob submits his pods."""
        bodies = (_queued(f"bob-{prefix}-{number}", "bob", priority=0) for number in range(SUBMITTED))
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(self._place.create, bodies)
            found = self.bound_alone(prefix, lambda _: done.done())
            done.result()
        return found


def _pod(name: str, user: str, *, model: str = A100) -> dict[str, Any]:
    return merged(gpu_pod(name, model=model), {"metadata": {"annotations": {names.USER: user}}})


def _queued(name: str, user: str, *, priority: int) -> dict[str, Any]:
    gate = {"spec": {"schedulingGates": [{"name": names.QUEUE}]}}
    own = {"metadata": {"annotations": {names.PRIORITY: str(priority)}}}
    return merged(merged(_pod(name, user), gate), own)


MEASURE: Final = Measure(
    "turns", (_SHARED, *_FREED.values(), _RATE, _BESIDE, _BURST), measure, on_cluster=True, prepare=program
)
