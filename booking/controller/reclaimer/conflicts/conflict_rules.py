"""Keeps a device from everybody, by a DeviceTaintRule, from when two claims have it until none has it.

Without it kube-scheduler would count such a device as free once one of the two has given it back, and give
it to one pod after the other, none of which would be bound. All pods of its claims are told by an Event.
Called only while all kinds are known (law L6): nothing is removed because claims are not seen.
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import structlog

from booking.controller.reclaimer.conflicts.spoiled_devices import given_twice, rule_for, spoiled
from booking.controller.reclaimer.context import ReclaimerContext
from booking.controller.reclaimer.recent_requests import RecentRequests
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import event_reasons
from cluster.kube.errors import ApiError, Conflict, NotFound
from cluster.kube.resources import TAINT_RULES
from cluster.objects.claims import Place, TaintRule
from cluster.objects.pods import Pod

log = structlog.get_logger(__name__)

SEEN_WITHIN: Final = 5.0
"""Seconds within which our watch delivers the claims for whose devices an earlier process wrote rules."""


class ConflictRules:
    """Writes and removes the rules. Not thread-safe."""

    def __init__(self, context: ReclaimerContext, driver: str) -> None:
        """Args: driver: the name of our driver of claims."""
        self._context = context
        self._kube, self._clock = context.kube, context.clock
        self._driver = driver
        self._requests = RecentRequests(context.clock)
        self._wanted: frozenset[Place] = frozenset()
        """What was spoiled in the last pass."""
        self._removed: dict[str, str] = {}
        """Name -> uid of a rule that we removed, while our watch still shows it."""
        self._useless: dict[str, float] = {}
        """Name of another process's rule -> since when no claim has its device; monotonic seconds."""
        self._told: set[tuple[str, Place]] = set()
        """(Uid, device) of pods that have been told."""

    def reconcile(self, snapshot: ReclaimerSnapshot) -> None:
        """Write the rules that are missing, and remove those of devices that nobody has any more."""
        rules = self._standing(snapshot)
        if not rules and not snapshot.conflicts:
            self._wanted, self._useless, self._told = frozenset(), {}, set()
            return
        views = snapshot.node_snapshots.views
        twice = given_twice(views, snapshot.conflicts)
        wanted = spoiled(twice, views, rules)
        for place in sorted(wanted - rules.keys()):
            self._guarded(place, partial(self._write, place))
        useless = {place: rules[place] for place in sorted(rules.keys() - wanted)}
        names = {rule.metadata.name for rule in useless.values()}
        self._useless = {name: since for name, since in self._useless.items() if name in names}
        for place, rule in useless.items():
            if self._is_over(place, rule):
                self._guarded(place, partial(self._remove, rule))
        self._wanted = wanted
        self._tell(twice, snapshot)

    def _standing(self, snapshot: ReclaimerSnapshot) -> dict[Place, TaintRule]:
        """The rules that are there, without those that we removed and that our watch still shows."""
        shown = snapshot.taint_rules
        self._removed = {
            name: uid
            for name, uid in self._removed.items()
            if name in shown and shown[name].metadata.uid == uid
        }
        return {
            place: rule
            for name, rule in shown.items()
            if name not in self._removed and (place := rule.spoils(self._driver))
        }

    def _is_over(self, place: Place, rule: TaintRule) -> bool:
        """Whether no claim has the device: of another process's rule, also that none is merely unknown yet.

        Rules and claims come by two watches.
        """
        now = self._clock.monotonic()
        since = self._useless.setdefault(rule.metadata.name, now)
        return place in self._wanted or now - since >= SEEN_WITHIN

    def _guarded(self, place: Place, step: Callable[[], None]) -> None:
        try:
            step()
        except ApiError as error:
            self._context.failures.note("rule for a device that was given twice", "/".join(place), error)

    def _tell(self, twice: frozenset[Place], snapshot: ReclaimerSnapshot) -> None:
        """An Event on each pod whose claims have such a device; once, as long as this process runs."""
        had = [
            (pod, (one.node, one.device))
            for pod in snapshot.pods.values()
            for one in (pod.claims.held if twice and pod.claims else ())
            if (one.node, one.device) in twice
        ]
        for pod, place in had:
            if (pod.metadata.uid, place) not in self._told:
                self._context.write_event(pod, event_reasons.GPU_GIVEN_TWICE, message(pod, place))
        self._told = {(pod.metadata.uid, place) for pod, place in had}

    def _write(self, place: Place) -> None:
        body = rule_for(place, self._driver)
        if not self._requests.is_due(body["metadata"]["name"]):
            return
        try:
            self._kube.create(TAINT_RULES, body)
        except Conflict:
            return  # it stands already
        node, device = place
        log.warning(
            "a device was given to two claims: no new pod gets it until it is free", node=node, device=device
        )

    def _remove(self, rule: TaintRule) -> None:
        name, uid = rule.metadata.name, rule.metadata.uid
        if not self._requests.is_due(uid):
            return
        with suppress(Conflict, NotFound):  # another one has its name, or it is gone
            self._kube.delete(TAINT_RULES, name, uid=uid)
        self._removed[name] = uid
        where = rule.spec.device_selector
        log.info("a device that was given twice is free", node=where.pool, device=where.device)


def message(pod: Pod, place: Place) -> str:
    """What is said to the owner of a pod with a device that another claim has, too."""
    node, device = place
    has_begun = pod.status.phase == "Running"
    means = "This pod keeps it." if has_begun else "Only one pod at a time has it, and this one does not run."
    return (
        f"GPU {device} of node {node} was given to this pod's claim and to another one."
        f" {means} No new pod gets it until it is free."
    )
