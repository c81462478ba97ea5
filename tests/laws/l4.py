"""L4: a pod that we take away comes back exactly once, unless its user deletes it.

At every moment: nothing comes back twice, or while the pod that it replaces lives, or for one that its user
has deleted, a controller brings back, or nobody is to bring back. In time: 60 s after a victim has ended,
and after the last fault, what comes back for it is there; a pod that a kubelet has refused waits a minute
longer.

A part of ours that deletes a pod as its user would, without a reason, takes it away for good. That is seen
where the cluster is played in memory and names the writer (``changes.Maker``), that is in every scenario. No
object says who has deleted it: on a real cluster it counts as its user's deletion. Of a booked pod it is law
L2. tests/scenarios/test_watched.py plays it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cluster import names
from cluster.kube.resources import PodTemplate
from cluster.objects.kubelet_rejection import is_rejected_by_kubelet, start_error
from cluster.objects.pods import Pod, asks_for_gpus, is_for_gpus, is_live, is_terminal, is_terminating
from tests.laws.changes import Change
from tests.laws.cover import cover
from tests.laws.departures import Departure, deleted_by_us, departure, taken_for
from tests.laws.devices import holds
from tests.laws.groups import user_of
from tests.laws.state import State

LAW: Final = "L4"
BACK_WITHIN: Final = timedelta(seconds=60)
LONGEST_PAUSE: Final = timedelta(seconds=60)
"""Of a pod that kubelets have refused again and again."""
Uid = str


@dataclass
class _Taken:
    """A pod that was taken away."""

    pod: Pod
    owned: bool
    for_good: bool = False
    """It was decided that it does not come back."""
    ended: datetime | None = None
    """When its containers had ended, or it was gone."""
    is_replaced: bool = False
    """Somebody else's pod has had its name: it need not come back when that one is gone, either."""


class Comebacks:
    """Who was taken away, and who has come back."""

    def __init__(self) -> None:
        self._taken: dict[Uid, _Taken] = {}
        self._deleted: set[Uid] = set()
        self._returned: dict[Uid, set[Uid]] = {}
        self._refused: dict[Uid, datetime] = {}

    def know(self, state: State) -> None:
        """Pods that are there already count as come back; none of them is judged."""
        for uid, pod in state.pods.items():
            if origin := origin_of(pod):
                self._returned.setdefault(origin, set()).add(uid)

    def see(self, change: Change, state: State) -> Iterator[str]:
        """What a change breaks; state: after it."""
        before, after = change.pods or (None, None)
        pod = after or before
        if pod is None:
            return
        leaves = departure(change)
        if leaves and _is_by_us(leaves, state):
            owned = _is_brought_back_by_others(leaves.pod)
            self._taken[pod.metadata.uid] = _Taken(leaves.pod, owned, _is_for_good(leaves, state))
        self._follow(before, after, change.instant)
        if after is not None and _is_refused(after):
            self._refused.setdefault(pod.metadata.uid, change.instant)
        else:
            self._refused.pop(pod.metadata.uid, None)
        if before is None and after is not None:
            self._replaces(after)
            yield from self._arrives(after, state)

    def _follow(self, before: Pod | None, after: Pod | None, instant: datetime) -> None:
        pod = after or before
        assert pod is not None
        uid, taken = pod.metadata.uid, self._taken.get(pod.metadata.uid)
        begins = before is not None and not is_terminating(before) and after and is_terminating(after)
        if after and is_terminating(after) and (begins or taken) and not _is_disrupted(after):
            self._deleted.add(uid)
            self._taken.pop(uid, None)
        elif taken and taken.ended is None and (after is None or _has_ended(after)):
            taken.ended = instant

    def _replaces(self, pod: Pod) -> None:
        for uid, taken in self._taken.items():
            if taken.pod.key == pod.key and uid not in (pod.metadata.uid, origin_of(pod)):
                taken.is_replaced = True

    def _arrives(self, pod: Pod, state: State) -> Iterator[str]:
        origin = origin_of(pod)
        if origin is None:
            return
        others = self._returned.setdefault(origin, set())
        others.add(pod.metadata.uid)
        taken = self._taken.get(origin)
        if len(others) > 1:
            yield f"{pod.key} comes back a second time for the pod {origin}."
        if origin in state.pods and is_live(state.pods[origin]):
            yield f"{pod.key} comes back, though the pod {origin} that it replaces still lives."
        if origin in self._deleted:
            yield f"{pod.key} comes back, though its user has deleted the pod {origin}."
        if taken and taken.owned:
            yield f"{pod.key} comes back, though a controller brings the pod {origin} back."
        elif taken and taken.for_good:
            yield f"{pod.key} comes back, though it was decided that the pod {origin} is gone for good."
        elif taken and is_for_gpus(pod) != _is_as_it_was(taken.pod):
            how = "with" if is_for_gpus(pod) else "without"
            yield f"{pod.key} comes back {how} its GPUs, which is not how the pod {origin} was to come back."

    def overdue(self, state: State, now: datetime, last_fault: datetime | None) -> Iterator[str]:
        """Who should be back by now."""
        for uid in self.missing(state):
            ended = self._taken[uid].ended
            if ended is not None and now - max(ended, last_fault or ended) > BACK_WITHIN:
                yield f"{self._taken[uid].pod.key} ({uid}) was taken away and has not come back for 60 s."
        for uid, since in self._refused.items():
            if now - max(since, last_fault or since) > BACK_WITHIN + LONGEST_PAUSE:
                yield f"{state.pods[uid].key} ({uid}) was refused by its kubelet and is not brought back."

    def missing(self, state: State) -> list[Uid]:
        """Bare pods that were taken away and have not come back yet."""
        return [
            uid
            for uid, taken in self._taken.items()
            if not (taken.owned or taken.for_good or taken.is_replaced)
            and not self._returned.get(uid)
            and not _is_name_taken(taken.pod, state)
        ]

    def missing_keys(self, state: State) -> list[str]:
        """Breaches at the end of a test: pods that have not come back."""
        return [
            f"{self._taken[uid].pod.key} ({uid}) was taken away and has not come back."
            for uid in self.missing(state)
        ]


