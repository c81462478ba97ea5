"""A cluster whose own kube-scheduler asks two extenders behind a Service (mode ``existing``)."""

import json
import threading
from collections.abc import Iterator
from typing import Self

import pytest

from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.product import Parts, existing
from tests.e2e.testbed import Design, Testbed

POLICY = {"GPU_BOOKING_COOLDOWN": "PT0S", "GPU_BOOKING_SHORTEST_BOOKING": "PT1S"}


class Endpoints:
    """Does for the extenders what kubelet and endpoint controller do for pods: who is Ready is asked."""

    def __init__(self, cluster: Cluster, parts: Parts) -> None:
        self._cluster, self._parts = cluster, parts
        self._ready: tuple[bool, ...] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._reconcile()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not SystemClock().wait(self._stop, 0.5):
            self._reconcile()

    def _reconcile(self) -> None:
        daemons = [self._cluster.daemon(name) for name in existing.NAMES]
        ready = tuple(self._parts.is_ready(daemon) for daemon in daemons)
        if ready == self._ready:
            return
        for number, is_ready in enumerate(ready):
            slice_ = existing.endpoints(number, self._cluster.address, ready=is_ready)
            self._cluster.kubectl("apply", "--server-side", "--filename=-", given=json.dumps(slice_))
        self._ready = ready


@pytest.fixture(scope="session")
def testbed() -> Iterator[Testbed]:
    bed = Testbed(Design(name="existing", mode="existing", server=POLICY, alongside=Endpoints))
    try:
        yield bed
    finally:
        bed.close()
