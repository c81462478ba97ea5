"""What is right and wrong about claims on a node: for the doctor."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cluster import names
from cluster.kube.errors import ApiError
from deviceplugin.dra.prepared import PreparedClaim, PreparedError, PreparedFile, under_another_name
from deviceplugin.dra.slice_publisher import beside_another_driver
from deviceplugin.kubelet.channel import is_served

Check = tuple[Literal["fine", "warning", "wrong"], str]


@dataclass(frozen=True, kw_only=True)
class Examined:
    """What is looked at."""

    registry: Path
    """The folder in which the kubelet looks for drivers."""
    record: PreparedFile
    foreign: Callable[[], tuple[str, ...]]
    """Names of other drivers' ResourceSlices; raises ApiError."""
    orphans: Callable[[], list[PreparedClaim]]
    """Claims whose end was lost; raises OSError."""


def checks(examined: Examined, driver: str, *, are_given: bool) -> Iterator[Check]:
    """Every finding.

    Args:
        examined: what is looked at.
        driver: its name.
        are_given: whether this node gives its GPUs by claims.
    """
    try:
        claims = examined.record.read()
    except PreparedError as error:
        yield "wrong", f"{error} Until it can be read the node gives no GPU that a claim may have."
        return
    if message := under_another_name(examined.record, driver):
        yield "wrong", message
    if not are_given and not claims:
        yield "fine", "The node gives no GPUs by claims, and none has one."
        return
    if not any(map(is_served, examined.registry.glob(f"{names.SOCKET_PREFIX}*.sock"))):
        message = f"None of our sockets in {examined.registry} answers: the kubelet has no driver of claims."
        yield "wrong", f"{message} See the agent's /readyz."
    try:
        if are_given and (foreign := examined.foreign()):
            yield "wrong", beside_another_driver(foreign[0], driver)
        lost = examined.orphans() if claims else []
    except (ApiError, OSError) as error:
        yield "warning", f"Not everything about claims is known: {error}"
        lost = []
    for claim in lost:
        message = (
            f"{claim.key} is prepared, but has no device for the API server any more or for the kubelet."
        )
        yield "warning", f"{message} Its devices are free for the next claim that gets one of them."
    yield "fine", f"Prepared on this node: {len(claims)}."
