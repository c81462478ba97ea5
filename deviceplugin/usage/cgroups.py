"""The pod to which a process belongs, from the text of its ``/proc/PID/cgroup``. Pure.

The forms below all have a pod's uid in the name of the pod's own cgroup, below which its containers' are:

- cgroupfs driver: ``/kubepods/burstable/pod<uid>/<container>``
- systemd driver: ``/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<uid>.slice/<scope>``, the
  uid with ``_`` for ``-``; the scope is ``cri-containerd-<id>.scope`` or ``crio-<id>.scope``
- different drivers in runtime and kubelet: ``/system.slice/containerd.service/<slice>:cri-containerd:<id>``
- below the kubelet's ``--cgroup-root``: ``/kubelet.slice/kubelet-kubepods.slice/...``
- read in another cgroup namespace: ``/../../kubepods-burstable-pod<uid>.slice/...``

cgroup v1 has a line for each hierarchy, v2 only one line. The uid of a static pod has no dashes.
Source: kubelet 1.37.1, cm/cgroup_manager_linux.go and pod_container_manager_linux.go.
"""

import re
from dataclasses import dataclass
from typing import Final

_UID: Final = r"[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32}"
_POD: Final = re.compile(rf"(?:^|-)pod({_UID})(?:\.slice)?(?:$|:)")
"""The part of a cgroup's path that names a pod."""
_PEOPLE: Final = "user.slice"
_NOWHERE: Final = frozenset({"", ".", ".."})


@dataclass(frozen=True, slots=True)
class ProcessOwner:
    """The pod or unit to which a process belongs."""

    uid: str | None = None
    """Uid of its pod; None for a process of no pod."""
    unit: str = ""
    """The name of its cgroup, for people: ``ssh.service``."""


@dataclass(frozen=True, slots=True)
class LiveProcess:
    """A living process."""

    pid: int
    started: str
    """In ticks since the node's boot: together with the pid it identifies the process."""
    command: str
    owner: ProcessOwner


def owner_of(text: str) -> ProcessOwner:
    """The owner of a process with this ``/proc/PID/cgroup``.

    Of several pods in one path the outermost counts: a process that may create cgroups below its container's
    can give them any name. So can people who log in to the node, below their own slice, which has no pod.
    """
    paths = [path for line in text.splitlines() if (path := _path(line)) is not None]
    for path in paths:
        for part in path.split("/"):
            if part == _PEOPLE:
                break
            if found := _POD.search(part):
                return ProcessOwner(uid=found[1].replace("_", "-"))
    parts = [part for path in reversed(paths) for part in path.split("/") if part not in _NOWHERE]
    return ProcessOwner(unit=parts[-1] if parts else "")


def _path(line: str) -> str | None:
    """The path in ``hierarchy:controllers:path``, which may have colons itself."""
    _, _, rest = line.partition(":")
    _, colon, path = rest.partition(":")
    return path if colon else None
