"""One world: an API server in memory, every part of the product, the parts of Kubernetes around it, people.

Everything runs in one thread by virtual time, so that the same scenario gives the same history each time. The
parts of the product are the real ones; ``kubelet``, ``scheduler``, ``controllers`` and ``person`` play the
others. What is due next is done next; where nothing is going on, time leaps.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from booking.eviction_settings import WARNINGS
from booking.policy.limits import Limits
from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import Attributes, FakeKube
from cluster.kube.errors import Refusal, Request, refused
from cluster.kube.interface import Selection
from cluster.kube.resources import BOOKINGS, NODES, POD_TEMPLATES, PODS, WHOLE_PODS, WholePod
from cluster.objects.bookings import Booking
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from deviceplugin.allocation.pod_devices import PodDevices
from tests.fakes.objects import EPOCH, a100
from tests.laws.changes import Maker
from tests.laws.memory import watch_memory
from tests.scenarios.agent import Agent
from tests.scenarios.controller import Controller
from tests.scenarios.controllers import Controllers
from tests.scenarios.extender import Extender
from tests.scenarios.kubelet import Kubelet
from tests.scenarios.loop import Life, Loop
from tests.scenarios.part import RESTARTED_AFTER, Interruption, NoAnswerError, Part
from tests.scenarios.person import NAMESPACE, Person
from tests.scenarios.restarting import restarted
from tests.scenarios.scheduler import Scheduler
from tests.scenarios.server import Server

Json = dict[str, Any]

PRIORITIES: Final = {names.BOOKED_CLASS: 1_000_000_000, names.OPPORTUNISTIC_CLASS: 0}
QUIET_AFTER: Final = 2.6
"""Seconds without a change after which nothing seems to be going on."""
FIRST_LEAP: Final = 4.0
CAREFUL_LEAP: Final = 10.0
"""While somebody is dead: others draw conclusions from silence of 15 s and more."""
LONGEST_LEAP: Final = 24 * 3600.0
EVENTS_WITHIN: Final = 1.0
"""Seconds in which whatever was written has reached everybody who is well."""
BOOKMARKS_EVERY: Final = 55.0
IGNORED: Final = frozenset({"leases", "events", "csistoragecapacities"})
"""Kinds whose changes are not a sign that something is going on."""


class World:
    """Nodes with GPUs, all parts, alice and bob."""

    def __init__(
        self,
        folder: Path,
        nodes: Mapping[str, tuple[Device, ...]] | None = None,
        *,
        replicas: int = 1,
        policy: Limits | None = None,
        leeway: float = 0.1,
        **settings: Any,
    ) -> None:
        """Everything is started and well when it returns.

        Args:
            folder: for the booking database.
            nodes: name -> GPUs; by default two nodes with two A100s each.
            replicas: of the controller.
            policy: of the booking server.
            leeway: seconds by which the events of a decider may be late.
            settings: of the controller, e.g. ``notice_seconds``.
        """
        self.clock = FakeClock(EPOCH)
        self.loop = Loop(self.clock)
        self.kube = FakeKube(self.clock)
        self.kube.admission = self._admitted
        self.kube.on_change(self._changed)
        self.laws = watch_memory(self.kube, self.clock, leeway=leeway, maker=self._maker)
        self.caller: Part | None = None
        """Who is asking the API server for something at this moment."""
        self.interruptions: list[Interruption] = []
        self.is_unfinished = False
        """Whether the test ends while somebody has still to come back."""
        self.is_compared = False
        """Whether it was the same after a restart as before it (law L9)."""
        self.is_away = False
        """Whether the API server answers nobody."""
        self._life = Life()
        self._stirred = 0.0
        self._listed: dict[str, tuple[Pod, ...]] = {}
        self._leap = FIRST_LEAP
        self._unsettled: bool | None = None
        devices = nodes or {name: tuple(a100(n, name) for n in range(2)) for name in ("n0", "n1")}
        self.controllers = Controllers(self, "controllers")
        self.server = Server(self, "server", folder / "bookings.db", policy or Limits())
        replica = [Controller(self, f"controller-{n}", **settings) for n in range(replicas)]
        self.controller = replica[0]
        self.replicas = tuple(replica)
        self.extender = Extender(self, "extender")
        self.scheduler = Scheduler(self, "scheduler", self.extender)
        self.kubelets = {name: Kubelet(self, name) for name in devices}
        self.agents = {name: Agent(self, self.kubelets[name], found) for name, found in devices.items()}
        self.alice, self.bob = Person(self, "alice"), Person(self, "bob")
        for name in devices:
            self._add_node(name)
        for part in self.parts.values():
            part.start()
        self.loop.every(BOOKMARKS_EVERY, self._bookmark, self._life, is_sign_of_life=True)
        self.until(self.is_ready, "every part is ready")

    @property
    def parts(self) -> dict[str, Part]:
        """Every process, by name."""
        found: list[Part] = [self.controllers, *self.kubelets.values(), *self.agents.values()]
        found += [self.server, *self.replicas, self.extender, self.scheduler]
        return {part.name: part for part in found}

    def close(self) -> None:
        """Everything is over; files are closed."""
        for part in self.parts.values():
            part.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failed: object, *_: object) -> None:
        try:
            if failed is None:
                (self.laws.check if self.is_unfinished else self.laws.finish)()
                self.is_compared = restarted(self)
                self.laws.check()
        finally:
            self.close()

    # --- time ------------------------------------------------------------------------------------------
    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        self._stir()
        end = self.loop.now + seconds
        while self._step(end):
            pass

    def until(self, condition: Callable[[], object], what: str, *, within: float = 60.0) -> None:
        """Let time pass until something is true.

        Raises:
            AssertionError: it did not become true.
        """
        self._stir()
        end = self.loop.now + within
        while not condition():
            if not self._step(end):
                assert condition(), f"Not within {within:g} s: {what}.\n{self.describe()}"
                return

    def _stir(self) -> None:
        """Something may follow from what was just done."""
        self._stirred, self._leap = self.loop.now, FIRST_LEAP

    def _step(self, end: float) -> bool:
        if self._is_quiet():
            all_live = all(part.life.alive for part in self.parts.values())
            leap = self._leap if all_live else min(self._leap, CAREFUL_LEAP)
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

    def _changed(self, change: Any) -> None:
        if change.plural not in IGNORED:
            self._stir()
            self._listed.clear()
            self._unsettled = None
        if hasattr(self, "alice"):
            for part in self.parts.values():
                if part.life.alive:
                    part.expect_events(change.plural)

    def _bookmark(self) -> None:
        self.kube.bookmark()
        for part in self.parts.values():
            if part.life.alive:
                part.expect_events()

    # --- faults ----------------------------------------------------------------------------------------
    def kill(self, name: str, *, back_after: float | None = RESTARTED_AFTER) -> None:
        """A part dies; another process takes its place, unless ``back_after`` is None."""
        part = self.parts[name]
        self.laws.fault(f"{name} is killed")
        part.kill()
        if back_after is not None:
            self.loop.after(back_after, lambda: self._start(part), self._life)

    def restart(self, part: Part) -> None:
        """It has died by itself, in the middle of something."""
        self.kill(part.name)

    def start(self, name: str) -> None:
        """A part that was killed starts again."""
        self._start(self.parts[name])

    def _start(self, part: Part) -> None:
        if not part.life.alive:
            self.laws.fault(f"{part.name} starts")
            part.start()
            self._stir()

    def pause(self, name: str, seconds: float) -> None:
        """A part is stopped (SIGSTOP), then goes on."""
        self.laws.fault(f"{name} is paused")
        self.parts[name].life.resumes = self.loop.now + seconds
        self.loop.after(seconds, lambda: self.laws.fault(f"{name} goes on"), self._life)

    def lag(self, name: str, seconds: float, *, kind: str | None = None) -> None:
        """A part gets all events, or those of one kind, so much later."""
        part = self.parts[name]
        self.laws.fault(f"{name} lags by {seconds:g} s{f' with {kind}' if kind else ''}")
        if kind is None:
            part.lag = seconds
        else:
            part.lags[kind] = seconds
        part.expect_events()

    def cut(self, name: str, *, cut: bool = True) -> None:
        """A part cannot reach the API server, or can again."""
        self.laws.fault(f"{name} is {'cut off' if cut else 'connected again'}")
        self.parts[name].is_cut = cut

    def away(self, seconds: float) -> None:
        """The API server answers nobody for so long."""
        self.laws.fault("the API server is away")
        self.is_away = True
        self.run(seconds)
        self.is_away = False
        self.laws.fault("the API server is back")

    def spoil_database(self, *, spoilt: bool = True) -> None:
        """The booking database answers with errors, or works again."""
        self.laws.fault(f"the booking database {'cannot be used' if spoilt else 'can be used again'}")
        (self.server.spoil if spoilt else self.server.mend)()

    # --- what the API server does ----------------------------------------------------------------------
    def _admitted(self, attributes: Attributes) -> Json:
        """Priority and webhook, as the API server calls them."""
        if attributes.plural != PODS.plural:
            return attributes.obj
        pod = self._webhook(attributes)
        class_name = pod["spec"].get("priorityClassName")
        priority = PRIORITIES.get(class_name, 0)
        scheduler = pod["spec"].get("schedulerName") or "default-scheduler"
        return {**pod, "spec": {**pod["spec"], "priority": priority, "schedulerName": scheduler}}

    def _webhook(self, attributes: Attributes) -> Json:
        why = "no endpoints available"
        for replica in self.replicas:
            try:
                return replica.reviewed(
                    attributes.obj,
                    namespace=attributes.namespace or "",
                    user=attributes.user,
                    dry_run=attributes.dry_run,
                )
            except NoAnswerError as error:
                why = str(error)
        message = f'failed calling webhook "{names.WEBHOOK}": {why}'
        raise refused(
            Request("POST", "/api/v1/pods"), Refusal(code=500, reason="InternalError", message=message)
        )

    def _add_node(self, name: str) -> None:
        labels = {"kubernetes.io/hostname": name}
        ready = {"conditions": [{"type": "Ready", "status": "True"}]}
        self.kube.put(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": ready})

    def watch_kubelet(self, node: str, holdings: PodDevices) -> None:
        """The law watcher sees the kubelets' checkpoints."""
        self.laws.kubelet(node, holdings)

    def _maker(self) -> Maker | None:
        return self.caller.known() if self.caller else None

    # --- what can be seen ------------------------------------------------------------------------------
    def read(self, whole: WholePod) -> Pod:
        """The pod as our readers see it."""
        return msgspec.convert(msgspec.to_builtins(whole), Pod)

    def pods(self, *, namespace: str = NAMESPACE) -> list[Pod]:
        """As stored."""
        if namespace not in self._listed:
            self._listed[namespace] = self.kube.list(PODS, Selection(namespace=namespace)).items
        return list(self._listed[namespace])

    def pod(self, name: str, *, namespace: str = NAMESPACE) -> Pod | None:
        """As stored, None when there is none."""
        return next((p for p in self.pods(namespace=namespace) if p.metadata.name == name), None)

    def whole(self, name: str, *, namespace: str = NAMESPACE) -> WholePod:
        """With nothing left out."""
        return self.kube.get(WHOLE_PODS, name, namespace=namespace)

    def bookings(self) -> Iterable[Booking]:
        """The Booking objects."""
        return self.kube.list(BOOKINGS).items

    def templates(self) -> int:
        """How many comebacks are under way."""
        return len(self.kube.list(POD_TEMPLATES).items)

    def at(self, **span: float) -> Any:
        """An instant so far after the beginning: ``days=1``."""
        return EPOCH + timedelta(**span)

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
            and self.extender._unready_reason() is None
            and all(node.metadata.annotation(names.INVENTORY) for node in self.kube.list(NODES).items)
        )
