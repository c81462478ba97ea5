"""Pods whose eviction was in progress at the uninstall: each comes back, or need not leave (law L4).

The controller is gone. Its state table is run here, without any pod that needs a GPU back: a victim that is
not terminating is spared; one that is terminating leaves and comes back.
"""

from typing import Final

from booking.controller.reclaimer.evictions.api_calls import Calls
from booking.controller.reclaimer.evictions.comeback import (
    has_our_finalizer,
    is_comeback,
    next_step,
    origin_of,
    victim_of,
)
from booking.controller.reclaimer.evictions.comeback_cache import ComebackCache
from booking.controller.reclaimer.evictions.comebacks import Comebacks, EventWriter
from booking.controller.uninstall.api import everything, some, without
from booking.controller.uninstall.stopping import Report
from cluster import event_reasons, names
from cluster.kube.backoff import Random
from cluster.kube.interface import Kube
from cluster.kube.resources import POD_TEMPLATES, PODS, PodTemplate
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod, has_condition, is_terminating
from cluster.process.clock import Clock

_NO_PODS: Final[frozenset[str]] = frozenset()


class ComebackDrain:
    """Completes every comeback."""

    def __init__(
        self, kube: Kube, clock: Clock, events: EventWriter, *, report: Report, random: Random
    ) -> None:
        """Args: events: for the pods' owners; say: prints for the administrator; random: spreads attempts."""
        self._kube = kube
        self._report = report
        self._events = _RepeatedEvents(events, report)
        self._seen = ComebackCache()
        self._returning = Comebacks(Calls(kube, clock), clock, self._events, self._seen, random=random)

    def advance(self) -> str | None:
        """Advance all of them; returns a message while one is left.

        Raises:
            ApiError: the API server could not be reached.
        """
        templates, of_templates = everything(self._kube, POD_TEMPLATES)
        mine = [template for template in templates if _is_labelled(template.metadata)]
        victims = {victim_of(template) for template in mine}
        pods, of_pods = everything(self._kube, PODS)
        ours = [pod for pod in pods if _is_ours(pod) or pod.metadata.uid in victims]
        self._seen.templates.replace(mine, of_templates)
        self._seen.pods.replace(ours, of_pods)
        waiting = [self._waits(template) for template in mine if is_comeback(template)]
        waiting += [f"{pod.key} has our finalizer" for pod in ours if _is_leaving(pod)]
        self._unreadable([template for template in mine if not is_comeback(template)])
        if not waiting:
            return None
        self._returning.reconcile(_NO_PODS)
        return f"Pods were leaving, and are not back yet: {some(waiting)}."

    def _waits(self, template: PodTemplate) -> str:
        """What a remaining comeback waits for."""
        uid, meta = victim_of(template), template.metadata
        where = f"{meta.namespace}/{template.template['metadata']['name']}"
        victim = self._seen.comeback(uid, wanted=False).victim
        if victim and is_terminating(victim) and next_step(self._seen.comeback(uid, wanted=False)) == "wait":
            return f"{where} is still terminating on node {victim.spec.node_name}"
        refused = self._events.refused.get(uid)
        if refused:
            return f"{where}: {refused} (deleting PodTemplate {meta.name} gives it up)"
        return where

    def _unreadable(self, templates: list[PodTemplate]) -> None:
        for template in templates:
            meta = template.metadata
            if without(self._kube, POD_TEMPLATES, meta.name, meta.namespace):
                self._report(f"PodTemplate {meta.namespace}/{meta.name} was not readable, and is deleted.")


class _RepeatedEvents:
    """Events for the owners, repeated for the person who uninstalls."""

    def __init__(self, events: EventWriter, report: Report) -> None:
        self._events = events
        self._report = report
        self.refused: dict[str, str] = {}
        """Uid of the victim -> why its pod cannot come back yet."""

    def normal(self, about: Pod, reason: str, message: str) -> None:
        """Write an Event of type ``Normal``, and print it."""
        self._events.normal(about, reason, message)
        self._report(f"Pod {about.key}: {message}")

    def warning(self, about: Pod, reason: str, message: str) -> None:
        """Write an Event of type ``Warning``, print it, and note a refused comeback."""
        self._events.warning(about, reason, message)
        if reason == event_reasons.COMEBACK_REFUSED:
            self.refused[about.metadata.uid] = message
        self._report(f"Pod {about.key}: {message}")


def _is_leaving(pod: Pod) -> bool:
    """Whether we evict the pod, by its condition; from any other pod our finalizer may be removed."""
    by_us = has_condition(pod, names.DISRUPTION_TARGET)
    return has_our_finalizer(pod) and by_us and origin_of(pod) is None


def _is_ours(pod: Pod) -> bool:
    return has_our_finalizer(pod) or _is_labelled(pod.metadata)


def _is_labelled(meta: Meta) -> bool:
    return names.COMEBACK in (meta.labels or {})
