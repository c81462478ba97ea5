"""The least that a part's start takes: ``python bare_part.py MODULE``, in the environment of that part.

Python loads the part's program, then all pods are read in pages, by the same client. Nothing is decided,
nobody is served, nothing is written.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Final

from cluster import names
from cluster.kube.client import KubeClient
from cluster.kube.in_cluster import in_cluster
from cluster.kube.resources import PODS
from cluster.process.clock import SystemClock

PAGE: Final = 500
"""As a reflector reads them."""


def read_pods() -> int:
    """How many there are."""
    clock = SystemClock()
    server, ca_file, token_file = (
        os.environ[names.setting(name)] for name in ("kube_server", "kube_ca_file", "kube_token_file")
    )
    connection = in_cluster(
        clock, os.environ, server=server, ca_file=Path(ca_file), token_file=Path(token_file)
    )
    kube, count, token = KubeClient(connection, clock, user_agent="bare-part"), 0, None
    while True:
        page = kube.list(PODS, limit=PAGE, continue_=token)
        count, token = count + len(page.items), page.continue_
        if token is None:
            return count


if __name__ == "__main__":
    import_module(sys.argv[1])
    sys.stdout.write(f"{read_pods()} pods\n")
