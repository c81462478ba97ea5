"""Comebacks in progress, advanced step by step: creating the replacement, and undoing preparations.

Used by ``pod_evictor``, which does the eviction itself.
"""

from collections import Counter
from dataclasses import replace
from typing import Final, Protocol

import structlog

from booking.controller.reclaimer.evictions.api_calls import Calls, read
from booking.controller.reclaimer.evictions.backoffs import Backoffs
from booking.controller.reclaimer.evictions.comeback import (
    Comeback,
    Step,
    has_our_finalizer,
    how,
    is_marked_for_disruption,
    next_step,
    origin_of,
    reason_in,
)
from booking.controller.reclaimer.evictions.comeback_cache import ComebackCache
from booking.controller.reclaimer.evictions.refusals import is_overload
from booking.controller.reclaimer.evictions.replacement_pod import replacement_pod
from cluster import event_reasons, names
from cluster.kube.backoff import Random
from cluster.kube.errors import (
    ApiError,
    Conflict,
    Forbidden,
    NotFound,
    StatusError,
    Unreachable,
)
from cluster.kube.resources import PodTemplate
from cluster.objects.meta import Meta
from cluster.objects.pods import Condition, Pod, container_needs, is_for_gpus, is_terminating
from cluster.process.clock import Clock

log = structlog.get_logger(__name__)

GIVEN_BY_OTHERS: Final = "it was created without, and a LimitRange or a webhook has put that in."
NEED_NOT_GO: Final = "This pod need not go after all."
ADVANCED_FOR: Final = 1.0
"""Seconds of one reconciliation. Hundreds of evictions at once take longer on a busy API server, and must not
delay pods that wait for free GPUs, or ends that are due."""
MOST_STEPS: Final = 12
"""Steps of one comeback in one reconciliation: more than the table has in a row."""
REPORTED_AFTER: Final = 4
"""Refusals in a row after which one is reported that may pass by itself: a race, or a busy API server.

A webhook refuses with the same codes, for ever.
"""
EVICTION_STEPS: Final[frozenset[Step]] = frozenset({"store", "add finalizer", "take"})
"""Steps of the eviction itself, which are not done here."""


class EventWriter(Protocol):
    """Writes Events: ``cluster.kube.events.EventRecorder``."""

    def normal(self, about: Pod, reason: str, message: str, /) -> object:
        """Write an Event of type ``Normal``: something went as it should."""
        ...

    def warning(self, about: Pod, reason: str, message: str, /) -> object:
        """Write an Event of type ``Warning``: something is wrong."""
        ...


class ComebackChange(Protocol):
    """One of our writes to a pod."""

    def __call__(self, pod: Pod, /) -> Pod:
        """Write the change; returns the pod as the API server has it then."""
        ...