def deleted_as_by_its_user(change: Change, state: State, now: datetime) -> Iterator[str]:
    """A pod that is not booked is deleted by a part of ours, so that nobody brings it back."""
    pod, maker = deleted_by_us(change), change.maker
    if pod and maker and pod.metadata.uid not in cover(state, now, {user_of(pod)}):
        yield f"{pod.key} is deleted by {maker.name} as if its user did it: it does not come back."


def left_over(state: State) -> Iterator[str]:
    """What should be gone in a quiet cluster: templates, finalizers and holds that have had their day."""
    stored = {victim_of(template) for template in state.templates.values() if _is_ours(template)}
    for uid in sorted(stored):
        victim = state.pods.get(uid)
        if victim is None or (is_live(victim) and not _is_named_by_a_hold(uid, state)):
            yield f"The template of the pod {uid} is left over."
    for uid, pod in state.pods.items():
        if is_live(pod) and uid not in stored and names.COMEBACK in (pod.metadata.finalizers or ()):
            yield f"Our finalizer is left over on {pod.key}."
        if pod.spec.node_name and is_live(pod) and pod.metadata.annotation(names.HOLD):
            yield f"A hold is left over on {pod.key}, which is bound."


def origin_of(pod: Pod) -> Uid | None:
    """The uid of the pod that this one replaces, None for any other."""
    return pod.metadata.annotation(names.RECREATED_FROM)


def victim_of(template: PodTemplate) -> Uid:
    """Of which pod a template was made."""
    return template.metadata.name.removeprefix(names.COMEBACK_PREFIX)


def _is_ours(template: PodTemplate) -> bool:
    return names.COMEBACK in (template.metadata.labels or {})


def _is_named_by_a_hold(uid: Uid, state: State) -> bool:
    return any(uid in hold.victims for hold in holds(state).values())


def _is_by_us(leaves: Departure, state: State) -> bool:
    """Whether it is we who take the pod away: an administrator who drains a node evicts as well."""
    guarded = names.COMEBACK in (leaves.pod.metadata.finalizers or ())
    return guarded or leaves.reason == "ended" or _is_named_by_a_hold(leaves.pod.metadata.uid, state)


def _is_for_good(leaves: Departure, state: State) -> bool:
    """Whether it does not come back: at its own request, or as is written on its booking, which is over.

    What was made ready to come back does so, whatever is said by now.
    """
    meta = leaves.pod.metadata
    if names.COMEBACK in (meta.finalizers or ()):
        return False
    if leaves.reason == "evicted":
        return (meta.annotation(names.ON_EVICT) or "").strip() == "delete"
    theirs = [b for b in state.bookings.values() if meta.uid in (b.status.ending or ())]
    return leaves.reason == "ended" and any(booking.status.back == "never" for booking in theirs)


def _is_brought_back_by_others(pod: Pod) -> bool:
    """Whether its controller brings it back; of a Job that fails with its only pod we have prepared it."""
    controller = pod.metadata.controller
    ours = names.COMEBACK in (pod.metadata.finalizers or ())
    return controller is not None and not (controller.kind == "Job" and ours)


def _is_as_it_was(victim: Pod) -> bool:
    """Whether what comes back asks for its GPUs."""
    return victim.metadata.annotation(names.COMEBACK_HOW) == "as-it-was"


def _is_refused(pod: Pod) -> bool:
    """Whether a kubelet has refused one of our bare pods before any container began; nobody deletes it.

    Which reasons mean that is a fact about kubelets, not a decision: the product's own function answers it.
    """
    if start_error(pod) is not None and not pod.metadata.count(names.KUBELET_REJECTIONS):
        return not pod.metadata.controller and not is_terminating(pod)
    refused = is_rejected_by_kubelet(pod)
    ours = pod.spec.scheduler_name == names.SCHEDULER_NAME and asks_for_gpus(pod)
    owned = any(owner.controller for owner in pod.metadata.owner_references or ())
    has_never_run = not pod.status.container_statuses
    return has_never_run and refused and ours and not owned and not is_terminating(pod)


def _is_disrupted(pod: Pod) -> bool:
    conditions = pod.status.conditions or ()
    return taken_for(pod) is not None or any(
        c.type == names.DISRUPTION_TARGET and c.status == "True" for c in conditions
    )


def _has_ended(pod: Pod) -> bool:
    return is_terminal(pod) or not pod.spec.node_name or pod.metadata.deletion_grace_period_seconds == 0


def _is_name_taken(victim: Pod, state: State) -> bool:
    """Whether somebody else's pod has its name: then it does not come back, and that is reported."""
    now = state.by_place.get((victim.metadata.namespace, victim.metadata.name))
    return now is not None and now.metadata.uid != victim.metadata.uid
