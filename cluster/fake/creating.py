"""Creation, in the order of the real server.

Namespace, defaults, admission, name, status, and only then the check whether the name is taken. A dry run
does everything but store the object.
"""

from typing import Final

from cluster.fake.core import Attributes, ServerCore, text_of
from cluster.fake.errors import refusal
from cluster.fake.kinds import BORN_WITH_STATUS, COUNTED, NAMESPACES, PODS, WITH_STATUS
from cluster.fake.label_keys import merged
from cluster.fake.limit_ranges import LIMIT_RANGES, check_limits, limited, stored_limits
from cluster.fake.pod_defaults import born, defaulted, prioritised
from cluster.fake.state import Json, State, plain
from cluster.kube.errors import Request
from cluster.kube.resources import Resource, T

LONGEST_NAME: Final = 63
_SUFFIX: Final = 5
_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""The real server's letters: no vowels, so that no words result."""
_NOT_GIVEN: Final = frozenset(
    {"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink"}
)
"""Fields that only the server sets; a client's values are dropped."""


def created(
    core: ServerCore,
    request: Request,
    resource: Resource[T],
    body: Json,
    *,
    namespace: str | None,
    user: str,
    dry_run: bool,
) -> State:
    """Create an object, or, in a dry run, return what would be created."""
    obj = _addressed(request, body, namespace)
    _check_namespace(core, request, namespace)
    obj = _admitted(core, request, resource, obj, user=user, dry_run=dry_run)
    obj = _identified(core, request, resource, obj)
    if resource.plural == PODS:
        obj = merged(request, born(obj, obj["metadata"]["creationTimestamp"]))
    elif resource.plural in WITH_STATUS - BORN_WITH_STATUS:
        obj.pop("status", None)
    _check_taken(core, request, resource, obj["metadata"])
    return State(obj) if dry_run else core.store.write(resource, obj)


def _addressed(request: Request, body: Json, namespace: str | None) -> Json:
    metadata = {key: value for key, value in (body.get("metadata") or {}).items() if key not in _NOT_GIVEN}
    if namespace is not None and metadata.setdefault("namespace", namespace) != namespace:
        message = "the namespace of the provided object does not match the namespace sent on the request"
        raise refusal(request, 400, "BadRequest", message)
    return {**body, "metadata": metadata}


def _check_namespace(core: ServerCore, request: Request, namespace: str | None) -> None:
    """Refuse a namespace that does not exist.

    Before the first Namespace object is created, every namespace counts as existing.
    """
    known = len(core.store.table(NAMESPACES))
    if namespace and known and core.store.find(NAMESPACES, None, namespace) is None:
        raise refusal(request, 404, "NotFound", f'namespaces "{namespace}" not found')


def _admitted(
    core: ServerCore, request: Request, resource: Resource[T], obj: Json, *, user: str, dry_run: bool
) -> Json:
    is_pod = resource.plural == PODS
    if is_pod:
        obj = prioritised(request, core.store, limited(core.store, defaulted(obj)))
    elif resource.plural == LIMIT_RANGES:
        obj = stored_limits(obj)
    if core.admission is None:
        return _checked(core, request, obj) if is_pod else obj
    attributes = Attributes(
        plural=resource.plural,
        namespace=obj["metadata"].get("namespace"),
        obj=plain(obj),
        user=user,
        dry_run=dry_run,
    )
    obj = plain(core.admission(attributes))
    if not is_pod:
        return obj
    # The plugins run once more after a webhook has changed the pod.
    return _checked(core, request, prioritised(request, core.store, limited(core.store, defaulted(obj))))


def _checked(core: ServerCore, request: Request, pod: Json) -> Json:
    check_limits(request, core.store, pod)
    return pod


def _identified(core: ServerCore, request: Request, resource: Resource[T], obj: Json) -> Json:
    """The object with a name, a uid and its creation time, and without empty fields in its metadata."""
    metadata = {key: value for key, value in obj["metadata"].items() if value not in (None, {}, [])}
    if metadata.get("resourceVersion"):
        message = "resourceVersion should not be set on objects to be created"
        raise refusal(request, 500, "InternalError", message)
    if not metadata.get("name"):
        if not metadata.get("generateName"):
            message = (
                f"{resource.kind} is invalid: metadata.name: Required value: name or generateName is required"
            )
            raise refusal(request, 422, "Invalid", message)
        metadata["name"] = _generated(metadata["generateName"], next(core.numbers))
    metadata["uid"] = f"uid-{next(core.numbers)}"
    metadata["creationTimestamp"] = text_of(core.now())
    if resource.plural in COUNTED:
        metadata["generation"] = 1
    return {**obj, "metadata": metadata}


def _generated(prefix: str, number: int) -> str:
    """A name with this prefix, cut to the longest name. Not random: a repeated test gets the same names."""
    base = len(_LETTERS)
    # Multiplier and modulus have no common divisor: no name comes twice, and neighbours are far apart.
    rest, suffix = number * 7_368_787 % base**_SUFFIX, ""
    for _ in range(_SUFFIX):
        rest, letter = divmod(rest, base)
        suffix += _LETTERS[letter]
    return prefix[: LONGEST_NAME - _SUFFIX] + suffix


def _check_taken(core: ServerCore, request: Request, resource: Resource[T], metadata: Json) -> None:
    there = core.store.find(resource.plural, metadata.get("namespace"), metadata["name"])
    if there is None:
        return
    message = f'{resource.plural} "{metadata["name"]}" already exists'
    if there.metadata.get("deletionTimestamp"):
        message = f"object is being deleted: {message}"
    raise refusal(request, 409, "AlreadyExists", message)