class Comebacks:
    """Advances comebacks. Not thread-safe."""

    def __init__(
        self, calls: Calls, clock: Clock, events: EventWriter, seen: ComebackCache, *, random: Random
    ) -> None:
        """Args: random: spreads attempts over time."""
        self._calls = calls
        self._clock = clock
        self._events = events
        self._pauses = Backoffs(clock, random)
        self._advanced: set[str] = set()
        """Uids already handled in the current round over all comebacks."""
        self._marked: set[str] = set()
        """Uids whose template this process has marked as due: no pod was created from it before."""
        self.taken: set[str] = set()
        """Uids of pods whose eviction the API server has accepted: a watch may not show it yet."""
        self.seen = seen

    def withdraw(self, uid: str) -> None:
        """Undo what was prepared for a pod that need not leave.

        Raises:
            ApiError: the API server could not be reached, or refused.
        """
        self._advance(uid, wanted=False)

    def reconcile(self, wanted: frozenset[str]) -> None:
        """Advance all comebacks as far as possible now, for a second.

        The rest come first in the next reconciliation. A comeback that is refused is tried again after a
        pause, and does not block the others.

        Raises:
            Unreachable: the API server cannot be reached.
        """
        victims = self.seen.victims()
        self.taken &= wanted | set(victims)
        self._marked &= set(victims)
        begun = self._clock.monotonic()
        for uid in [uid for uid in victims if uid not in self._advanced] or victims:
            if self._clock.monotonic() - begun >= ADVANCED_FOR:
                return
            self._advanced.add(uid)
            if not self._pauses.is_over(uid):
                continue
            try:
                is_watched = self._advance(uid, wanted=uid in wanted)
            except Unreachable:
                raise
            except ApiError as error:
                self._refused(uid, error)
            else:
                if is_watched:
                    self._pauses.end(uid)
                else:
                    self._pauses.begin(uid)
        self._advanced.clear()

    def _advance(self, uid: str, *, wanted: bool) -> bool:
        """Advance one comeback as far as possible; whether a watch will report when there is more to do."""
        for _ in range(MOST_STEPS):
            comeback = self._known(uid, wanted=wanted)
            step = next_step(comeback)
            victim = comeback.victim
            if victim and uid in self.taken and not is_terminating(victim):
                return True  # it is by now, and the watch will report it
            if step in EVICTION_STEPS or step in ("wait", "done"):
                return victim is None or self.seen.knows(uid)
            log.info("a comeback takes its next step", uid=uid, step=step)
            if not self._do(step, uid, comeback):
                return False
        return True

    def _known(self, uid: str, *, wanted: bool) -> Comeback:
        """The cached comeback; a template's victim that is not cached is read from the API server.

        The watch of pods may lag behind that of templates, and a victim without our label is in neither.
        """
        comeback = self.seen.comeback(uid, wanted=wanted)
        template = comeback.template
        if comeback.victim or comeback.returning or template is None or next_step(comeback) == "create":
            return comeback
        found = self._calls.named(_name(template), template.metadata.namespace)
        if found is None:
            return comeback
        self.seen.wrote_pod(found)
        if found.metadata.uid == uid:
            return replace(comeback, victim=found)
        return replace(comeback, returning=found) if origin_of(found) == uid else comeback

    def _do(self, step: Step, uid: str, comeback: Comeback) -> bool:
        """Take a step; False where there is nothing to do before the next attempt."""
        victim, template, returning = comeback.victim, comeback.template, comeback.returning
        if template and step == "forget":
            self._forget(template)
        elif template and step == "mark due":
            self.seen.put_template(self._calls.mark_due(template))
            self._marked.add(uid)
        elif template and step == "create":
            return self._create(uid, template)
        elif victim and step == "clear condition":
            self.clear_disruption(victim)
        elif victim and step == "restore":
            self._restore(victim)
        elif victim and step in ("release victim", "remove finalizer"):
            calls = self._calls
            self._write(victim, calls.release_victim if step == "release victim" else calls.remove_finalizer)
        elif returning and step == "release":
            self._write(returning, self._calls.release)
        return True

    def clear_disruption(self, pod: Pod) -> None:
        """Remove what was written on a pod right before a deletion that did not follow.

        Raises:
            ApiError: the API server could not be reached, or refused.
        """
        whole = self._calls.whole(pod.metadata)
        if whole is None:
            self.seen.drop_pod(pod.metadata.uid)
            return
        now = read(whole)
        if is_marked_for_disruption(now) and not is_terminating(now):
            conditions = list(whole.status.get("conditions") or ())
            reason = reason_in(now)
            now = self._calls.mark_disruption(
                now, conditions, status=False, reason=reason, message=NEED_NOT_GO
            )
            log.info("the removal of a pod was withdrawn", pod=pod.key, uid=pod.metadata.uid)
        self.seen.wrote_pod(now)

    def _write(self, pod: Pod, change: "ComebackChange") -> None:
        """Change a pod; on a conflict read it again, and leave the rest to the next step.

        Raises:
            NotFound: an answer that is not true: a webhook may refuse with any code.
        """
        try:
            self.seen.wrote_pod(change(pod))
        except (Conflict, NotFound) as error:
            now = self._calls.named(pod.metadata.name, pod.metadata.namespace)
            if now is None or now.metadata.uid != pod.metadata.uid:
                self.seen.drop_pod(pod.metadata.uid)
                return
            self.seen.wrote_pod(now)
            if isinstance(error, NotFound):
                raise

    def _forget(self, template: PodTemplate) -> None:
        self._calls.forget(template)
        self.seen.drop_template(template)

    def _restore(self, victim: Pod) -> None:
        whole = self._calls.whole(victim.metadata)
        if whole is None:
            self.seen.drop_pod(victim.metadata.uid)
            return
        meta, reason = whole.metadata, reason_in(victim)
        back = how(meta)
        body = replacement_pod(whole, back=back, reason=reason)
        message = _condition(victim).message or reason
        try:
            template = self._calls.store(meta, body, reason=reason, message=message, back=back)
            self.seen.put_template(template)
        except Forbidden as error:
            if not _is_namespace_ending(error):
                raise
            self._write(victim, self._calls.release_victim)

    def _create(self, uid: str, template: PodTemplate) -> bool:
        """Create the pod, unless its name is taken: looked up after each refusal. False: not now.

        A refusal does not say whether the name is free: admission refuses before that is checked, and a
        webhook refuses with any code. A user may have made another pod of this name since the last attempt.

        Raises:
            ApiError: it was refused, and the name is free.
        """
        if uid not in self._marked and not self._is_still_there(uid, template):
            return True
        try:
            pod = self._calls.create(template)
        except StatusError:
            found = self._calls.named(_name(template), template.metadata.namespace)
            if found is None:
                raise
            return self._found_instead(found, uid, template)
        self.seen.wrote_pod(pod)
        self._events.normal(pod, *_return_event(pod, template))
        return True

    def _found_instead(self, found: Pod, uid: str, template: PodTemplate) -> bool:
        """The name is taken; by the pod itself if an answer to its creation was lost. False: not for long."""
        if found.metadata.uid == uid:
            return False  # the old pod still exists
        if origin_of(found) == uid:
            self.seen.wrote_pod(found)
            if not has_our_finalizer(found):
                self._forget(template)
        else:
            message = f"A pod that was taken away does not come back: {found.key} has taken its name."
            self._events.warning(found, event_reasons.COMEBACK_DROPPED, message)
            log.warning("a pod does not come back: its name is taken", pod=found.key, uid=uid)
            self._forget(template)
        return True

    def _is_still_there(self, uid: str, template: PodTemplate) -> bool:
        """Whether the template still exists: another leader may have finished while our watches lag."""
        now = self._calls.stored(uid, template.metadata.namespace)
        if now is None or now.metadata.uid != template.metadata.uid:
            self.seen.drop_template(template)
            return False
        return True

    def _refused(self, uid: str, error: ApiError) -> None:
        self._pauses.begin(uid)
        if not isinstance(error, StatusError):
            return
        may_pass = isinstance(error, Conflict) or is_overload(error)
        if may_pass and self._pauses.refusals(uid) < REPORTED_AFTER:
            return
        template = self.seen.template(uid)
        if template and self._pauses.should_report(uid, error.message):
            log.warning("a pod could not be created again, trying again", uid=uid, error=str(error))
            meta = Meta(name=_name(template), namespace=template.metadata.namespace, uid=uid)
            message = f"The pod cannot come back yet, and is tried again: {error.message}"
            self._events.warning(Pod(metadata=meta), event_reasons.COMEBACK_REFUSED, message)


