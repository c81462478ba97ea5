"""An API server in memory, every part of the product, and the parts of Kubernetes around it, in one thread.

The parts of the product are the real ones; ``kubelet``, ``scheduler`` and ``controllers`` play the others.
Time is virtual: what is due next is done next, and where nothing is going on, time leaps. Whoever drives it
says how far: a test as far as it likes, ``demo.pace`` as far as real time has come.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from booking.eviction.settings import WARNINGS
from booking.policy.limits import Limits
from cluster import names
from cluster.fake.clock import START, FakeClock
from cluster.fake.server import Attributes, FakeKube
from cluster.kube.errors import Refusal, Request, refused
from cluster.kube.interface import Selection
from cluster.kube.resources import (
    BOOKINGS,
    NODES,
    POD_TEMPLATES,
    PODS,
    RESOURCE_CLAIMS,
    WHOLE_PODS,
    WholePod,
)
from cluster.objects.bookings import Booking
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod, is_live
from demo.simulation.agent import Agent
from demo.simulation.claims import ClaimController
from demo.simulation.controller import Controller
from demo.simulation.controllers import Controllers
from demo.simulation.extender import Extender
from demo.simulation.kubelet import Kubelet
from demo.simulation.loop import Life, Loop
from demo.simulation.part import NoAnswerError, Part
from demo.simulation.scheduler import Scheduler
from demo.simulation.server import Server
from demo.simulation.surroundings import Author, Interruption

Json = dict[str, Any]

PRIORITIES: Final = {
    names.BOOKED_CLASS: 1_000_000_000,
    names.RESERVATION_CLASS: 1_000_000_000,
    names.OPPORTUNISTIC_CLASS: 0,
}
QUIET_AFTER: Final = 2.6
"""Seconds without a change after which nothing seems to be going on."""
FIRST_LEAP: Final = 4.0
CAREFUL_LEAP: Final = 10.0
"""While somebody is dead: others draw conclusions from silence of 15 s and more."""
LENDING_LEAP: Final = 60.0
"""While somebody waits and GPUs are given back for fair shares: when that is due is decided by each round."""
LONGEST_LEAP: Final = 24 * 3600.0
EVENTS_WITHIN: Final = 1.0
"""Seconds in which whatever was written has reached everybody who is well."""
BOOKMARKS_EVERY: Final = 55.0
STARTS_WITHIN: Final = 60.0
"""Seconds, of virtual time, until every part is ready."""
IGNORED: Final = frozenset({"leases", "events", "csistoragecapacities", "configmaps"})
"""Kinds whose changes are not a sign that something is going on."""


class NotSoError(AssertionError):
    """What was waited for did not become true; the message describes every pod."""


class Simulation:
    """Nodes with GPUs, and all parts."""

    def __init__(
        self,
        folder: Path,
        devices: Mapping[str, tuple[Device, ...]],
        *,
        start: datetime = START,
        replicas: int = 1,
        policy: Limits | None = None,
        **settings: Any,
    ) -> None:
        """Everything is built; ``begin`` starts it.

        Args:
            folder: for the booking database.
            devices: node -> its GPUs.
            start: what time it is.
            replicas: of the controller.
            policy: of the booking server.
            settings: of the controller, e.g. ``notice_seconds``.
        """
        self.clock = FakeClock(start)
        self.loop = Loop(self.clock)
        self.kube = self.new_kube()
        self.kube.admission = self._admitted
        self.kube.on_change(self.changed)
        self._callers = threading.local()
        self.interruptions: list[Interruption] = []
        self.is_away = False
        """Whether the API server answers nobody."""
        self.life = Life()
        """Of what belongs to no part."""
        self._stirred = 0.0
        self._listed: dict[str, tuple[Pod, ...]] = {}
        self._leap = FIRST_LEAP
        self._unsettled: bool | None = None
        self._waits: bool | None = None
        self._everybody: dict[str, Part] = {}
        self.devices = devices
        self.controllers = Controllers(self, "controllers")
        self.claims = ClaimController(self)
        self.server = self.new_server(folder / "bookings.db", policy or Limits())
        replica = [Controller(self, f"controller-{n}", **settings) for n in range(replicas)]
        self.controller = replica[0]
        self.replicas = tuple(replica)
        self.extender = Extender(self, "extender")
        self.extender.books_claims = self.server.books_claims = bool(settings.get("book_claims"))
        self.scheduler = Scheduler(self, "scheduler", self.extender)
        self.kubelets = {name: Kubelet(self, name) for name in devices}
        self.agents = {name: self.new_agent(self.kubelets[name], found) for name, found in devices.items()}
        self._everybody = {part.name: part for part in self._in_order()}

    def new_kube(self) -> FakeKube:
        """The API server."""
        return FakeKube(self.clock)

    def new_server(self, database: Path, policy: Limits, /) -> Server:
        """The booking server."""
        return Server(self, "server", database, policy)

    def new_agent(self, kubelet: Kubelet, devices: tuple[Device, ...]) -> Agent:
        """The agent of one node."""
        return Agent(self, kubelet, devices)

    def _in_order(self) -> Iterable[Part]:
        yield self.controllers
        if self.extender.books_claims:
            yield self.claims
        yield from self.kubelets.values()
        yield from self.agents.values()
        yield self.server
        yield from self.replicas
        yield self.extender
        yield self.scheduler

    @property
    def caller(self) -> Author | None:
        """Who is asking the API server for something now, in this thread; some parts have several."""
        return getattr(self._callers, "now", None)

    @caller.setter
    def caller(self, author: Author | None) -> None:
        self._callers.now = author

    @property
    def parts(self) -> Mapping[str, Part]:
        """Every process, by name."""
        return self._everybody

    def begin(self) -> None:
        """Start everything; it is well when this returns."""
        there = {node.metadata.name for node in self.kube.list(NODES).items}
        for name in self.devices:
            if name not in there:
                self.add_node(name)
        for part in self.parts.values():
            part.start()
        self.loop.every(BOOKMARKS_EVERY, self._bookmark, self.life, is_sign_of_life=True)
        self.until(self.is_ready, "every part is ready", within=STARTS_WITHIN)

    def close(self) -> None:
        """Everything is over; files are closed."""
        for part in self.parts.values():
            part.kill()

    # --- time ------------------------------------------------------------------------------------------
    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        self._stir()
        self.go_on(seconds)

    def go_on(self, seconds: float) -> None:
        """Let so much time pass in which nobody does anything from outside."""
        end = self.loop.now + seconds
        while self._step(end):
            pass

    def until(self, condition: Callable[[], object], what: str, *, within: float = 60.0) -> None:
        """Let time pass until something is true.

        Raises:
            NotSoError: it did not become true.
        """
        self._stir()
        end = self.loop.now + within
        while not condition():
            if not self._step(end):
                if not condition():
                    raise NotSoError(f"Not within {within:g} s: {what}.\n{self.describe()}")
                return

    def _stir(self) -> None:
        """Something may follow from what was just done."""
        self._stirred, self._leap = self.loop.now, FIRST_LEAP

    def _step(self, end: float) -> bool:
        if end > self.loop.now + FIRST_LEAP / 2 and self._is_quiet():
            all_live = all(part.life.alive for part in self.parts.values())
            leap = self._leap if all_live else min(self._leap, CAREFUL_LEAP)
            leap = min(leap, LENDING_LEAP) if self._is_lending() else leap
            to = min(self.loop.now + leap, self.loop.next_single(), self._next_boundary(), end)
            if to > self.loop.now + FIRST_LEAP / 2:
                self._leap = min(4 * self._leap, LONGEST_LEAP)
                self._leap_to(to)
                return True
        return self.loop.step(end)

    def _is_quiet(self) -> bool:
        """Whether nothing but the usual rounds can happen for a while."""
        if self.loop.now - self._stirred < QUIET_AFTER or self.is_away:
            return False
        if any(part.is_troubled for part in self.parts.values()):
            return False
        led = self.scheduler.leads and any(replica.elector.leads() for replica in self.replicas)
        return led and not self._is_unsettled()

    def is_resting(self, seconds: float) -> bool:
        """Whether nobody measures seconds, and nothing but events and the usual rounds is due for so long."""
        due = min(self.loop.next_single(later_than=self.loop.now + EVENTS_WITHIN), self._next_boundary())
        return not self._is_unsettled() and due > self.loop.now + seconds

    def _is_unsettled(self) -> bool:
        """Whether somebody measures seconds: a hold, a notice, a departure."""
        if self._unsettled is None:
            pods = self.kube.list(PODS).items
            marks = (names.HOLD, names.NOTICE)
            waiting = any(
                p.metadata.deletion_timestamp or any(map(p.metadata.annotation, marks)) for p in pods
            )
            self._unsettled = waiting or bool(self.templates())
        return self._unsettled

    def _is_lending(self) -> bool:
        """Whether GPUs may be given back for fair shares: a pod waits for some."""
        if not any(replica.gives_back for replica in self.replicas):
            return False
        if self._waits is None:
            self._waits = any(not p.spec.node_name and is_live(p) for p in self.kube.list(PODS).items)
        return self._waits

    def _next_boundary(self) -> float:
        """When a booking begins or ends, or its end is announced."""
        now = self.clock.now()
        ends = [b.spec.end for b in self.bookings() if b.spec.end > now]
        announced = (end - before for end in ends for before in WARNINGS)
        instants = (i for i in (*(b.spec.start for b in self.bookings()), *ends, *announced) if i > now)
        return min(((i - now).total_seconds() + self.loop.now for i in instants), default=float("inf"))

    def _leap_to(self, to: float) -> None:
        stirred = self._stirred
        self.loop.leap(to)
        for part in self.parts.values():
            if part.life.alive:
                part.catch_up_at_once()
        if self._stirred == stirred:
            self._stirred = to - QUIET_AFTER + 0.6  # one round of everybody, then on

    def changed(self, change: Any) -> None:
        """An object has changed: whoever follows its kind learns of it."""
        if change.plural not in IGNORED:
            self._stir()
            self._listed.clear()
            self._unsettled = self._waits = None
        for part in self.followers(change.plural):
            if part.life.alive:
                part.expect_events(change.plural)

    def followers(self, _plural: str, /) -> Iterable[Part]:
        """Who may follow a kind: anybody."""
        return self.parts.values()

    def _bookmark(self) -> None:
        self.kube.bookmark()
        for part in self.parts.values():
            if part.life.alive:
                part.expect_events()

    def restart(self, part: Part) -> None:
        """It has died by itself, in the middle of something: another process takes its place."""
        part.kill()
        part.start()

    # --- what the API server does ----------------------------------------------------------------------
    def _admitted(self, attributes: Attributes) -> Json:
        """Priority and webhook, as the API server calls them."""
        if attributes.plural == RESOURCE_CLAIMS.plural and self.extender.books_claims:
            return self._webhook(attributes)
        if attributes.plural != PODS.plural:
            return attributes.obj
        pod = self._webhook(attributes)
        class_name = pod["spec"].get("priorityClassName")
        priority = PRIORITIES.get(class_name, 0)
        scheduler = pod["spec"].get("schedulerName") or "default-scheduler"
        return {**pod, "spec": {**pod["spec"], "priority": priority, "schedulerName": scheduler}}

    def _webhook(self, attributes: Attributes) -> Json:
        if attributes.namespace == names.NAMESPACE:
            return attributes.obj  # it is not asked about the product's own pods
        why = "no endpoints available"
        for replica in self.replicas:
            try:
                return replica.reviewed(
                    attributes.obj,
                    namespace=attributes.namespace or "",
                    user=attributes.user,
                    dry_run=attributes.dry_run,
                    is_claim=attributes.plural == RESOURCE_CLAIMS.plural,
                )
            except NoAnswerError as error:
                why = str(error)
        message = f'failed calling webhook "{names.WEBHOOK}": {why}'
        raise refused(
            Request("POST", "/api/v1/pods"), Refusal(code=500, reason="InternalError", message=message)
        )

    def add_node(self, name: str, annotations: Mapping[str, str] | None = None) -> None:
        """A node that is ready; with the annotations of one whose agent has been there."""
        labels = {"kubernetes.io/hostname": name}
        meta = {"name": name, "labels": labels, "annotations": dict(annotations or {})}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.kube.put(NODES, {"metadata": meta, "spec": {}, "status": ready})

    # --- what can be seen ------------------------------------------------------------------------------
    def heartbeat(self, node: str) -> None:
        """A kubelet has renewed its Lease."""
        self.controllers.heartbeat(node)

    def allocated(self, node: str) -> None:
        """A kubelet's checkpoint has changed: nobody looks at it here."""

    def read(self, whole: WholePod) -> Pod:
        """The pod as our readers see it."""
        return msgspec.convert(msgspec.to_builtins(whole), Pod)

    def pods(self, *, namespace: str) -> list[Pod]:
        """As stored."""
        if namespace not in self._listed:
            self._listed[namespace] = tuple(self.kube.list(PODS, Selection(namespace=namespace)).items)
        return list(self._listed[namespace])

    def pod(self, name: str, *, namespace: str) -> Pod | None:
        """As stored, None when there is none."""
        return next((p for p in self.pods(namespace=namespace) if p.metadata.name == name), None)

    def whole(self, name: str, *, namespace: str) -> WholePod:
        """With nothing left out."""
        return self.kube.get(WHOLE_PODS, name, namespace=namespace)

    def bookings(self) -> Iterable[Booking]:
        """The Booking objects."""
        return self.kube.list(BOOKINGS).items

    def templates(self) -> int:
        """How many comebacks are under way."""
        return len(self.kube.list(POD_TEMPLATES).items)

    def describe(self) -> str:
        """Every pod in a line."""
        lines = [f"it is {self.clock.now():%d.%m. %H:%M:%S}, {self.loop.now:.2f} s after the beginning"]
        for pod in self.kube.list(PODS).items:
            meta = pod.metadata
            messages = [c.message for c in pod.status.conditions or () if c.message]
            lines.append(
                f"{pod.key} {meta.uid} {pod.status.phase} on {pod.spec.node_name}"
                f"{' terminating' if meta.deletion_timestamp else ''} {meta.annotations}"
                f" {meta.finalizers} {messages}"
            )
        lines += [f"booking {booking.name} {booking.spec} {booking.status}" for booking in self.bookings()]
        return "\n".join(lines)

    def is_ready(self) -> bool:
        """Whether every part does its work."""
        return (
            self.server.mirror.unready_reason() is None
            and all(replica.admit.problem() is None for replica in self.replicas)
            and self.extender.unready_reason() is None
            and all(node.metadata.annotation(names.INVENTORY) for node in self.kube.list(NODES).items)
        )
