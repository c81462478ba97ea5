"""Jobs (batch/v1), with the fields that decide what becomes of a Job when one of its pods is evicted."""

from cluster.objects.meta import Meta, Partial


class ExitCodes(Partial, frozen=True):
    """``onExitCodes`` of a rule: containers that ended with such a code."""

    operator: str = ""
    """``In`` or ``NotIn``."""
    values: tuple[int, ...] | None = None


class PodCondition(Partial, frozen=True):
    """One entry of ``onPodConditions`` of a rule."""

    type: str = ""
    status: str | None = None
    """None means ``True``."""


class FailureRule(Partial, frozen=True):
    """One rule of ``spec.podFailurePolicy``; the first that matches a failed pod counts."""

    action: str = ""
    """``Ignore``, ``Count``, ``FailJob`` or ``FailIndex``."""
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: tuple[PodCondition, ...] | None = None


class FailurePolicy(Partial, frozen=True):
    """``spec.podFailurePolicy``."""

    rules: tuple[FailureRule, ...] | None = None


class JobSpec(Partial, frozen=True):
    """``spec`` of a Job."""

    backoff_limit: int | None = None
    """How many of its pods may fail; with one more it fails as a whole. The API server writes the default."""
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    pod_failure_policy: FailurePolicy | None = None


class JobStatus(Partial, frozen=True):
    """``status`` of a Job."""

    failed: int | None = None
    """How many of its pods have failed."""


class Job(Partial, frozen=True):
    """A batch/v1 Job."""

    metadata: Meta = Meta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