def _return_event(pod: Pod, template: PodTemplate) -> tuple[str, str]:
    """Reason and message of the Event on the pod that has come back: what it asks for, not what we sent."""
    message = template.metadata.annotation(names.COMEBACK_MESSAGE) or ""
    if not is_for_gpus(pod):
        return event_reasons.CAME_BACK, f"This pod came back without a GPU. {message}".rstrip()
    if how(template.metadata) == "without-gpu":
        amounts = Counter[str]()
        for need in container_needs(pod):
            amounts[need.resource] += need.count
        given = ", ".join(f"{count} {resource}" for resource, count in sorted(amounts.items()))
        return (
            event_reasons.REQUEUED,
            f"This pod came back and waits for {given}: {GIVEN_BY_OTHERS} {message}".rstrip(),
        )
    if template.metadata.annotation(names.COMEBACK_REASON) == "refused":
        return (
            event_reasons.REJECTED_BY_KUBELET,
            f"This pod came back and waits for a node. Before: {message}",
        )
    return event_reasons.REQUEUED, f"This pod came back and waits for a GPU. {message}".rstrip()


def _condition(victim: Pod) -> Condition:
    """Our condition on the victim, which says why it is evicted."""
    conditions = victim.status.conditions or ()
    return next(one for one in conditions if one.type == names.DISRUPTION_TARGET)


def _name(template: PodTemplate) -> str:
    """The name of the pod that comes back."""
    name: str = template.template["metadata"]["name"]
    return name


def _is_namespace_ending(error: Forbidden) -> bool:
    causes = error.refusal.details.get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
