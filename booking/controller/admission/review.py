"""The webhook's decision about a new pod (law L7). Pure.

A pod that requests GPUs gets its user, the cover annotations of its booking, our scheduler and the
PriorityClass that it deserves. Shares of GPUs in other products' words become container limits first; one
that cannot be granted is refused. If no booking covers it, no GPU is free and the settings say so, it starts
without a GPU instead. Keys reserved for us are removed from every pod, unless our own reclaimer created it.
Everything else is left unchanged.

Where claims can be booked, a pod with claims, also for extended resources, gets its user and our scheduler:
one scheduler must allocate all claims, and what they ask for may not be known yet. If it is GPUs, the pod is
one with GPUs.

A pod that other webhooks have changed since is shown a second time, as the last one (``is_last``). Its class
and scheduler are then decided again by what it requests now.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal, Protocol

import msgspec

from booking.controller.admission.annotation_checks import nameless_gang, unreadable
from booking.controller.admission.cover_message import clause, day
from booking.controller.admission.free_gpus import FreeGpus
from booking.controller.admission.mutation import admitted, given_up, grouped, guided, stripped
from booking.controller.admission.owner import Creators, Ownership, PodNamespace, owner
from booking.controller.admission.patch import Operation, patch
from booking.controller.admission.pod_reader import (
    Json,
    asks_for_gpus,
    our_keys,
    read,
    with_annotation,
    without_ours,
)
from booking.controller.admission.sharing_dialects.containers import ShareRefusedError
from booking.controller.admission.sharing_dialects.translation import (
    Sharing,
    Translation,
    asks_in_any_words,
    check,
    check_zeros,
    translated,
)
from booking.controller.gpu_stripping import GROUPS, NOTHING, spec_without_gpu_defaults
from cluster import names
from cluster.decide.claims.extended import INSTEAD
from cluster.decide.coverage import Coverage, coverage
from cluster.decide.entitlement import UserCoverage
from cluster.decide.identity import UsersOf
from cluster.objects.claims import PodClaims
from cluster.objects.cover_annotations import instant_in
from cluster.objects.gangs import Gang, gang_of
from cluster.objects.pods import Pod
from cluster.objects.share_request import asks_for_shares

Kind = Literal[
    "booked",
    "opportunistic",
    "stripped",
    "gpu-removed",
    "cleaned",
    "hidden",
    "guided",
    "kept-apart",
    "untouched",
    "refused",
]
Unbooked = Literal["queue", "strip"]
"""What happens to a pod without a booking for which no GPU is free: it waits, or starts without a GPU."""

NOT_CREATED: Final = "~"
"""Uid of a pod that does not exist yet: after every real one, where two were created in one second."""
MAY_BE_EVICTED: Final = "this pod may be evicted when a booked pod needs its GPU."
UNKNOWN: Final = "Bookings cannot be read now, so this pod counts as not booked"
IN_LINE: Final = (
    "No GPU that it may have is free: it waits in line, and is offered to the scheduler in its turn."
)
BY_DEFAULT: Final = (
    "without a GPU, since it asks for none; a LimitRange of this namespace fills one in, and it is taken out."
)
_LONGEST_KEY: Final = 60
"""Characters of a key that a message shows."""
HINT: Final = "Book a GPU, or create the pod again when one is free."
REMOVED: Final = (
    "It asked for GPUs, and another webhook has removed that request (one of those that `kubectl get"
    f" mutatingwebhookconfigurations` lists after {names.WEBHOOK}): it was created without a GPU."
)


class ClusterView(Protocol):
    """What is known of the cluster; ``booking.controller.admission.cluster_view`` implements it."""

    def namespace(self, namespace: str, /) -> PodNamespace:
        """What administrators have written on a namespace."""

    def user_coverage(self, pod: Pod, now: datetime, /) -> UserCoverage:
        """Bookings and pods of the pod's user, this pod included, and which booking covers which pod."""

    def users_by_label(self) -> UsersOf:
        """The known users for each JupyterHub label."""

    def claims(self, pod: Pod, /) -> PodClaims | None:
        """What a new pod's claims will ask for, as far as their templates exist; None if that is no GPU."""

    def is_by_claims(self, pod: Pod, /) -> bool:
        """Whether kube-scheduler allocates claims for the pod, if they can be booked."""

    def models(self) -> frozenset[str]:
        """The models of GPUs that the cluster has."""

    def room(self, pod: Pod, /) -> FreeGpus:
        """Whether a GPU is free for the pod."""

    def is_spoken_for(self, pod: Pod, /) -> bool:
        """Whether pods that already wait for the same GPUs would take all free ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewRequest:
    """The parts of an admission request that the decision depends on."""

    creator: str
    """``userInfo.username`` of the request."""
    namespace: str
    pod: Json
    """The pod as it came in the request, before any change of ours."""
    groups: frozenset[str] = frozenset()
    """``userInfo.groups`` of the request."""
    is_last: bool = False
    """Whether it was reviewed before, and changed by other webhooks since.

    Of our keys on it only ``names.REPLACED`` is believed: in it users can name no scheduler and no class that
    they could not name in the pod.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What happens to a new pod."""

    kind: Kind
    patch: tuple[Operation, ...] = ()
    warnings: tuple[str, ...] = ()
    """Messages for the user who created the pod."""
    forged: tuple[str, ...] = ()
    """Reserved keys that the pod brought and that were removed: reported to administrators."""
    refused: str | None = None
    """Why the pod is not created; None if it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A pod with GPUs, and what has been found out about it."""

    pod: Json
    """The pod without our keys on it."""
    stored: Pod
    """The pod as the API server will store it."""
    whose: Ownership
    namespace: PodNamespace
    found: Coverage | None
    """None where it is unknown: the pod has no user, or the bookings are not known."""
    limits: Mapping[str, dict[str, str]] | None = None
    """Container -> the limits in whose place it has shares."""
    until: str | None = None
    """MAIA's ``terminate-at``, which counts where no booking of ours covers the pod."""
    groups: frozenset[str] = frozenset()
    """The groups of its user by which shares are divided."""

    @property
    def why(self) -> str:
        """What covers the pod, or why nothing does; the consequences are left out."""
        if self.whose.user is None:
            return f"{self.whose.why}, so this pod is nobody's"
        return clause(self.found, self.namespace.name, self.stored.claims) if self.found else UNKNOWN

    def granted(self, now: datetime) -> datetime | None:
        """The instant until which MAIA has granted the pod its GPUs, if that is in the future."""
        until = instant_in(self.until)
        return until if until and until > now else None


