"""Law L1 at Allocate: devices that another living pod has are given to nobody else. Pure."""

from collections.abc import Collection

from deviceplugin.allocation.preferred import AllocationRequest, NodeState, candidates, held_message


def held_elsewhere(devices: Collection[str], view: NodeState) -> str | None:
    """Why these devices may not be given to the container that is being admitted; None when they may.

    A device in the checkpoint is no obstacle when the pod that it stands under has ended, or is the one that
    is being admitted (an app container takes over the devices of a regular init container). Where the pod
    cannot be told, the devices are given: PreStartContainer sees both pods, and a refusal there is not final.
    """
    if view.holdings is None or view.pods is None:
        return None
    wanted = frozenset(devices)
    holders = view.holdings.holders(wanted) & {pod.metadata.uid for pod in view.living}
    found = candidates(AllocationRequest(wanted, wanted, len(wanted)), view)
    if not holders or len(found) != 1:
        return None
    others = holders - {found[0].uid}
    if not others:
        return None
    held = frozenset[str]().union(*(view.holdings.of(uid) for uid in others)) & wanted
    pods = tuple(pod for pod in view.living if pod.metadata.uid in others)
    return held_message(held, NodeState(view.resource, view.holdings, pods))
