"""Tells hubs that their notebooks are back, until their proxies lead there.

A hub learns a notebook's new address by polling the pod (``Spawner.poll_interval``), and its proxy's route
follows when the hub checks its routes (every ``last_activity_interval``), or is told to, which is what
happens here. It is told every two seconds until the route is right, for a minute at most. In a thread of its
own: a hub that hangs or fails delays nothing else.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

from booking.controller.hubs.hub import Hub
from booking.controller.hubs.hub_api import HubApi, HubError
from booking.controller.hubs.returned_notebooks import Returned, ReturnedNotebooks
from cluster.kube.backoff import Backoff, Random, unpredictable
from cluster.process.clock import Clock
from cluster.process.metrics import NAMESPACE
from cluster.process.stop_events import wake_at

log = structlog.get_logger(__name__)

EVERY: Final = 2.0
"""Seconds between two checks while a route is not right."""
FOR: Final = 60.0
"""Seconds after which a notebook's route is left to the hub: its default interval of polls is 30 seconds."""
LONGEST_PAUSE: Final = 10.0
"""Seconds between two attempts at a hub that fails, at most."""
REST: Final = 3600.0
"""Seconds between two rounds with nothing to do; another notebook ends it."""


@dataclass
class _HubState:
    """A hub, and how asking it goes."""

    hub: Hub
    api: HubApi
    pauses: Backoff
    due: float = 0.0
    """Monotonic seconds: not before this it is asked again."""
    problem: str = field(default="", init=False)
    """What was logged last about it."""


class RouteChecks:
    """Has hubs check their routes. ``run`` is the body of a thread."""

    def __init__(
        self,
        hubs: tuple[tuple[Hub, HubApi], ...],
        returned: ReturnedNotebooks,
        clock: Clock,
        *,
        leads: Callable[[], bool],
        registry: CollectorRegistry | None = None,
        random: Random | None = None,
    ) -> None:
        """Args: hubs: with who asks each; leads: whether this replica is the one that asks."""
        random = random or unpredictable()
        self._hubs = [
            _HubState(hub, api, Backoff(first=EVERY, longest=LONGEST_PAUSE, random=random))
            for hub, api in hubs
        ]
        self._returned = returned
        self._clock = clock
        self._leads = leads
        self._changed = threading.Event()
        returned.on_change = self._changed.set
        self._outcomes = Counter(
            "controller_hub_notebooks_total",
            "Notebooks that came back, by what became of their hub's route: routed, left (to the hub, after a"
            " minute).",
            ("outcome",),
            namespace=NAMESPACE,
            registry=registry,
        )
        self._failures = Counter(
            "controller_hub_failures_total",
            "Requests to a hub's API that failed; each is tried again for a minute.",
            namespace=NAMESPACE,
            registry=registry,
        )

    def run(self, stop: threading.Event) -> None:
        """Ask until ``stop`` is set."""
        wake_at(stop, self._changed)
        while True:
            self._changed.clear()  # first: the end of the process must not be missed
            if stop.is_set():
                return
            self._clock.wait(self._changed, self.round())

    def round(self) -> float:
        """Ask each hub that has a notebook to lead to; returns the seconds until the next round."""
        now = self._clock.monotonic()
        waiting = self._returned.waiting
        foreign = [one.uid for one in waiting if not any(a.hub.has(one.namespace) for a in self._hubs)]
        self._returned.settle(foreign)
        late = [one for one in waiting if now - one.since > FOR and one.uid not in foreign]
        if self._leads():
            self._leave(late)
            for state in self._hubs:
                self._check(state)
        else:
            self._returned.settle(one.uid for one in late)
        return EVERY if self._returned.waiting else REST

    def _check(self, state: _HubState) -> None:
        waiting = [one for one in self._returned.waiting if state.hub.has(one.namespace)]
        if not waiting or self._clock.monotonic() < state.due:
            return
        try:
            state.api.check_routes()
            hosts = state.api.hosts()
        except HubError as error:
            self._failures.inc()
            if str(error) != state.problem:
                log.warning("a hub could not be told that a notebook is back", error=str(error))
            state.problem, state.due = str(error), self._clock.monotonic() + state.pauses.next()
            return
        state.problem, state.due = "", 0.0
        state.pauses.reset()
        routed = [one for one in waiting if one.address in hosts]
        self._returned.settle(one.uid for one in routed)
        for one in routed:
            self._outcomes.labels(outcome="routed").inc()
            log.info("a hub leads to a notebook that came back", uid=one.uid, namespace=one.namespace)

    def _leave(self, late: list[Returned]) -> None:
        self._returned.settle(one.uid for one in late)
        for one in late:
            self._outcomes.labels(outcome="left").inc()
            log.warning(
                "no hub leads to a notebook that came back: its own checks of routes must find it",
                uid=one.uid,
                namespace=one.namespace,
                hint="see c.Spawner.poll_interval and c.JupyterHub.last_activity_interval",
            )