@dataclass(frozen=True, slots=True)
class _NoGpu:
    """A pod that asks for no GPU, as far as is known."""

    request: ReviewRequest
    received: Json
    kept: Json
    """The pod without our keys on it."""
    until: str | None
    notes: tuple[str, ...]
    forged: tuple[str, ...]
    zero: frozenset[str]


def _together(gang: Gang) -> str:
    """A gang starts whole, so all of its pods wait until their devices are kept for them."""
    return (
        f"This pod starts together with the other pods of its gang, {gang.size} in all, once they exist and"
        " there are GPUs for all."
    )


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Decides about new pods."""

    creators: Creators
    scheduler: str = names.SCHEDULER_NAME
    """``schedulerName`` that GPU pods get."""
    unbooked: Unbooked = "queue"
    """What happens to a pod without a booking for which no GPU is free, unless its creator is trusted."""
    unbooked_notebooks: Unbooked = "strip"
    """The same for pods of trusted creators."""
    queue_gate: bool = False
    """Whether a pod without a booking that has to wait does so behind our scheduling gate."""
    sharing: Sharing = field(default_factory=Sharing)
    """Which spellings of shares are understood."""
    gives_turns: Callable[[], bool] = _never
    """Whether GPUs without a booking are given in turn now: then pods wait behind the gate all the same."""
    share_groups: Callable[[], frozenset[str]] = frozenset
    """The groups, as the API server names them, by which GPUs without a booking are divided."""
    maia: bool = False
    """Whether ``terminate-at`` on pods of trusted creators is MAIA's and is kept, also on comebacks."""
    claims: bool = False
    """Whether claims can be booked."""

    def __call__(
        self,
        request: ReviewRequest,
        view: ClusterView,
        now: datetime,
        *,
        is_certain: bool,
        zero: frozenset[str] = NOTHING,
    ) -> Outcome:
        """Decide about one pod.

        Args:
            request: the one to answer.
            view: what is known of the cluster.
            now: the instant.
            is_certain: whether the view is recent enough; if not, no new pod counts as booked, and the
                cluster does not count as full (law L6).
            zero: the GPU resources that a LimitRange gives to containers which name none, read for a pod that
                starts without its GPUs or has lost them to another webhook.

        Raises:
            BadPodError: it is not a pod.
        """
        received = request.pod
        pod = read(received)
        if pod.metadata.annotation(names.LIMIT_RANGER) is not None:
            request = replace(request, pod=_as_requested(received))
        not_given = _not_given(received, request.pod)
        from_us = request.creator == self.creators.ourselves
        try:
            shares = self._shares(request, received, view)
        except ShareRefusedError as error:
            return Outcome(kind="refused", refused=str(error))
        request = replace(request, pod=shares.pod)
        pod = read(request.pod)
        until = pod.metadata.annotation(names.TERMINATE_AT) if self._is_maias(request) else None
        bare = request.pod if until is None else with_annotation(request.pod, names.TERMINATE_AT, None)
        ours = our_keys(bare)
        forged = () if from_us or request.is_last else tuple(ours)
        notes = (*([_ignored(ours)] if forged else []), *not_given, *shares.warnings)
        kept = bare if from_us else _cleaned(bare, replaced_stays=request.is_last)
        by_claims = self.claims and view.is_by_claims(pod)
        claims = view.claims(_in_namespace(pod, request.namespace)) if by_claims else None
        if claims is None and not asks_for_gpus(pod):
            other = _NoGpu(request, received, kept, until, notes, forged, zero)
            return self._guided(other, view) if by_claims else self._other(other)
        case = self._case(request, kept, view, now, is_certain=is_certain, until=until, claims=claims)
        case = replace(case, limits=shares.replaced, groups=self._groups_of(request))
        never = [f"{claims.refusal}: no node gives it its GPUs."] if claims and claims.refusal else []
        instead = [INSTEAD] if claims and claims.resources else []
        notes = (*never, *notes, *instead, *unreadable(pod.metadata.annotations or {}), *nameless_gang(pod))
        strips, queues = self._strips(request, case, now), self._queues(case, now)
        gang = gang_of(case.stored) if self.gives_turns() else None
        room = view.room(case.stored) if is_certain and (strips or queues) else "unknown"
        if strips and room == "full":
            return replace(self._stripped(received, case, notes, zero), forged=forged)
        is_spoken_for = room == "free" and queues and view.is_spoken_for(case.stored)
        is_queued = queues and (gang is not None or room == "full" or is_spoken_for)
        notes = (*([_together(gang) if gang else IN_LINE] if is_queued else []), *notes)
        return replace(self._admitted(received, case, now, notes, is_queued=is_queued), forged=forged)

    def _groups_of(self, request: ReviewRequest) -> frozenset[str]:
        """Those of the creator's groups that divide shares; a hub creates pods for others, so it has none."""
        is_for_others = request.creator in {self.creators.ourselves, *self.creators.trusted}
        return frozenset() if is_for_others else request.groups & self.share_groups()

    def _shares(self, request: ReviewRequest, received: Json, view: ClusterView) -> Translation:
        """The pod with its shares as limits; one that has them already or is a static pod's mirror as it is.

        Raises:
            ShareRefusedError: it asks for shares in a way that cannot be granted.
        """
        pod = request.pod
        if request.creator == self.creators.ourselves or not asks_in_any_words(pod):
            return Translation(pod=pod)
        annotations = pod["metadata"].get("annotations") or {}
        is_static = bool(pod["spec"].get("nodeName")) and names.STATIC_POD in annotations
        if is_static or (request.is_last and names.ADMITTED in annotations):
            check(pod["spec"])
            return Translation(pod=pod)
        check_zeros(received["spec"], self.sharing)
        default_share = view.namespace(request.namespace).default_share
        return translated(pod, self.sharing, default_share=default_share, models=view.models)

    def _is_maias(self, request: ReviewRequest) -> bool:
        """Whether its ``terminate-at`` may be MAIA's; a pod that our reclaimer recreates had it before."""
        return self.maia and request.creator in {self.creators.ourselves, *self.creators.trusted}

    def _case(
        self,
        request: ReviewRequest,
        kept: Json,
        view: ClusterView,
        now: datetime,
        *,
        is_certain: bool,
        until: str | None,
        claims: PodClaims | None,
    ) -> _Case:
        pod, namespace = read(kept), view.namespace(request.namespace)
        whose = owner(
            request.creator,
            pod.metadata,
            namespace=namespace,
            creators=self.creators,
            known=view.users_by_label,
        )
        stored = _as_stored(pod, request.namespace, with_annotation(kept, names.USER, whose.user), now)
        stored = msgspec.structs.replace(stored, claims=claims)
        found = coverage(stored, view.user_coverage(stored, now), now) if is_certain and whose.user else None
        return _Case(pod=kept, stored=stored, whose=whose, namespace=namespace, found=found, until=until)

    def _other(self, case: _NoGpu) -> Outcome:
        """A pod without GPUs: its reserved keys are removed, and what another webhook has made useless."""
        if case.request.is_last:
            return self._gpu_removed(case)
        if not case.notes:
            return Outcome(kind="untouched")
        until = case.until
        after = case.kept if until is None else with_annotation(case.kept, names.TERMINATE_AT, until)
        steps = patch(case.received, after)
        return Outcome(kind="cleaned", patch=steps, warnings=case.notes, forged=case.forged)

    def _guided(self, case: _NoGpu, view: ClusterView) -> Outcome:
        """A pod whose claims ask for no GPU, or for something that is not known yet."""
        whose = owner(
            case.request.creator,
            read(case.kept).metadata,
            namespace=view.namespace(case.request.namespace),
            creators=self.creators,
            known=view.users_by_label,
        )
        after = grouped(guided(case.kept, whose, self.scheduler), self._groups_of(case.request))
        steps = patch(case.received, after)
        return Outcome(kind="guided", patch=steps, warnings=case.notes, forged=case.forged)

    def _strips(self, request: ReviewRequest, case: _Case, now: datetime) -> bool:
        """Whether the pod should start without a GPU if none is free.

        A pod behind a scheduling gate waits anyway. A pod that names its node does not pass a scheduler: a
        static pod has its GPU already, whatever its mirror pod in the API says.
        """
        spec = case.stored.spec
        if request.creator == self.creators.ourselves or spec.scheduling_gates or spec.node_name:
            return False
        if case.granted(now) or (case.found and case.found.cover):
            return False
        policy = self.unbooked_notebooks if request.creator in self.creators.trusted else self.unbooked
        return policy == "strip"

    def _queues(self, case: _Case, now: datetime) -> bool:
        """Whether the pod waits behind our gate if no GPU is left: it has no guarantee and names no node.

        There are no turns for shares of a GPU, and nothing is kept for extended resources.
        """
        is_guaranteed = case.granted(now) or (case.found and case.found.cover)
        if is_guaranteed or case.stored.spec.node_name:
            return False
        claims = case.stored.claims
        is_share = asks_for_shares(case.stored) or (claims is not None and claims.memory > 0)
        is_extended = claims is not None and bool(claims.resources)
        return not is_extended and (not is_share if self.gives_turns() else self.queue_gate)

    def _gpu_removed(self, case: _NoGpu) -> Outcome:
        request, received, notes = case.request, case.received, case.notes
        if names.ADMITTED not in our_keys(request.pod):
            # A LimitRange may have filled in a GPU after another webhook's change: it is taken out again.
            outcome = Outcome(kind="cleaned", patch=patch(received, request.pod), warnings=notes)
            return outcome if outcome.patch else Outcome(kind="untouched")
        after = given_up(case.kept, REMOVED, self.scheduler, zero=case.zero)
        if case.until is not None:
            after = with_annotation(after, names.TERMINATE_AT, case.until)
        return Outcome(kind="gpu-removed", patch=patch(received, after), warnings=(REMOVED, *notes))

    def _stripped(self, received: Json, case: _Case, notes: tuple[str, ...], zero: frozenset[str]) -> Outcome:
        message = f"{case.why}, and no GPU that it may have is free: it was created without a GPU."
        claims = case.stored.claims
        ours = frozenset(claims.names) if claims else NOTHING
        after = stripped(case.pod, message, self.scheduler, zero=zero, claims=ours)
        if case.until is not None:
            after = with_annotation(after, names.TERMINATE_AT, case.until)
        return Outcome(kind="stripped", patch=patch(received, after), warnings=(message, HINT, *notes))

    def _admitted(
        self, received: Json, case: _Case, now: datetime, notes: tuple[str, ...], *, is_queued: bool
    ) -> Outcome:
        booking = case.found.cover if case.found else None
        after = admitted(
            case.pod,
            case.whose,
            booking,
            self.scheduler,
            is_queued=is_queued,
            limits=case.limits,
            sharing=self.sharing,
        )
        if case.until is not None and booking is None:
            after = with_annotation(after, names.TERMINATE_AT, case.until)
        after = grouped(after, case.groups)
        kind: Kind = "booked" if booking else "opportunistic"
        warnings = (_cover_warning(case, now), *notes)
        return Outcome(kind=kind, patch=patch(received, after), warnings=warnings)


