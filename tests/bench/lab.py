"""The cluster that several measures share, started when the first of them needs it.

Needs root and the binaries (``make binaries``). The cluster is called ``bench``.
"""

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from devcluster.cluster import Cluster
from devcluster.fakenvml import default_gpus
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from devcluster.wait import Stopwatch
from tests.bench.pods import Ground, on_ground
from tests.clusters import own

NODES: Final = ("node-a", "node-b")
POLICY: Final = {"GPU_BOOKING_COOLDOWN": "PT0S"}
"""Settings of the booking server: the measures book one after the other."""


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The cluster with all our parts in it, and how many seconds that took."""

    cluster: Cluster
    parts: Parts
    ground: Ground
    started: float
    """Until its nodes were Ready."""
    deployed: float
    """Until all our parts were ready."""
    loading: float
    """Until Python had loaded the programs of our parts, one after the other."""


class Lab:
    """What measures run on; a context manager that stops the cluster."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._standing: Standing | None = None

    @property
    def standing(self) -> Standing:
        """The shared cluster."""
        if self._standing is None:
            self._standing = self._start()
        return self._standing

    def _start(self) -> Standing:
        nodes = tuple(NodeSpec(name=name, gpus=default_gpus(index)) for index, name in enumerate(NODES))
        watch = Stopwatch()
        cluster = self._stack.enter_context(Cluster.start(ClusterSpec(name=own("bench"), nodes=nodes)))
        started = watch.seconds
        parts = Parts(cluster, elects=True)
        loading = _loading()
        watch = Stopwatch()
        parts.deploy(server=POLICY)
        deployed = watch.seconds
        ground = self._stack.enter_context(on_ground(cluster))
        return Standing(
            cluster=cluster, parts=parts, ground=ground, started=started, deployed=deployed, loading=loading
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def _loading() -> float:
    watch = Stopwatch()
    programs = (
        "deviceplugin.__main__",
        "extender.__main__",
        "booking.server.__main__",
        "booking.controller.__main__",
    )
    for module in (programs[0], *programs):
        subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return watch.seconds
