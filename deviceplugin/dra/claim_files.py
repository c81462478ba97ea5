"""One CDI specification for each claim: what the container runtime adds for its devices."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from cluster import claim_names
from deviceplugin.device_nodes import DeviceNodes
from deviceplugin.dra.prepared import PreparedClaim, PreparedDevice
from deviceplugin.injection import cdi
from deviceplugin.injection.share_edits import Hook, claimed_edits, container_edits

More = Mapping[str, Mapping[str, Any]]
"""Device -> what is added for it besides its nodes, in the words of CDI."""
Specification = Callable[[DeviceNodes, More], bytes]
"""The text of a specification with these devices, and more of some."""


class ClaimFiles:
    """The specifications of claims in the runtime's folder."""

    def __init__(self, folder: Path, specification: Specification, hook: Hook | None = None) -> None:
        """Args: hook: a library that limits containers with shares."""
        self._folder = folder
        self._specification = specification
        self._hook = hook

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
        own = {_device(claim.uid, one): nodes.of_device[one.uuid] for one in claim.devices}
        text = self._specification(DeviceNodes(own, nodes.common), self._limits(claim))
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

    def _limits(self, claim: PreparedClaim) -> More:
        """What containers are told of their shares. Those of one request come into a container together."""
        shares: dict[str, dict[str, int]] = {}
        for one in claim.devices:
            if one.memory:
                of_request = shares.setdefault(one.request, {})
                of_request[one.uuid] = of_request.get(one.uuid, 0) + one.memory
        edits = {name: container_edits(claimed_edits(of, self._hook)) for name, of in shares.items()}
        return {_device(claim.uid, one): edits[one.request] for one in claim.devices if one.memory}

    def _path(self, uid: str) -> Path:
        return self._folder / f"{claim_names.CLAIM_CDI_PREFIX}{uid}.json"


def cdi_names(claim: PreparedClaim, device: PreparedDevice) -> list[str]:
    """By which names the kubelet has the runtime add a device of the claim."""
    return [f"{claim_names.CLAIM_CDI_KIND}={_device(claim.uid, device)}"]


def _device(uid: str, one: PreparedDevice) -> str:
    return "-".join(filter(None, (uid, one.device, one.share)))
