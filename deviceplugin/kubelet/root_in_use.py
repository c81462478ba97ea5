"""The kubelet's root folder by its own command line, which the node's /proc shows.

Only for telling people what to set: the agent's container sees the folders that the chart mounts, and no
others. A kubelet that is part of another program (k3s, rke2) is given its options as
``--kubelet-arg=root-dir=...``.
"""

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

DEFAULT: Final = Path("/var/lib/kubelet")
"""The kubelet's own default."""
_PROGRAM: Final = re.compile(r"kubelet|kubelite|k3s|rke2")
_ROOT: Final = re.compile(r"(?:--kubelet-arg=)?(?:-{1,2})?root-dir=(/.*)")


def root_in_use(proc_root: Path) -> Path | None:
    """The root folder of the kubelet whose process is in ``proc_root``; None if there is none, or several."""
    found = set[Path]()
    with suppress(OSError):
        for process in proc_root.iterdir():
            if process.name.isdecimal():
                found |= _of(process)
    return found.pop() if len(found) == 1 else None


def _of(process: Path) -> set[Path]:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is somebody else's
        return set()
    arguments = [os.fsdecode(word) for word in words if word]
    if not arguments or not _PROGRAM.match(Path(arguments[0]).name):
        return set()
    return {named(arguments[1:])}


def named(arguments: Iterable[str]) -> Path:
    """The root folder that a kubelet with these arguments has."""
    root, is_next = DEFAULT, False
    for argument in arguments:
        if is_next:
            root = Path(argument)
        elif match := _ROOT.fullmatch(argument):
            root = Path(match[1])
        is_next = argument in {"--root-dir", "-root-dir"}
    return root
