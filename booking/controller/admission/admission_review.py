"""``admission.k8s.io/v1`` AdmissionReview, as far as we read and write it."""

import msgspec

from cluster.objects.meta import Partial, ready

API_VERSION = "admission.k8s.io/v1"
KIND = "AdmissionReview"


class GroupKind(Partial, frozen=True):
    """``kind`` of a request."""

    group: str = ""
    version: str = ""
    kind: str = ""


class UserInfo(Partial, frozen=True):
    """The user who sends the request, as the API server has authenticated them."""

    username: str = ""
    groups: tuple[str, ...] = ()


class Request(Partial, frozen=True):
    """``request``: the operation that a client asks for."""

    uid: str
    kind: GroupKind
    operation: str
    user_info: UserInfo
    sub_resource: str = ""
    namespace: str = ""
    name: str = ""
    """Empty if the API server generates the name (``generateName``)."""
    object: msgspec.Raw = msgspec.Raw(b"null")
    """The object as it would be stored; null for a deletion."""
    old_object: msgspec.Raw = msgspec.Raw(b"null")
    """The object as it is stored; null for a creation."""
    dry_run: bool = False

    @property
    def is_new_pod(self) -> bool:
        """Whether a pod is being created, as opposed to one of its subresources."""
        is_pod = (self.kind.group, self.kind.kind, self.sub_resource) == ("", "Pod", "")
        return is_pod and self.operation == "CREATE"


@ready
class AdmissionReview(Partial, frozen=True):
    """The AdmissionReview that the API server sends."""

    api_version: str
    kind: str
    request: Request


class Refusal(Partial, frozen=True):
    """Why a pod is refused; the API server shows the message to whoever creates it."""

    code: int
    reason: str
    message: str


class Response(Partial, frozen=True):
    """``response`` of the AdmissionReview."""

    uid: str
    allowed: bool
    status: Refusal | None = None
    """Only where it is not allowed."""
    patch_type: str | None = None
    """``JSONPatch``; None where there is no patch."""
    patch: bytes | None = None
    """The patch in JSON, base64-encoded on the wire; None where nothing is changed."""
    warnings: tuple[str, ...] | None = None


class AdmissionAnswer(Partial, frozen=True):
    """The AdmissionReview that we answer."""

    api_version: str
    kind: str
    response: Response
