"""What is configured for a device of a claim, and why this driver does not give it. Pure.

kube-scheduler copies the configuration of DeviceClasses and of the claim into the allocation. For each
device the last entry counts that is for its request and for its kind, and the claim's entries come after
those of its classes: so a claim replaces what its class says, as a whole.
Source: Kubernetes 1.37 (resource/v1/types.go, structured/internal), NVIDIA k8s-dra-driver-gpu 25.x.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from cluster.objects.claims import Configuration

GPU: Final = "GpuConfig"
"""For whole GPUs."""
MIG: Final = "MigDeviceConfig"
"""For MIG devices."""
FROM_CLAIM: Final = "FromClaim"
BY_ITSELF: Final[tuple[dict[str, Any], ...]] = ({}, {"timeSlicingConfig": {"interval": "Default"}})
"""With TimeSlicing: processes on a GPU take turns so, unless somebody sets other intervals."""

Parameters = Mapping[str, Any]
"""What is meant for one driver, as the user wrote it."""


def configured(
    request: str, entries: Iterable[Configuration], driver: str, *, is_mig: bool
) -> Parameters | None:
    """What counts for a device; None if nothing is configured for it.

    A claim that names the request of a device and means another kind of device has its way: ``problem_of``
    says what is wrong.

    Args:
        request: by which the claim has the device: ``<request>`` or ``<request>/<alternative>``.
        entries: of the allocation.
        driver: whose devices these are.
        is_mig: whether it is a MIG device.
    """
    found: Parameters | None = None
    for one in sorted(entries, key=lambda one: one.source == FROM_CLAIM):
        if one.opaque is None or one.opaque.driver != driver or not _is_for(request, one.requests):
            continue
        parameters = one.opaque.parameters or {}
        is_named = one.source == FROM_CLAIM and request in one.requests
        if is_named or parameters.get("kind") != (GPU if is_mig else MIG):
            found = parameters
    return found


def problem_of(parameters: Parameters, driver: str, *, is_mig: bool) -> str | None:
    """Why this is not given to a device, a clause; None if it is."""
    given = {key: value for key, value in parameters.items() if value}
    kind = given.pop("kind", None)
    given.pop("apiVersion", None)
    if kind not in {GPU, MIG}:
        return f"The driver {driver} here knows no configuration of kind {kind}"
    if (kind == MIG) != is_mig:
        return f"A {kind} is configured for a {'MIG device' if is_mig else 'whole GPU'}"
    sharing = given.pop("sharing", {})
    if given:
        return f"The driver {driver} here gives no {min(given)} of a {kind}"
    return _sharing_problem(sharing, driver)


def _is_for(request: str, requests: tuple[str, ...]) -> bool:
    return not requests or request in requests or request.partition("/")[0] in requests


def _sharing_problem(sharing: Any, driver: str) -> str | None:
    if not isinstance(sharing, Mapping):
        return f"The driver {driver} here gives no sharing {sharing!r}"
    more = {key: value for key, value in sharing.items() if value}
    strategy = more.pop("strategy", None)
    if not (strategy or more) or (strategy == "TimeSlicing" and more in BY_ITSELF):
        return None
    settings = f" with {' and '.join(sorted(more))}" if more else ""
    return f"The driver {driver} here gives no sharing by {strategy}{settings}"
