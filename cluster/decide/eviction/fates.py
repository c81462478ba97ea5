"""What becomes of an evicted pod's work, by its controller: does another pod take it up, who ends with it?

Of a Job this is known from the Job itself, of other controllers only from their kind: the tables below. A
kind that is in neither of them counts as one that replaces no pod, so its pods are evicted late.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

from cluster import names
from cluster.decide.eviction.costs import Work, work_of
from cluster.objects.jobs import ExitCodes, Job
from cluster.objects.meta import Owner
from cluster.objects.pods import Pod

GroupKind = tuple[str, str]

REPLACING: Final[frozenset[GroupKind]] = frozenset(
    {
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("apps.kruise.io", "CloneSet"),
        ("apps.kruise.io", "StatefulSet"),
        ("ray.io", "RayCluster"),
    }
)
"""API groups and kinds of controllers that create another pod for each one that is missing."""
GANGS: Final[frozenset[GroupKind]] = frozenset(
    {
        ("batch.volcano.sh", "Job"),
        ("jobset.x-k8s.io", "JobSet"),
        ("trainer.kubeflow.org", "TrainJob"),
        *(
            ("kubeflow.org", kind)
            for kind in ("JAXJob", "MPIJob", "MXJob", "PaddleJob", "PyTorchJob", "TFJob", "XGBoostJob")
        ),
    }
)
"""API groups and kinds of controllers whose pods work on one thing together: it stops if one is missing."""
JOB: Final[GroupKind] = ("batch", "Job")
DEFAULT_BACKOFF_LIMIT: Final = 6
KILLED: Final = (137, 143)
"""Exit codes of a container that is evicted: killed by SIGKILL or by SIGTERM."""
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
"""Annotation of the Job controller: how often pods of this index have failed before this one."""

Action = Literal["Ignore", "Count", "FailIndex", "FailJob"]


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of the work of a pod that is evicted."""

    is_replaced: bool = True
    """Whether another pod takes it up: then it loses only what it has not saved."""
    gang: str = ""
    """Uid of the controller with which all pods of a gang end; empty where only this pod ends."""
    why: str = ""
    """Why it is not replaced, for people: a clause. It names nothing that some may not see."""


BARE: Final = Fate()
"""Of a pod without a controller: we bring it back."""


@dataclass(frozen=True, slots=True)
class Member:
    """A bound pod with GPUs whose controller may not replace it."""

    pod: Pod
    controller: Owner
    gpus: int
    work: Work
    leaves: bool
    """Whether it is terminating."""

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid


def member_of(pod: Pod, *, gpus: int, leaves: bool) -> Member | None:
    """A bound pod as a member of what its controller runs; None for one that is replaced in any case."""
    controller = pod.metadata.controller
    if controller is None or (controller.group, controller.kind) in REPLACING:
        return None
    return Member(pod, controller, gpus, work_of(pod), leaves)


def job_of(pod: Pod, jobs: Mapping[str, Job]) -> Job | None:
    """The Job that controls the pod; None where it is of another kind, or not known (yet).

    Args:
        pod: any pod.
        jobs: ``namespace/name`` -> Job.
    """
    owner = pod.metadata.controller
    if owner is None or (owner.group, owner.kind) != JOB:
        return None
    job = jobs.get(f"{pod.metadata.namespace}/{owner.name}")
    return job if job is not None and job.metadata.uid == owner.uid else None


def fate_of(pod: Pod, jobs: Mapping[str, Job], *, at_once: int = 1) -> Fate:
    """The fate of a pod that is evicted.

    Args:
        pod: any pod.
        jobs: ``namespace/name`` -> Job.
        at_once: how many pods of its Job may be evicted before the Job has counted the first, with this one.
    """
    owner = pod.metadata.controller
    kind = (owner.group, owner.kind) if owner else None
    if owner is None or kind in REPLACING:
        return BARE
    if kind == JOB:
        return _of_job(pod, owner, job_of(pod, jobs), at_once)
    if kind in GANGS:
        return Fate(is_replaced=False, gang=owner.uid, why=f"its {owner.kind} stops with it")
    return Fate(is_replaced=False, why=f"nothing is known to replace the pods of a {owner.kind}")


def is_brought_back_by_us(pod: Pod, jobs: Mapping[str, Job]) -> bool:
    """Whether the pod is all that a Job runs, and the Job fails with it: nobody else brings it back.

    Not so where the Job's own rules want it to fail, or somebody has made the Job who may make another.
    """
    job = job_of(pod, jobs)
    return (
        job is not None
        and job.metadata.controller is None
        and (job.spec.parallelism or 1) == 1
        and (job.spec.completions or 1) == 1
        and job.spec.backoff_limit_per_index is None
        and _action(job) == "Count"
        and _failures_left(job) < 1
    )


