"""Does a pod fit on a node, and if not: why.

The order of the checks is the order in which a person would want to hear about them. What a reason is, and
why its text never changes: ``reasons``.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from cluster.decide import reasons
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import State
from cluster.decide.offer import offered, together, wanted
from cluster.decide.reasons import Reason
from cluster.decide.wish import Wish
from cluster.objects.hold import Hold

CORDONED: Final = reasons.CORDONED.said()
NOT_PUBLISHED: Final = reasons.NOT_PUBLISHED.said()
AGENT: Final[Mapping[State, Reason]] = {
    "unseen": reasons.UNSEEN.said(),
    "silent": reasons.SILENT.said(),
    "stopping": reasons.STOPPING.said(),
    "unconfirmed": reasons.UNCONFIRMED.said(),
    "refusing": reasons.REFUSING.said(),
    "short": reasons.SHORT.said(),
}
TOO_MANY: Final = reasons.TOO_MANY.said()
KEPT: Final = reasons.KEPT.said()
NOMINATED: Final = reasons.NOMINATED.said()
PROMISED: Final = reasons.PROMISED.said()
UNACCOUNTED: Final = reasons.UNACCOUNTED.said()
RESERVED: Final = reasons.RESERVED.said()
SICK: Final = reasons.SICK.said()
FREED: Final = reasons.FREED.said()
MISFIT: Final = reasons.MISFIT.said()


def obstacle(wish: Wish, view: NodeView, agent: State) -> Reason | None:
    """Why the pod does not fit on the node, None when it does.

    Args:
        wish: what the pod wants.
        view: the node.
        agent: how the node's agent is doing.
    """
    if not wish.demand:
        return None
    if wish.pin and wish.pin.node != view.name:
        return elsewhere(wish.pin)
    if closed := _closed(wish, view, agent):
        return closed
    for resource, needed in wish.demand.items():
        # A device held by a pod of which nobody has said which it is may be any of the free ones.
        spare = together(offered(wish, view, resource), wish) - view.unknown.get(resource, 0)
        if spare < needed:
            return next(_shortages(wish, view, resource, needed))
    return None


def _closed(wish: Wish, view: NodeView, agent: State) -> Reason | None:
    """Why the node takes no such pod at all, whatever is free there."""
    if view.is_cordoned and not wish.bears_cordon:
        return CORDONED
    if view.fault:
        return reasons.UNREADABLE.said(view.fault)
    if not view.published:
        return NOT_PUBLISHED
    return None if agent == "alive" else AGENT[agent]


def elsewhere(pin: Hold) -> Reason:
    """The pod waits for devices of another node."""
    return reasons.ELSEWHERE.said(pin.node)


def unhealthy(wish: Wish) -> Reason:
    """The node has enough GPUs for the pod, but too many of them are sick."""
    return reasons.UNHEALTHY.said(wish.wished.text)


def in_use(wish: Wish) -> Reason:
    """The node has enough healthy GPUs for the pod, but others hold them."""
    return reasons.IN_USE.said(wish.wished.text)


def _shortages(wish: Wish, view: NodeView, resource: str, needed: int) -> Iterator[Reason]:
    """Everything that is short, the most lasting first."""
    everything = view.all_by_model.get(resource, {})
    matching = wanted(everything, wish)
    of_one_model = together(everything, wish)
    if sum(map(len, everything.values())) < needed:
        yield TOO_MANY
    if not matching:
        yield reasons.NO_SUCH.said(wish.wished.text)
    if matching < needed:
        yield reasons.TOO_MANY_SUCH.said(wish.wished.text)
    if of_one_model < needed:
        yield reasons.MIXED_MODELS.said(wish.wished.text)
    if together(view.healthy_by_model.get(resource, {}), wish) < needed:
        yield unhealthy(wish)
    if wish.pin:
        yield _withheld(wish.pin, wish, view)
    if together(view.unheld_by_model.get(resource, {}), wish) < needed:
        yield in_use(wish)
    if together(view.free_by_model.get(resource, {}), wish) < needed:
        yield KEPT
    if together(offered(wish, view, resource), wish) < needed:
        yield NOMINATED
    yield UNACCOUNTED


def _withheld(pin: Hold, wish: Wish, view: NodeView) -> Reason:
    """Why a pod is not given the devices that are kept for it."""
    devices = {device.uuid: device for device in view.devices}
    if not set(pin.devices) <= devices.keys():
        return MISFIT
    if not all(devices[uuid].is_healthy for uuid in pin.devices):
        return SICK
    if any(view.held.get(uuid) for uuid in pin.devices):
        return FREED
    if any(view.kept.get(uuid, wish.uid) != wish.uid for uuid in pin.devices):
        return KEPT
    enough = all(together(offered(wish, view, name), wish) >= needed for name, needed in wish.demand.items())
    return UNACCOUNTED if enough else MISFIT
