"""The churn: a crowd, people with bookings, whatever befalls them; then peace, and everybody is served."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Final

from cluster.kube.errors import ApiError
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from devcluster.demo.pod_status import describe
from devcluster.demo.reporter import Reporter
from devcluster.wait import Stopwatch
from tests.fakes.objects import A100
from tests.laws.live import LiveWatch
from tests.long.churn.booked import Booked
from tests.long.churn.crowd import FINALIZER, Crowd
from tests.long.churn.desired_nodes import GPUS
from tests.long.churn.ground import NAMESPACE, Ground, body
from tests.long.churn.seen import tally
from tests.long.churn.sight import Sight
from tests.long.churn.strikes import drawn
from tests.long.churn.striking import Striking
from tests.long.watched import watched
from tests.threads import running

CROWD: Final = 4
"""People of the crowd."""
BOOKERS: Final = 10
"""People with bookings."""
WITHIN: Final = 900.0
"""Seconds that anything that must come may take on a busy machine."""
ROUND: Final = 60.0
SAYS_EVERY: Final = 10.0
FULL: Final = 0.97
"""Share of the GPUs at which the nodes count as full."""
BEGUN: Final = 3
"""The number of victims after which the faults begin: in the midst of the churn."""
UNRULY: Final = frozenset({"missing", "taken", "leaving", "over"})
"""States in which no pod of the crowd is in the end."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How large a churn is, and how long it takes."""

    nodes: int
    """Of eight GPUs."""
    crowd: int
    """Pods without a booking at any time."""
    booked: int
    """Pods with one at any time."""
    seconds: float
    """At least."""


class Churning:
    """One churn on a ground that nobody else uses."""

    def __init__(self, ground: Ground, laws: LiveWatch, seed: str, scale: Scale) -> None:
        self._ground = ground
        self._laws = laws
        self._seed = seed
        self._scale = scale
        self._reporter = Reporter(sys.stdout)
        people = ground.people(CROWD + BOOKERS)
        self._sight = Sight(laws, NAMESPACE)
        self.crowd = Crowd(people[:CROWD], self._sight, seed, scale.crowd)
        self.bookers = [
            Booked(one, self._sight, seed, scale.booked // BOOKERS, body=partial(body, model=A100))
            for one in people[CROWD:]
        ]
        self.striking = Striking(ground, fault=laws.fault, say=lambda line: self._say(f"! {line}"))
        self._stays, self._stop = threading.Event(), threading.Event()

    def play(self) -> None:
        """All of it: the nodes fill, everything churns, and in the end everybody is served."""
        with self._crowding():
            self._await("the crowd has filled the nodes", self._is_full)
            with self._booking():
                self._await("GPUs are taken back", self._is_reclaiming)
                self.crowd.churns = True
                self._rounds()
                self._calm_down()
                self._await("everybody is served", self._is_served)

    # --- in order --------------------------------------------------------------------------------------
    @contextmanager
    def _crowding(self) -> Iterator[None]:
        stop = threading.Event()
        with running([lambda: self.crowd.run(stop), lambda: self.crowd.racing.run(stop)], stop):
            yield

    @contextmanager
    def _booking(self) -> Iterator[None]:
        runs = [partial(one.run, self._stays, self._stop) for one in self.bookers]
        with running(runs, self._stop):
            yield

    def _rounds(self) -> None:
        """One after the other, each with everything of the menu."""
        watch = Stopwatch()
        for number in count():
            self._round(f"{self._seed} {number}")
            if watch.seconds >= self._scale.seconds:
                return

    def _round(self, seed: str) -> None:
        strikes, begun = drawn(seed, ROUND, self._ground.nodes), Stopwatch()
        for strike in strikes:
            self._say(f"  {strike}")
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(self.striking.run, strikes)
            self._await("a round is over", lambda: future.done() and begun.seconds >= ROUND)
            future.result()

    def _calm_down(self) -> None:
        """Nothing more happens, pods that hang may end, people want their GPUs and no change any more."""
        self._laws.fault("peace")
        self._say("peace")
        self.crowd.churns = False
        self._stays.set()
        self._ground.configure(ends=True)

    # --- seeing ----------------------------------------------------------------------------------------
    def _is_full(self) -> bool:
        wanted = min(self._scale.crowd, FULL * GPUS * self._scale.nodes)
        return self.crowd.tally.states.get("runs", 0) >= wanted

    def _is_reclaiming(self) -> bool:
        return len(self.crowd.taken) >= BEGUN

    def _is_served(self) -> bool:
        for pod in self._sight.pods.values():
            if FINALIZER in (pod.metadata.finalizers or ()):
                self._free(pod)
        states = self.crowd.tally.states
        return all(one.is_served() for one in self.bookers) and not states.keys() & UNRULY

    def _free(self, pod: Pod) -> None:
        """Take the strange finalizer off."""
        meta = pod.metadata
        rest = [one for one in meta.finalizers or () if one != FINALIZER]
        guards = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        with suppress(ApiError):  # in the next turn, then
            body = {"metadata": {**guards, "finalizers": rest}}
            self._ground.kube.patch(PODS, meta.name, body, namespace=NAMESPACE)

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for something; the laws are asked at every turn."""

        def report() -> None:
            self._say(self.summary())

        is_so = watched(self._laws, condition, seconds=WITHIN, report=report, report_every=SAYS_EVERY)
        assert is_so, f"Not within {WITHIN:.0f} s: {what}. {self._details()}"
        self._say(f"{what}: {self.summary()}")

    def summary(self) -> str:
        """How many pods and people are in which state, in one line."""
        served = sum(one.is_served() for one in self.bookers)
        booked = sum(one.created for one in self.bookers)
        lived = f"{self.crowd.created} and {booked} booked have lived"
        raced = f"{len(self.crowd.racing.begun)} of them raced ({len(self.crowd.raced)} won)"
        away = f"{len(self.crowd.taken)} were taken away ({len(self.crowd.hung)} hung), {raced}"
        theirs = tally(self._sight.states(name for one in self.bookers for name in one.names).values())
        people = f"{served} of {len(self.bookers)} served"
        return f"crowd: {self.crowd.tally}; booked: {theirs}; {people}; {lived}, {away}"

    def _details(self) -> str:
        pods = self._sight.pods
        waiting = [line for one in self.bookers for line in one.waiting()]
        described = [f"{line}: {describe(pods.get(line.split()[0]))}" for line in waiting]
        troubles = {one.problem for one in self.bookers if one.problem}
        return "\n".join([self.summary(), *described, *troubles])

    def _say(self, line: str) -> None:
        self._reporter.say("churn", line)
