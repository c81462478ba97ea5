"""Whether another device plugin gives out this node's GPUs: two of them must never do that on one node.

The kubelet does not say who has registered a resource. Evidence is a socket in its folder of device plugins
at which somebody answers: one that is named as NVIDIA's plugin names its own, or any that is not ours while
the kubelet's checkpoint has ids that no agent of ours ever registers. A starting kubelet deletes all sockets,
and a plugin that has died does not answer.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from cluster import names
from cluster.objects.slots import physical
from deviceplugin.kubelet.channel import is_served
from deviceplugin.kubelet.checkpoint import CheckpointError, CheckpointFile

KUBELET_SOCKET: Final = "kubelet.sock"
NVIDIAS: Final = re.compile(r"nvidia-(gpu|mig-).*\.sock")
"""Sockets of NVIDIA's plugin: ``nvidia-gpu.sock``, ``nvidia-gpu.shared.sock``, ``nvidia-mig-1g.5gb.sock``."""
A_UUID: Final = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DOES_NOT_REGISTER: Final = "this agent does not register"
GIVES_NO_CLAIMS: Final = "claims get no GPUs here"
"""What it comes to where GPUs are given by claims."""
PATIENCE: Final = 0.5
"""Seconds for a connection to a socket of this node."""


class OtherPlugin:
    """Looks when asked, from any thread."""

    def __init__(
        self, folder: Path, ours: Callable[[], frozenset[str]] = frozenset, *, effect: str = DOES_NOT_REGISTER
    ) -> None:
        """Args: folder: of the kubelet's device plugins; ours: returns the UUIDs of this node's devices."""
        self._effect = effect
        self._folder = folder
        self._ours = ours
        self._checkpoint = CheckpointFile(folder, names.GPU_RESOURCE)

    def __call__(self) -> str | None:
        """What is there, and what to do about it, for people; None if there is no other plugin of GPUs."""
        strange = [path for path in self._foreign() if is_served(path, patience=PATIENCE)]
        if found := next((path.name for path in strange if NVIDIAS.fullmatch(path.name)), None):
            return self._message(f"its socket is {found}")
        if strange and (odd := self._odd_ids()):
            return self._message(f"the kubelet has its device {odd[0]}")
        return None

    def _message(self, evidence: str) -> str:
        return (
            f"Another device plugin gives out this node's GPUs ({evidence}), so {self._effect}."
            f" Remove that plugin from the node, or label the node {names.DEVICE_PLUGIN}=existing."
        )

    def _foreign(self) -> Iterator[Path]:
        try:
            paths = sorted(self._folder.glob("*.sock"))
        except OSError:
            return
        for path in paths:
            if path.name != KUBELET_SOCKET and not path.name.startswith(names.SOCKET_PREFIX):
                yield path

    def _odd_ids(self) -> list[str]:
        try:
            registered = self._checkpoint.registered()
        except CheckpointError:
            return []
        ours = self._ours()
        every = {one for name, ids in registered.items() if names.is_gpu_resource(name) for one in ids}
        return sorted(
            one for one in every if physical(one) not in ours and not A_UUID.fullmatch(physical(one))
        )


def none_is_there() -> str | None:
    """In place of an ``OtherPlugin`` where none is looked for."""
    return None