def _cover_warning(case: _Case, now: datetime) -> str:
    """A message for the pod's creator: whether a booking covers the pod, and what follows if none does."""
    granted = case.granted(now)
    if case.found and case.found.cover:
        return f"{case.why}."
    if granted:
        return f"{case.why}, but MAIA's {names.TERMINATE_AT} covers it until {day(granted)}."
    if case.namespace.is_protected:
        return f"{case.why}, but no pod of namespace {case.namespace.name} is evicted for a booking."
    return f"{case.why}: {MAY_BE_EVICTED}"


def _as_stored(pod: Pod, namespace: str, kept: Json, now: datetime) -> Pod:
    """The pod as it will be stored: the user's newest, so the last one to be covered."""
    meta = msgspec.structs.replace(
        pod.metadata,
        uid=NOT_CREATED,
        namespace=namespace,
        creation_timestamp=now,
        deletion_timestamp=None,
        annotations=dict(kept["metadata"]["annotations"]),
    )
    return Pod(metadata=meta, spec=pod.spec)


def _in_namespace(pod: Pod, namespace: str) -> Pod:
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, namespace=namespace))


def _as_requested(received: Json) -> Json:
    """The pod with the GPUs that its creator asked for: a LimitRange gives none (ADR 66)."""
    annotations = received["metadata"].get("annotations") or {}
    spec = spec_without_gpu_defaults(received["spec"], annotations)
    return received if spec == received["spec"] else {**received, "spec": spec}


def _not_given(received: Json, requested: Json) -> tuple[str, ...]:
    """A message that says which containers get no GPU although a LimitRange fills in one."""
    pairs = [
        pair
        for group in GROUPS
        for pair in zip(received["spec"].get(group) or (), requested["spec"].get(group) or (), strict=True)
    ]
    changed = [before.get("name", "") for before, after in pairs if before != after]
    if not changed:
        return ()
    more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
    return (f"Container {changed[0]}{more}: {BY_DEFAULT}",)


def _cleaned(pod: Json, *, replaced_stays: bool) -> Json:
    """The pod without our keys; with the record of what admission replaced, if that is to stay."""
    replaced = (pod["metadata"].get("annotations") or {}).get(names.REPLACED)
    cleaned = without_ours(pod)
    return with_annotation(cleaned, names.REPLACED, replaced) if replaced_stays and replaced else cleaned


def _ignored(keys: list[str]) -> str:
    first = keys[0] if len(keys[0]) <= _LONGEST_KEY else f"{keys[0][: _LONGEST_KEY - 1]}…"
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    return f"{first}{more}: ignored, only GPU Booking writes such keys."
