"""Law L1 at Allocate: a device that a live pod holds is not given to another pod. Pure."""

from collections.abc import Collection

from deviceplugin.allocation.pod_devices import excluded
from deviceplugin.allocation.preferred import AllocationRequest, NodeState, candidates, held_message


def held_elsewhere(devices: Collection[str], state: NodeState) -> str | None:
    """Why the container that is being admitted may not have these devices; None if it may.

    A GPU of which others hold a share may not be had whole, nor the other way round.
    A device in the checkpoint is free if the pod of its entry has ended, or is the one that is being admitted
    (an app container takes over the devices of a regular init container). If it is unknown which pod is being
    admitted, the devices are allocated: PreStartContainer sees both pods, and a refusal there is not final.
    """
    if state.holdings is None or state.pods is None:
        return None
    wanted = frozenset(devices)
    holders = state.holdings.holders(wanted) & {pod.metadata.uid for pod in state.living}
    found = candidates(AllocationRequest(wanted, wanted, len(wanted)), state)
    if not holders or len(found) != 1:
        return None
    others = holders - {found[0].uid}
    if not others:
        return None
    held = excluded(wanted, state.holdings.of_any(others))
    pods = tuple(pod for pod in state.living if pod.metadata.uid in others)
    return held_message(held, NodeState(state.resource, state.holdings, pods))
