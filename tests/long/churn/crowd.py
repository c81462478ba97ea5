"""The crowd: people without bookings, who delete and create their pods all the time.

Some of their pods do not end when they are asked to: a kubelet never finishes, or somebody's finalizer is on
them. Some people create a pod that is taken from them again at once, under the same name.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Final

from cluster.kube.client import KubeClient
from cluster.kube.errors import ApiError, Conflict
from cluster.kube.resources import PODS
from cluster.objects.cover_annotations import text_of
from cluster.objects.pods import Pod
from cluster.process.clock import SystemClock
from tests.long.accounts import Account
from tests.long.churn.desired_nodes import HANGS
from tests.long.churn.ground import NAMESPACE, body
from tests.long.churn.racing import Racing
from tests.long.churn.seen import Tally, tally
from tests.long.churn.sight import Sight
from tests.long.fire.harm import share

EVERY: Final = 0.5
"""Seconds after which the crowd reads its pods again."""
A_TURN: Final = 4
"""Running pods that are deleted in a turn, and pods without a GPU that are created again."""
WAITING_AT_MOST: Final = 20
"""Pods that wait, beyond which nobody creates one that has to."""
LEAVING_AT_MOST: Final = 40
"""Pods that are leaving, beyond which nobody deletes one that runs: kubelets have to keep up."""
FINALIZER: Final = "example.com/hangs"
OF_FINALIZERS: Final = 0.02
OF_KUBELETS: Final = 0.02
"""Shares of the pods that hang."""
SAVED: Final = 6
"""The first pods hang and lose nothing with their end, so that they are taken away before all others; no more
than these, as booked pods wait for them."""
IMPATIENT: Final = 0.2
"""Share of the people who do not wait for what was taken from them to come back."""
THREADS: Final = 6
"""Things that one person does at a time."""


def hangs(pod: Pod) -> bool:
    """Whether it does not end when it is asked to."""
    meta = pod.metadata
    return HANGS in (meta.labels or {}) or FINALIZER in (meta.finalizers or ())


class Crowd:
    """All of them; what they do is drawn from a seed."""

    def __init__(self, people: list[Account], sight: Sight, seed: str, pods: int) -> None:
        self._people = people
        self._sight = sight
        self._seed = seed
        self._clock = SystemClock()
        self._names = dict.fromkeys(f"crowd-{number:04d}" for number in range(pods))
        self._pools = [ThreadPoolExecutor(THREADS) for _ in people]
        self._busy: set[str] = set()
        self._turn = 0
        self.churns = False
        """Whether they delete what runs, and create pods that hang."""
        self.created = 0
        """Pods that were created."""
        self.taken: set[str] = set()
        """Uids of pods that were seen to be taken away."""
        self.hung: set[str] = set()
        """Those of them that did not end when they were asked to."""
        self._numbers = count(1)
        self.racing = Racing(people[0].kube, wants=self._is_impatient, create=self._create)

    def run(self, stop: threading.Event) -> None:
        """Run until ``stop`` is set."""
        while not self._clock.wait(stop, EVERY):
            self.turn()
        for pool in self._pools:
            pool.shutdown()

    @property
    def raced(self) -> set[str]:
        """Uids of pods whose user has created one of the same name before they could come back."""
        return self.racing.won

    @property
    def tally(self) -> Tally:
        """How many of their pods are in which state."""
        return tally(self._sight.states(self._names).values())

    def turn(self) -> None:
        """Check every pod once, and do what is to be done."""
        self._turn += 1
        states, pods = self._sight.states(self._names), self._sight.pods
        for name, state in states.items():
            if state == "missing":
                self._do(name, partial(self._create, name))
            elif name in pods and state == "over":
                self._do(name, partial(self._delete, pods[name]))
            elif name in pods and state == "taken":
                self._note_taken(pods[name])
        if self.churns:
            waiting = sum(state == "waits" for state in states.values())
            few = [name for name, state in states.items() if state == "without"]
            leaving = sum(state == "leaving" for state in states.values())
            runs = [name for name, state in states.items() if state == "runs" and leaving < LEAVING_AT_MOST]
            for name in (*self._chosen(runs), *self._chosen(few if waiting < WAITING_AT_MOST else [])):
                if name in pods:
                    self._do(name, partial(self._delete, pods[name]))

    def _note_taken(self, pod: Pod) -> None:
        self.taken.add(pod.metadata.uid)
        until = pod.metadata.deletion_timestamp
        if hangs(pod) and until is not None and until < self._clock.now():
            self.hung.add(pod.metadata.uid)

    def _chosen(self, names: list[str]) -> list[str]:
        return sorted(names, key=lambda name: share(self._seed, name, str(self._turn)))[:A_TURN]

    def _is_impatient(self, pod: Pod) -> bool:
        """Whether its user does not wait for it to come back: some do not, and all until one was first."""
        name = pod.metadata.name
        is_one = share(self._seed, name, "impatient") < IMPATIENT or not self.raced
        return name in self._names and is_one

    def _do(self, name: str, deed: Callable[[], object]) -> None:
        if name in self._busy:
            return
        self._busy.add(name)

        def done() -> None:
            try:
                with suppress(ApiError):  # what has no answer is asked again in a later turn
                    deed()
            finally:
                self._busy.discard(name)

        self._pools[self._whose(name)].submit(done)

    # --- deeds -----------------------------------------------------------------------------------------
    def _create(self, name: str) -> bool:
        """Create a pod; False where there is one of that name."""
        drawn = share(self._seed, name, "hangs") if self.churns else 1 / 2
        is_first = next(self._numbers) <= SAVED
        labels = {HANGS: "kubelet"} if is_first or drawn < OF_KUBELETS else {}
        finalizer = FINALIZER if 1 - drawn < OF_FINALIZERS else None
        checkpoint = text_of(self._clock.now() + timedelta(days=1)) if is_first else None
        pod = body(name, labels=labels, finalizer=finalizer, checkpoint=checkpoint)
        try:
            self._kube(name).create(PODS, pod, namespace=NAMESPACE)
        except Conflict:
            return False
        self._sight.created(name)
        self.created += 1
        return True

    def _delete(self, pod: Pod) -> None:
        meta = pod.metadata
        self._kube(meta.name).delete(PODS, meta.name, namespace=NAMESPACE, uid=meta.uid)

    def _kube(self, name: str) -> KubeClient:
        return self._people[self._whose(name)].kube

    def _whose(self, name: str) -> int:
        return int(name[-4:]) % len(self._people)
