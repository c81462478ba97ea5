"""One CDI specification for each claim: what the container runtime adds for its devices."""

from collections.abc import Callable, Collection
from pathlib import Path

from cluster import claim_names
from deviceplugin.device_nodes import DeviceNodes
from deviceplugin.dra.prepared import PreparedClaim
from deviceplugin.injection import cdi

Specification = Callable[[DeviceNodes], bytes]
"""The text of a specification with these devices."""


class ClaimFiles:
    """The specifications of claims in the runtime's folder."""

    def __init__(self, folder: Path, specification: Specification) -> None:
        self._folder = folder
        self._specification = specification

    def has(self, claim: PreparedClaim) -> bool:
        """Whether the claim has its file."""
        return self._path(claim.uid).exists()

    def write(self, claim: PreparedClaim, nodes: DeviceNodes) -> None:
        """Write a claim's file, with the device nodes as they are now.

        Raises:
            OSError: the folder cannot be written.
        """
        if gone := [one.device for one in claim.devices if one.uuid not in nodes.of_device]:
            raise OSError(f"{gone[0]} has no device nodes now")
        own = {_device(claim.uid, one.device): nodes.of_device[one.uuid] for one in claim.devices}
        text = self._specification(DeviceNodes(own, nodes.common))
        cdi.write(self._folder, text, name=self._path(claim.uid).name)

    def remove(self, uid: str) -> None:
        """Remove a claim's file, if it has one."""
        self._path(uid).unlink(missing_ok=True)

    def keep_only(self, uids: Collection[str]) -> None:
        """Remove the files of all other claims."""
        wanted = {self._path(uid) for uid in uids}
        for path in self._folder.glob(f"{claim_names.CLAIM_CDI_PREFIX}*.json"):
            if path not in wanted:
                path.unlink(missing_ok=True)

    def _path(self, uid: str) -> Path:
        return self._folder / f"{claim_names.CLAIM_CDI_PREFIX}{uid}.json"


def cdi_names(claim: PreparedClaim, device: str) -> list[str]:
    """By which names the kubelet has the runtime add a device of the claim."""
    return [f"{claim_names.CLAIM_CDI_KIND}={_device(claim.uid, device)}"]


def _device(uid: str, device: str) -> str:
    return f"{uid}-{device}"
