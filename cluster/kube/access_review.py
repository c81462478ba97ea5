"""The permissions of users, by the API server's SubjectAccessReview (authorization.k8s.io/v1).

Used by the booking server, and by the node agent's doctor about itself. Roles are permissions on virtual
resources, granted in the cluster's RBAC: no resource of that name has to exist (ADR 22).
"""

from dataclasses import dataclass
from typing import Final, Protocol

from cluster.kube.interface import Kube
from cluster.kube.resources import Resource
from cluster.kube.token_review import Subject
from cluster.objects.meta import Meta, Partial


class AccessReviewStatus(Partial, frozen=True):
    """``status`` of a SubjectAccessReview: the answer."""

    allowed: bool = False


class AccessReview(Partial, frozen=True):
    """A SubjectAccessReview, reduced to its answer; never stored."""

    metadata: Meta = Meta()
    status: AccessReviewStatus = AccessReviewStatus()


ACCESS_REVIEWS: Final = Resource(
    group="authorization.k8s.io",
    version="v1",
    plural="subjectaccessreviews",
    kind="SubjectAccessReview",
    namespaced=False,
    type=AccessReview,
)


OWN_ACCESS_REVIEWS: Final = Resource(
    group="authorization.k8s.io",
    version="v1",
    plural="selfsubjectaccessreviews",
    kind="SelfSubjectAccessReview",
    namespaced=False,
    type=AccessReview,
)


@dataclass(frozen=True, slots=True)
class Permission:
    """Something that can be done at the API server; in the whole cluster if no namespace is named."""

    verb: str
    resource: str
    """Such as ``pods``, or with a subresource ``nodes/status``."""
    group: str = ""
    namespace: str = ""

    def __str__(self) -> str:
        """Such as ``patch nodes`` or ``create leases in gpu-booking``."""
        return f"{self.verb} {self.resource}" + (f" in {self.namespace}" if self.namespace else "")


def may_i(kube: Kube, right: Permission) -> bool:
    """Whether the caller has this permission.

    Raises:
        ApiError: the API server could not be asked.
    """
    resource, _, subresource = right.resource.partition("/")
    attributes = {"group": right.group, "resource": resource, "verb": right.verb}
    if subresource:
        attributes["subresource"] = subresource
    if right.namespace:
        attributes["namespace"] = right.namespace
    return kube.create(OWN_ACCESS_REVIEWS, {"spec": {"resourceAttributes": attributes}}).status.allowed


class Access(Protocol):
    """Reviews the permissions of users."""

    def may(self, who: Subject, verb: str, *, group: str, resource: str, namespace: str = "") -> bool:
        """Whether a user has this permission; in the whole cluster if no namespace is named.

        Raises:
            ApiError: the API server could not be asked.
        """
        ...


class AccessReviews:
    """``Access`` that asks the API server."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def may(self, who: Subject, verb: str, *, group: str, resource: str, namespace: str = "") -> bool:
        """See ``Access``."""
        attributes = {"group": group, "resource": resource, "verb": verb}
        if namespace:
            attributes["namespace"] = namespace
        spec = {"user": who.name, "groups": sorted(who.groups), "resourceAttributes": attributes}
        return self._kube.create(ACCESS_REVIEWS, {"spec": spec}).status.allowed
