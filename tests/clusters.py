"""Names of the clusters that tests start: no two runs on a machine, no two workers of a run, share one."""

import os

from devcluster.spec import checked_name


def own(name: str) -> str:
    """This process's cluster of that name, which has at most 12 characters.

    Raises:
        ClusterError: it has more, or others than a cluster's name may have.
    """
    return checked_name(f"{name}-{os.getpid():07}")
