"""Names of the clusters that tests start: no two runs on a machine, no two workers of a run, share one."""

import os
import re
from contextlib import suppress

from devcluster import cluster as clusters
from devcluster.failure import ClusterError
from devcluster.places import default_root
from devcluster.spec import checked_name

_OWN = re.compile(r"[a-z0-9-]+-(\d{7})")


def own(name: str) -> str:
    """This process's cluster of that name, which has at most 12 characters.

    Raises:
        ClusterError: it has more, or others than a cluster's name may have.
    """
    return checked_name(f"{name}-{os.getpid():07}")


def remove_left_behind() -> list[str]:
    """Remove the clusters of test runs whose process has ended without doing so; their names."""
    removed = []
    for state in sorted(default_root().glob("*-*")):
        process = _OWN.fullmatch(state.name)
        if process and not _lives(int(process[1])):
            with suppress(ClusterError):  # another run is at it
                clusters.remove(state.name)
                removed.append(state.name)
    return removed


def _lives(process: int) -> bool:
    if process <= 0:
        return False  # to kill(2) these are whole groups of processes
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
