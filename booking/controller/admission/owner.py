"""The owner of a new pod follows from its creator, never from what the pod claims about itself (law L7)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from booking.wording import quoted
from cluster import names
from cluster.decide.identity import DEFAULT_RULES, Rule, UsersOf, is_account, user_of
from cluster.objects.meta import Meta


@dataclass(frozen=True, slots=True, kw_only=True)
class Creators:
    """How the owner of a pod follows from its creator: identity rules and trusted creators."""

    rules: tuple[Rule, ...] = DEFAULT_RULES
    """Rules that map raw names to user ids."""
    trusted: frozenset[str] = frozenset()
    """Usernames whose pods name their owner in JupyterHub's annotation, or in the label of the same key."""
    ourselves: str
    """The reclaimer's username: pods that it recreates carry all their annotations already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """A user id, or why there is none."""

    user: str | None = None
    why: str = ""
    """The beginning of a sentence; empty where there is a user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodNamespace:
    """The namespace of a pod, and what administrators have written on it."""

    name: str = ""
    owner: str | None = None
    """User id of the owner of pods that controllers create in the namespace."""
    is_protected: bool = False
    """Whether none of its pods is evicted for a booking."""
    default_share: str | None = None
    """What a plain GPU of its pods means, as written; None for a whole GPU."""


def owner(
    creator: str, meta: Meta, *, namespace: PodNamespace, creators: Creators, known: Callable[[], UsersOf]
) -> Ownership:
    """The owner of a pod.

    Args:
        creator: ``userInfo.username`` of the request.
        meta: the pod's, as it came; it counts where the creator is trusted.
        namespace: where it is created.
        creators: whose word counts.
        known: labels of JupyterHub, and the known users who may have them.
    """
    annotations = meta.annotations or {}
    if creator == creators.ourselves:
        return _named(annotations.get(names.USER), "It came back without a user")
    if creator in creators.trusted:
        return _of_hub(annotations, meta.labels or {}, known, creators.rules)
    user = user_of("kubernetes", creator, creators.rules)
    if user or not is_account(creator):
        return _named(user, f"{_short(creator)} is not a user")
    return _named(
        namespace.owner,
        f"{_short(creator, 56)} acts for others, and no administrator has set {names.OWNER} on namespace"
        f" {_short(namespace.name, 24)}",
    )


def _of_hub(
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    known: Callable[[], UsersOf],
    rules: tuple[Rule, ...],
) -> Ownership:
    """The owner by JupyterHub's annotation, which holds the raw name; without one, by the label."""
    raw, label = annotations.get(names.HUB_USER), labels.get(names.HUB_USER)
    if raw is not None:
        return _named(
            user_of("jupyterhub", raw, rules),
            f"The annotation {names.HUB_USER} names no user: {_short(quoted(raw))}",
        )
    if label is None:
        return Ownership(why=f"It has neither annotation nor label {names.HUB_USER}")
    users = known().get(label, frozenset())
    if len(users) > 1:
        may = _short(" or ".join(sorted(users)))
        return Ownership(
            why=f"The label {names.HUB_USER} may mean {may}, and an annotation of that name is missing"
        )
    return _named(
        next(iter(users), None), f"The label {names.HUB_USER} is of no known user: {_short(quoted(label))}"
    )


def _named(user: str | None, why: str) -> Ownership:
    return Ownership(user=user) if user else Ownership(why=why)


def _short(text: str, longest: int = 70) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
