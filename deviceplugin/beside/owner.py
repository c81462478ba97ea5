"""Who gives out the node's GPUs: as the label says, once nobody's device could be given away by that. Pure.

Between this agent's device plugin and its driver of claims a node changes at once: the agent sees who has
what in both ways, and holds single devices back. It waits where that is not known to whoever is next: another
plugin knows no claims and no slots of ours, and ours no replicas of that one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from cluster import names
from cluster.objects.nodes import Node

Whose = Literal["ours", "existing", "dra"]
"""This agent's device plugin, another one that is there already, or this agent's driver of claims."""

NAMED: Final = 3
"""Claims that a message names."""


@dataclass(frozen=True, kw_only=True)
class Held:
    """What is held on the node. None: not known, and then it may be anything."""

    claims: tuple[str, ...] | None = ()
    """``namespace/name`` of claims that are prepared, or allocated for a pod of this node."""
    slots: int | None = 0
    """How many GPUs living pods share by slots of ours."""
    replicas: int | None = 0
    """How many GPUs living pods have by another plugin's replicas, under a name of whole devices."""
    is_offered: bool = False
    """Whether kube-scheduler is still offered devices for claims."""


@dataclass(frozen=True)
class Way:
    """How the node gives out its GPUs now."""

    whose: Whose
    waits: str | None = None
    """Why it is not as the label says yet, for people. No device is offered anew then."""


def whose(node: Node, default: Whose) -> Whose:
    """Who is to give out the GPUs by the Node's label; the default without one, or with an unknown word."""
    return _word(node, names.DEVICE_PLUGIN) or default


def given_by(node: Node) -> Whose | None:
    """Who gave them out until now, as an agent has written; None if none has."""
    return _word(node, names.GIVEN_BY)


def way(wanted: Whose, was: Whose | None, held: Callable[[], Held]) -> Way:
    """How to give out the GPUs now.

    Args:
        wanted: by the label.
        was: who gave them out until now; None if that is not known.
        held: reads what is held; asked only where it matters.
    """
    if wanted == "dra" or (wanted, was) == ("ours", "ours"):
        return Way(wanted)
    why = _existing_waits(was, held()) if wanted == "existing" else _ours_waits(was, held())
    if why is None:
        return Way(wanted)
    stays: Whose = "dra" if wanted == "existing" else "existing"
    if was is not None and was != wanted:
        stays = was
    remedy = "it gives out nothing anew until then"
    return Way(stays, f"The label {names.DEVICE_PLUGIN} says {wanted!r}, but {why}: {remedy}.")


def _existing_waits(was: Whose | None, held: Held) -> str | None:
    """Why another plugin, which knows neither claims nor slots of ours, may not begin."""
    if held.claims is None:
        return "it is not known which claims have GPUs of this node"
    if held.claims:
        return f"claims have GPUs of this node ({_few(held.claims)})"
    if was in ("ours", "dra"):
        if held.slots is None:
            return "it is not known which pods share GPUs of this node"
        if held.slots:
            return f"pods share GPUs of this node ({held.slots})"
    return _withdrawing(was, held)


def _ours_waits(was: Whose | None, held: Held) -> str | None:
    """Why our plugin, which does not know another one's replicas, may not begin."""
    if held.replicas is None and was == "existing":
        return "it is not known which pods have replicas of GPUs by another plugin"
    if held.replicas:
        return f"pods have replicas of GPUs by another plugin ({held.replicas})"
    return _withdrawing(was, held)


def _withdrawing(was: Whose | None, held: Held) -> str | None:
    if was == "dra" and held.is_offered:
        return "its devices for claims have to be withdrawn first"
    return None


def _few(claims: tuple[str, ...]) -> str:
    more = f" and {len(claims) - NAMED} more" if len(claims) > NAMED else ""
    return ", ".join(sorted(claims)[:NAMED]) + more


def _word(node: Node, key: str) -> Whose | None:
    label = (node.metadata.labels or {}).get(key)
    found: dict[str, Whose] = {word: word for word in get_args(Whose)}
    return found.get(label or "")
