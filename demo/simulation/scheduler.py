"""kube-scheduler, as far as our pods see it: a queue by priority, a few filters, the extender's verbs.

Source: kube-scheduler 1.37. A pod that finds no node waits until something happens: after a rejection by
NodeResourcesFit until GPUs become free; after one by the extender for any change of a pod, a node or a
CSIStorageCapacity; after an error 1 s and more; in any case not longer than five minutes.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from cluster import names
from cluster.decide.node_fit import node_rejection
from cluster.kube.errors import ApiError
from cluster.kube.leader_election import LeaderElector
from cluster.kube.reflector import Reflector
from cluster.kube.resources import NODES, PODS, RESOURCE_CLAIMS, TAINT_RULES
from cluster.objects.claims import ResourceClaim, TaintRule
from cluster.objects.demand import demand
from cluster.objects.meta import Meta
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod, container_needs, is_live, is_terminal
from cluster.objects.quantity import parse_count
from demo.simulation.claims import Allocator
from demo.simulation.extender import SCHEDULER, Extender
from demo.simulation.part import NoAnswerError, Part
from demo.simulation.surroundings import Surroundings
from extender.binding.bind import PATIENCE
from extender.pending.requeue import REQUEUE_TRIGGERS

DEFAULT: Final = "default-scheduler"
EXTENDER: Final = "http://127.0.0.1:8880/filter"
"""What it names when the extender does not answer."""
IGNORED: Final = frozenset({names.SHARED_RESOURCE})
"""``ignoredResources`` of NodeResourcesFit: of shares only the extender knows how much is left."""
CYCLE: Final = 0.005
"""Seconds that one pod takes."""
CHECK_EVERY: Final = 0.01
"""Seconds after which a bind checks whether it is its turn; the extender itself is called."""
FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 10.0
FLUSHED_AFTER: Final = 300.0
"""Seconds that a pod waits without being tried."""

State = Literal["active", "backoff", "fit", "extender", "claims", "binding"]


@dataclass
class Entry:
    """A pod in the queue."""

    pod: Pod
    state: State = "active"
    tried: float = 0.0
    errors: int = 0
    lacks_devices: bool = False
    """Whether its claims could not be met on some of the nodes, whoever has rejected the others."""


@dataclass
class Kind:
    """A handler that notifies the scheduler of one kind."""

    notify: Any
    objects: dict[str, Any] = field(default_factory=dict)

    def replace(self, items: Sequence[Any], _version: str, /) -> None:
        """All of them."""
        for uid in self.objects.keys() - {item.metadata.uid for item in items}:
            self.remove(self.objects[uid])
        for item in items:
            self.upsert(item)

    def upsert(self, item: Any, /) -> None:
        """New or changed."""
        before = self.objects.get(item.metadata.uid)
        self.objects[item.metadata.uid] = item
        self.notify(before, item)

    def remove(self, item: Any, /) -> None:
        """Gone."""
        before = self.objects.pop(item.metadata.uid, item)
        self.notify(before, None)


class Scheduler(Part):
    """The profiles ``gpu-booking`` and ``default-scheduler`` in one process."""

    latency = 0.01
    user = "system:kube-scheduler"

    def __init__(self, world: Surroundings, name: str, extender: Extender) -> None:
        super().__init__(world, name)
        self._extender = extender
        self.attempts = 0
        """Scheduling cycles so far: a hot loop shows here."""

    def build(self) -> None:
        """A new process."""
        self._queue: dict[str, Entry] = {}
        self._assumed: dict[str, tuple[str, Pod]] = {}
        self._pods, self._nodes, capacities = Kind(self._on_pod), Kind(self._on_node), Kind(self._on_requeue)
        self._allocator = Allocator(self.kube)
        claims, rules = Kind(self._on_claim), Kind(self._on_rule)
        self._busy = False
        self._elector = LeaderElector(
            self.kube, self.clock, name=names.SCHEDULER_LEASE, holder=f"{SCHEDULER}{self.lives}"
        )
        self.follow(
            Reflector(self.kube, PODS, self._pods, self.clock),
            Reflector(self.kube, NODES, self._nodes, self.clock),
            Reflector(self.kube, REQUEUE_TRIGGERS, capacities, self.clock, namespace=names.NAMESPACE),
        )
        if self._extender.books_claims:
            self.follow(
                Reflector(self.kube, RESOURCE_CLAIMS, claims, self.clock),
                Reflector(self.kube, TAINT_RULES, rules, self.clock),
            )
        self.every(2.0, self._elect, is_sign_of_life=True)
        self.every(30.0, self._flush, first=30.0)

    def on_events(self) -> None:
        """Go on with the queue."""
        if not self._busy and any(entry.state == "active" for entry in self._queue.values()):
            self._busy = True
            self.after(CYCLE, self._cycle)

    @property
    def leads(self) -> bool:
        """Whether it schedules."""
        return self._elector.leads()

    # --- what happens ----------------------------------------------------------------------------------
    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        pod = after or before
        if pod is None:
            return
        uid = pod.metadata.uid
        if after is None or after.spec.node_name or not is_live(after) or after.spec.scheduling_gates:
            self._queue.pop(uid, None)
        elif after.spec.scheduler_name in (names.SCHEDULER_NAME, DEFAULT):
            entry = self._queue.setdefault(uid, Entry(after, tried=self.world.loop.now))
            entry.pod = after
        if after is None or after.spec.node_name or is_terminal(after):
            self._assumed.pop(uid, None)
        frees = before is not None and bool(before.spec.node_name) and not is_terminal(before)
        gone = after is None or is_terminal(after)
        self._move("extender", *(("fit",) if frees and gone else ()))

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        if before is None or after is None or (before.spec, before.status) != (after.spec, after.status):
            self._move("extender", "fit")
        elif before.metadata.annotations != after.metadata.annotations:
            self._move("extender")

    def _on_requeue(self, _before: Any, _after: Any) -> None:
        self._move("extender")

    def _on_claim(self, before: ResourceClaim | None, after: ResourceClaim | None) -> None:
        if after:
            self._allocator.note_claim(after)
        elif before:
            self._allocator.note_claim(before, is_gone=True)
        self._move("claims")

    def _on_rule(self, before: TaintRule | None, after: TaintRule | None) -> None:
        if before:
            self._allocator.rules.pop(before.metadata.name, None)
        if after:
            self._allocator.rules[after.metadata.name] = after
        self._move("claims")

    def _move(self, *states: State) -> None:
        for entry in self._queue.values():
            by_claims = entry.state == "extender" and entry.lacks_devices
            if entry.state in states or (by_claims and "claims" in states):
                entry.state = "active"

    def _flush(self) -> None:
        for entry in self._queue.values():
            if self.world.loop.now - entry.tried > FLUSHED_AFTER:
                entry.state = "active"
        self.on_events()

    def _elect(self) -> None:
        try:
            self._elector.attempt()
        except ApiError:
            self.after(0.5, self._elect)
        self.on_events()

    # --- one pod after the other -----------------------------------------------------------------------
    def _cycle(self) -> None:
        self._busy = False
        active = [entry for entry in self._queue.values() if entry.state == "active"]
        if not active or not self._elector.leads():
            return
        entry = min(active, key=lambda e: (-(e.pod.spec.priority or 0), e.tried))
        self.attempts += 1
        entry.tried = self.world.loop.now
        try:
            self._schedule(entry)
        except NoAnswerError as error:
            self._failed(entry, f'Post "{EXTENDER}": {error}')
        except ApiError as error:  # of a claim
            self._not_bound(entry, str(error))
        self.on_events()

    def _schedule(self, entry: Entry) -> None:
        pod, needed = entry.pod, _demand(entry.pod)
        suitable, short, used = [], Counter[str](), self._used()
        for node in sorted(self._nodes.objects.values(), key=lambda node: node.metadata.name):
            if node_rejection(pod, node) is not None:
                continue
            counted = {key: count for key, count in needed.items() if key not in IGNORED}
            lacking = {key for key, count in counted.items() if count > _free(node, key, used)}
            if lacking:
                short.update(lacking)
            else:
                suitable.append(node.metadata.name)
        claims = self._allocator.claims_of(pod) if pod.spec.resource_claims else []
        choices = self._allocator.choices(claims) if claims else {}
        if claims is None or (claims and not choices.keys() & set(suitable)):
            self._rejected(entry, "claims", "cannot allocate all claims. Preemption is not helpful.")
            return
        entry.lacks_devices = bool(claims) and not choices.keys() >= set(suitable)
        suitable = [name for name in suitable if not claims or name in choices]
        if not suitable:
            why = ", ".join(f"{n} Insufficient {key}" for key, n in short.items()) or "no node suits the pod"
            self._rejected(entry, "fit", f"0/{len(self._nodes.objects)} nodes are available: {why}.")
            return
        is_ours = bool(needed) or _claims_of_ours(pod)
        if is_ours:
            suitable = self._filtered(entry, suitable)
            if not suitable:
                if entry.lacks_devices and self._allocator.deallocate(claims):
                    entry.state = "claims"
                return
        node = self._best(pod, suitable, needed=is_ours)
        if claims:
            self._allocator.write(claims, choices[node], pod)
        self._bind(entry, node)

    def _filtered(self, entry: Entry, suitable: list[str]) -> list[str]:
        """What the extender leaves of the nodes; if that is none, the pod is rejected."""
        answer = self._extender.filter(entry.pod, suitable)
        if answer.error:
            raise NoAnswerError(answer.error)
        if not answer.node_names:
            summary = ", ".join(sorted(set(answer.failed_and_unresolvable_nodes.values())))
            self._rejected(entry, "extender", f"0/{len(self._nodes.objects)} nodes are available: {summary}.")
        return list(answer.node_names or ())

    def _best(self, pod: Pod, suitable: list[str], *, needed: bool) -> str:
        if len(suitable) == 1 or not needed:
            return suitable[0]
        scores = self._extender.prioritize(pod, suitable)
        return max(sorted(suitable), key=lambda name: scores.get(name, 0))

    def _bind(self, entry: Entry, node: str) -> None:
        pod, uid = entry.pod, entry.pod.metadata.uid
        is_ours = bool(_demand(pod)) or _claims_of_ours(pod)
        if is_ours and self._extender.awaits_answer(node):
            entry.state = "binding"
            self._assumed[uid] = (node, pod)
            self._bind_in_turn(entry, node, self.world.loop.now + PATIENCE)
            return
        error = self._extender.bind(pod, node) if is_ours else self._bind_plainly(pod, node)
        if error:
            self._not_bound(entry, error)
        elif self._queue.pop(uid, None):
            self._assumed[uid] = (node, pod)

    def _bind_in_turn(self, entry: Entry, node: str, until: float) -> None:
        """A bind that waits next to the queue, as long as the extender has it wait."""
        pod, uid = entry.pod, entry.pod.metadata.uid
        if self._queue.get(uid) is not entry:
            return
        try:
            if self._extender.awaits_answer(node) and self.world.loop.now < until:
                self.after(CHECK_EVERY, lambda: self._bind_in_turn(entry, node, until))
                return
            error = self._extender.bind(pod, node)
        except NoAnswerError as no_answer:
            error = f'Post "{EXTENDER}": {no_answer}'
        if error:
            self._assumed.pop(uid, None)
            self._not_bound(entry, error)
        else:
            self._queue.pop(uid)

    def _bind_plainly(self, pod: Pod, node: str) -> str:
        meta = pod.metadata
        body = {"metadata": {"name": meta.name, "uid": meta.uid}, "target": {"kind": "Node", "name": node}}
        try:
            self.kube.create_subresource(PODS, "binding", body, name=meta.name, namespace=meta.namespace)
        except ApiError as error:
            return str(error)
        return ""

    # --- no --------------------------------------------------------------------------------------------
    def _rejected(self, entry: Entry, by: State, message: str) -> None:
        entry.state, entry.errors = by, 0
        self._note(entry.pod, "Unschedulable", message)

    def _not_bound(self, entry: Entry, message: str) -> None:
        """The plugin's Unreserve, and the pod is tried again."""
        with suppress(ApiError):  # as the real one, which does it at the next try
            self._allocator.unreserve(entry.pod)
        self._failed(entry, message)

    def _failed(self, entry: Entry, message: str) -> None:
        entry.state = "backoff"
        entry.errors += 1
        pause = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2 ** (entry.errors - 1))

        def again() -> None:
            if entry.state == "backoff":
                entry.state = "active"
                self.on_events()

        self.after(pause, again)
        self._note(entry.pod, "SchedulerError", message)

    def _note(self, pod: Pod, reason: str, message: str) -> None:
        """Write the condition where it has changed; nobody waits for it."""
        conditions = pod.status.conditions or ()
        known = next((c for c in conditions if c.type == "PodScheduled"), None)
        if known and (known.reason, known.message) == (reason, message):
            return
        scheduled = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        others = [
            {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message}
            for c in conditions
            if c.type != "PodScheduled"
        ]
        self.after(0.0, lambda: self._write(pod.metadata, {"conditions": [*others, scheduled]}))

    def _write(self, meta: Meta, status: dict[str, Any]) -> None:
        body = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            self.kube.patch(PODS, meta.name, body, namespace=meta.namespace, subresource="status")
        except ApiError:
            return

    # --- what it knows of nodes ------------------------------------------------------------------------
    def _used(self) -> Counter[tuple[str, str]]:
        """(node, resource) -> devices that pods have there, or are about to have."""
        used: Counter[tuple[str, str]] = Counter()
        bound = (pod for pod in self._pods.objects.values() if pod.spec.node_name and not is_terminal(pod))
        placed = [(pod.spec.node_name, pod) for pod in bound]
        for on, pod in (*placed, *self._assumed.values()):
            used.update({(on, resource): count for resource, count in _demand(pod).items()})
        return used


def _free(node: Node, resource: str, used: Counter[tuple[str, str]]) -> int:
    allocatable = parse_count(str((node.status.allocatable or {}).get(resource, 0)))
    return allocatable - used[node.metadata.name, resource]


def _demand(pod: Pod) -> dict[str, int]:
    """Resource -> devices that it needs; none of which it needs 0."""
    return {key: count for key, count in demand(container_needs(pod)).items() if count}


def _claims_of_ours(pod: Pod) -> bool:
    """Whether the extender is asked about a pod for its claims: our profile then names no resources."""
    return bool(pod.spec.resource_claims) and pod.spec.scheduler_name == names.SCHEDULER_NAME
