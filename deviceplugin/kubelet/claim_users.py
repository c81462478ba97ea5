"""Which pods use which claims: the kubelet's own record of what it has prepared.

Source: kubelet 1.37.1, cm/dra/state. The kubelet notes a pod before it calls a driver for it, and drops it
once its containers have ended.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from cluster.objects.meta import UNREADABLE, ready

NAME: Final = "dra_manager_state"
"""In the kubelet's folder."""


class ClaimUsersError(Exception):
    """The record cannot be read, or has a form that is not known."""


class _Claim(msgspec.Struct):
    uid: str = msgspec.field(name="ClaimUID")
    pods: dict[str, object] | None = msgspec.field(name="PodUIDs", default=None)


class _Data(msgspec.Struct):
    claims: list[_Claim] | None = msgspec.field(name="ClaimInfoStateList", default=None)


@ready
class _File(msgspec.Struct):
    data: str = msgspec.field(name="Data")


class ClaimUsers:
    """The record on disk."""

    def __init__(self, kubelet_folder: Path) -> None:
        self._path = kubelet_folder / NAME

    def read(self) -> Mapping[str, frozenset[str]]:
        """Uid of a claim -> uids of the pods that use it; empty if the kubelet never had a claim.

        Raises:
            ClaimUsersError: it cannot be read, or has another form.
        """
        try:
            file = msgspec.json.decode(self._path.read_bytes(), type=_File)
            data = msgspec.json.decode(file.data, type=_Data)
        except FileNotFoundError:
            return {}
        except (OSError, *UNREADABLE) as error:
            raise ClaimUsersError(f"{self._path} cannot be read: {error}.") from error
        return {claim.uid: frozenset(claim.pods or ()) for claim in data.claims or ()}
