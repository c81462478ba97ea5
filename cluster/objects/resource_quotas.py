"""ResourceQuotas, reduced to what limits the pods of a namespace.

Source: k8s.io/api/core/v1 ``ResourceQuota``. An extended resource is limited by the key ``requests.<name>``.
"""

from cluster.objects.meta import Meta, Partial


class ScopeRequirement(Partial, frozen=True):
    """An entry of ``scopeSelector.matchExpressions``."""

    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class ScopeSelector(Partial, frozen=True):
    """``scopeSelector``: all of it must match."""

    match_expressions: tuple[ScopeRequirement, ...] | None = None


class QuotaSpec(Partial, frozen=True):
    """``spec`` of a ResourceQuota."""

    scopes: tuple[str, ...] | None = None
    scope_selector: ScopeSelector | None = None


class QuotaStatus(Partial, frozen=True):
    """``status`` of a ResourceQuota: quantities by key."""

    hard: dict[str, str] | None = None
    used: dict[str, str] | None = None


class ResourceQuota(Partial, frozen=True):
    """A v1 ResourceQuota."""

    metadata: Meta = Meta()
    spec: QuotaSpec = QuotaSpec()
    status: QuotaStatus = QuotaStatus()