def _of_job(pod: Pod, owner: Owner, job: Job | None, at_once: int) -> Fate:
    if job is None:
        return Fate(is_replaced=False, gang=owner.uid, why="its Job is not known, and may fail with it")
    if _survives(job, pod, at_once) or is_brought_back_by_us(
        pod, {f"{pod.metadata.namespace}/{owner.name}": job}
    ):
        return BARE
    by_index = job.spec.backoff_limit_per_index is not None and job.spec.max_failed_indexes is None
    if by_index and _action(job) != "FailJob":
        return Fate(is_replaced=False, why="its Job does not run its index again")
    parent = job.metadata.controller
    if parent is not None and (parent.group, parent.kind) in GANGS:
        return Fate(is_replaced=False, gang=parent.uid, why=f"its {parent.kind} fails with it")
    return Fate(is_replaced=False, gang=owner.uid, why="its Job fails with it")


def _survives(job: Job, pod: Pod, at_once: int) -> bool:
    """Whether the Job creates another pod in the place of one that is evicted."""
    action, limit = _action(job), job.spec.backoff_limit_per_index
    if action != "Count":
        return action == "Ignore"
    if limit is not None:
        return pod.metadata.count(INDEX_FAILURES) < limit
    return _failures_left(job) >= at_once


def _failures_left(job: Job) -> int:
    """How many pods of a Job may still fail before it does; below 1 it fails with the next."""
    limit = job.spec.backoff_limit
    return (DEFAULT_BACKOFF_LIMIT if limit is None else limit) - (job.status.failed or 0)


def _action(job: Job) -> Action:
    """What the Job does about a pod that was evicted: the worst, since exit codes are not known before."""
    policy, found = job.spec.pod_failure_policy, "Count"
    counts = False
    for rule in (policy.rules if policy else None) or ():
        if rule.on_exit_codes is not None:
            if not _may_match(rule.on_exit_codes):
                continue
            if rule.action in ("FailJob", "FailIndex"):
                return "FailJob" if rule.action == "FailJob" else "FailIndex"
            counts = counts or rule.action == "Count"
        elif any(
            c.type == names.DISRUPTION_TARGET and c.status in (None, "True")
            for c in rule.on_pod_conditions or ()
        ):
            found = rule.action
            break
    match found:
        case "FailJob":
            return "FailJob"
        case "FailIndex":
            return "FailIndex"
        case "Ignore" if not counts:
            return "Ignore"
        case _:
            return "Count"


def _may_match(codes: ExitCodes) -> bool:
    """Whether a rule about exit codes may match a pod that was evicted."""
    values = codes.values or ()
    if codes.operator == "In":
        return any(code in values for code in KILLED)
    return any(code not in values for code in KILLED)


class Fates:
    """The fates of all pods at one instant, and what their gangs lose with them."""

    def __init__(self, members: Iterable[Member] = (), jobs: Mapping[str, Job] | None = None) -> None:
        """Args: members: of all nodes; jobs: ``namespace/name`` -> Job."""
        self._members = tuple(members)
        self._jobs = jobs or {}

    @cached_property
    def _by_uid(self) -> Mapping[str, Member]:
        return {member.uid: member for member in self._members}

    @cached_property
    def _of_controller(self) -> Mapping[str, list[Member]]:
        found: dict[str, list[Member]] = {}
        for member in self._members:
            found.setdefault(member.controller.uid, []).append(member)
        return found

    @cached_property
    def _of_parent(self) -> Mapping[str, list[Member]]:
        """Uid of the controller of Jobs -> members of all of these Jobs."""
        found: dict[str, list[Member]] = {}
        for members in self._of_controller.values():
            job = job_of(members[0].pod, self._jobs)
            if job is not None and job.metadata.controller is not None:
                found.setdefault(job.metadata.controller.uid, []).extend(members)
        return found

    def of(self, member: Member, *, outgoing: AbstractSet[str] = frozenset()) -> Fate:
        """The fate of a member, if others of its Job on its node may be evicted together with it.

        Args:
            member: one of all members.
            outgoing: uids of pods that must leave already.
        """
        node = member.pod.spec.node_name
        at_once = sum(
            other.leaves or other.uid in outgoing or other.pod.spec.node_name == node
            for other in self._of_controller.get(member.controller.uid, ())
        )
        return fate_of(member.pod, self._jobs, at_once=max(1, at_once))

    def nodes_of(self, uids: AbstractSet[str]) -> frozenset[str]:
        """The nodes with members of what these members' controllers run: their fates depend on them."""
        controllers = {self._by_uid[uid].controller.uid for uid in uids if uid in self._by_uid}
        of_them = (member for uid in controllers for member in self._of_controller[uid])
        return frozenset(filter(None, (member.pod.spec.node_name for member in of_them)))

    def gang(self, key: str) -> list[Member]:
        """The members of a gang that are not terminating; key: ``Fate.gang``."""
        members = self._of_controller.get(key) or self._of_parent.get(key) or []
        return [member for member in members if not member.leaves]
