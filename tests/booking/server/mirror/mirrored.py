"""A mirror, its database in memory and its API server: what tests of the mirror begin with."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from booking.server.metrics import ServerMetrics
from booking.server.mirror.lease import MirrorLease
from booking.server.mirror.mirror import Mirror
from cluster import names
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.resources import BOOKINGS, LEASES
from cluster.objects.bookings import Booking
from cluster.objects.nodes import Lease
from tests.booking.server.mirror.memory_source import MemorySource

WRITING = {"POST", "PATCH", "PUT", "DELETE"}


class World:
    """An API server, a database and the mirror between them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(self.clock)
        self.source = MemorySource()
        self.mirror = self.another_mirror()

    def another_mirror(self, holder: str = "server-1") -> Mirror:
        """The mirror of a server that has just been started."""
        lease = MirrorLease(self.kube, self.clock, namespace=names.NAMESPACE, holder=holder)
        self.registry = CollectorRegistry()
        metrics = ServerMetrics(self.registry)
        return Mirror(self.kube, self.source, self.clock, lease=lease, metrics=metrics)

    def counted(self, **labels: str) -> float | None:
        """How many writes of a kind the newest mirror has counted."""
        return self.registry.get_sample_value("gpu_booking_mirror_writes_total", labels)

    @property
    def objects(self) -> dict[str, Booking]:
        """The Booking objects by name."""
        return {booking.name: booking for booking in self.kube.list(BOOKINGS).items}

    @property
    def lease(self) -> Lease:
        """The mirror's Lease."""
        return self.kube.get(LEASES, names.MIRROR_LEASE, namespace=names.NAMESPACE)

    @property
    def writes(self) -> list[str]:
        """What was written so far."""
        return [f"{call.verb} {call.path}" for call in self.kube.calls if call.verb in WRITING]

    def put_object(self, name: str, *, store_id: str, **more: object) -> None:
        """A Booking object that is left in the cluster."""
        spec = {
            "user": "alice",
            "model": "NVIDIA-A100-SXM4-80GB",
            "count": 1,
            "start": "2026-03-02T09:00:00Z",
            "end": "2026-03-04T09:00:00Z",
            "topology": "any",
            "storeId": store_id,
        }
        self.kube.put(BOOKINGS, {"metadata": {"name": name}, "spec": spec, **more})

    @contextmanager
    def running(self) -> Iterator[None]:
        """With the mirror's thread."""
        stop = threading.Event()
        thread = threading.Thread(target=self.mirror.run, args=(stop,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(10)
            assert not thread.is_alive()
