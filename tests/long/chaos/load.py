"""Who uses the cluster meanwhile: people with bookings, a Deployment, and users who take what is free."""

import json
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.interface import Selection
from cluster.kube.resources import PODS, WHOLE_PODS, WholePod
from cluster.objects.pods import Pod, asks_for_gpus
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.demo.pod_status import is_running
from devcluster.demo.rest import Json
from tests.e2e.persons import A100
from tests.laws.live import LiveWatch
from tests.long.chaos.ground import GPUS, NAMESPACE, NODES, Ground
from tests.long.chaos.people import Owner, Planner
from tests.long.churn.booked import Booked
from tests.long.churn.pod_set import PodSet
from tests.long.churn.seen import tally
from tests.long.churn.sight import Sight
from tests.long.fire.harm import share
from tests.long.fire.spoilt import spoilt
from tests.long.workloads import deployment

A6000: Final = "NVIDIA-RTX-A6000"
NEVER: Final = frozenset((None, "1970-01-01T00:00:00Z"))
"""When a container began that never did: containerd reports a start that failed as one of the year 1970."""
WORKLOAD: Final = "serving"
REPLICAS: Final = 3
"""Of a Deployment whose owner has one GPU booked."""
FREE: Final = 6
"""Bare pods that take whatever is free: more than there is."""
CHECK_EVERY: Final = 1.0
A_TURN: Final = 0.05
"""Share of the checks in which somebody deletes a pod that runs."""


class Load:
    """All of them."""

    def __init__(self, ground: Ground, laws: LiveWatch, seed: str) -> None:
        first, second, owner, one, other, crowd = ground.people
        self._ground = ground
        self._seed = seed
        self._clock = SystemClock()
        self._sight = Sight(laws, NAMESPACE)
        body = partial(pod, model=A100)
        self.booked = [
            Booked(first, self._sight, seed, 2, body=body),
            Booked(second, self._sight, seed, 1, body=body),
        ]
        self.owner = Owner(owner, A100)
        self.planners = [Planner(one, seed, A6000), Planner(other, seed, A6000)]
        self._free = PodSet(crowd, self._sight, [f"free-{number}" for number in range(FREE)], pod)
        self._leaves = threading.Event()
        self.lost: dict[str, str] = {}
        """Pods by uid that were running and ended, although nobody asked them to."""
        ground.give_workloads(owner)
        workload = deployment(WORKLOAD, replicas=REPLICAS)
        words = ("apply", f"--namespace={NAMESPACE}", "--filename=-")
        ground.cluster.kubectl(*words, given=json.dumps(workload))

    def bodies(self, stop: threading.Event) -> list[Callable[[], None]]:
        """What runs until ``stop`` is set, each in a thread of its own."""
        planners = [partial(one.run, stop) for one in self.planners]
        booked = [partial(one.run, self._leaves, stop) for one in self.booked]
        others = [partial(run, stop) for run in (self.owner.run, self._keep, self._check)]
        return [*planners, *booked, *others]

    def stay(self) -> None:
        """From now on nobody gives anything back, and everybody's pods stay."""
        self._leaves.set()

    def has_begun(self) -> bool:
        """Whether everybody with a booking has been served once, and gives it back in a while."""
        return all(one.served for one in self.booked)

    def unserved(self) -> list[str]:
        """What keeps us from saying that all is well: sentences."""
        live = [one for one in self._sight.pods.values() if asks_for_gpus(one)]
        runs = [one for one in live if is_running(one)]
        theirs = [one for one in runs if _is_of_workload(one) and one.metadata.annotation(names.BOOKING)]
        free = self._free.not_running()
        return [
            *(line for one in self.booked for line in one.waiting()),
            *([] if theirs else [f"no pod of {WORKLOAD} runs with the GPU that its owner has booked"]),
            *(line for line in free if not line.endswith(" waits")),
            *([] if len(runs) == GPUS * len(NODES) else [f"{len(runs)} GPUs are in use, while pods wait"]),
        ]

    def summary(self) -> str:
        """How many pods and bookings are in which state, in one line."""
        pods = tally(self._sight.states(self._sight.pods).values())
        planned = {key: sum(one.deeds[key] for one in self.planners) for key in self.planners[0].deeds}
        served = sum(one.served for one in self.booked)
        changes = f"{self.owner.changes} changes of an end"
        return f"{pods}; served {served} times, {planned}, {changes}"

    # --- inside ----------------------------------------------------------------------------------------
    def _keep(self, stop: threading.Event) -> None:
        """Those who take what is free; now and then one of them is done."""
        turn = 0
        while not self._clock.wait(stop, CHECK_EVERY):
            turn += 1
            with suppress(ApiError):
                self._free.ensure()
                for name in () if self._leaves.is_set() else self._free.names:
                    is_done = share(self._seed, name, str(turn)) < A_TURN
                    known = self._sight.pods.get(name)
                    if is_done and known is not None and is_running(known):
                        self._free.delete(known)

    def _check(self, stop: threading.Event) -> None:
        """Note who has lost work; delete what a kubelet has spoilt, as the pod's message says."""
        kube = self._ground.kube
        while not self._clock.wait(stop, CHECK_EVERY):
            with suppress(ApiError):
                for one in kube.list(WHOLE_PODS, Selection(namespace=NAMESPACE)).items:
                    meta = one.metadata
                    if why := lost_work(one):
                        self.lost[meta.uid] = f"{meta.name} on {one.spec.get('nodeName')}: {why}"
                    if spoilt(one) and not meta.deletion_timestamp:
                        kube.delete(PODS, meta.name, namespace=NAMESPACE, uid=meta.uid)


def pod(name: str, *, model: str | None = None) -> Json:
    """A bare pod with one GPU."""
    body: dict[str, Any] = probe.pod(name, [probe.container("main", gpus=1)], model=model)
    return body


def lost_work(pod: WholePod) -> str | None:
    """How a container has ended that was to run indefinitely and was not asked to end; else None."""
    if pod.metadata.deletion_timestamp:
        return None
    for status in pod.status.get("containerStatuses") or ():
        for state in (status.get("state") or {}, status.get("lastState") or {}):
            over = state.get("terminated") or {}
            if over.get("startedAt") not in NEVER:
                how = f"{over.get('reason')} ({over.get('exitCode')}) {over.get('message') or ''}".strip()
                return f"{how}, {over['startedAt']} to {over.get('finishedAt')}"
    return None


def _is_of_workload(pod: Pod) -> bool:
    return (pod.metadata.labels or {}).get("app") == WORKLOAD
