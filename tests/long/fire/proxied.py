"""Our parts behind a proxy to the API server, which can make any call go wrong or kill its caller.

Each runs as `actors/reborn_part.py`: when it is killed it is there again at once.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from cluster import names
from cluster.kube.resources import LEASES
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.demo.access import administrator
from devcluster.faultproxy import FaultProxy
from devcluster.product import Parts, booking_controller, booking_server, extender
from devcluster.product.part import Part
from devcluster.wait import poll
from tests.e2e.usual import usual

ACTOR: Final = str(Path(__file__).parent / "actors" / "reborn_part.py")
DIES_WITHIN: Final = 20.0

PartName = Literal["controller", "extender", "server"]
DAEMONS: Final[dict[PartName, str]] = {
    "controller": booking_controller.NAME,
    "extender": extender.NAME,
    "server": booking_server.NAME,
}


class Reborn:
    """One part that can be killed at any moment, and as often as one likes."""

    def __init__(self, daemon: Daemon, *, afterwards: Callable[[], object] = lambda: None) -> None:
        """Args: afterwards: done when it is dead."""
        self._parent = daemon.pid
        self._afterwards = afterwards
        self._lock = threading.Lock()
        self.deaths = 0
        """How often it was killed, with all that is done afterwards."""

    def kill(self) -> None:
        """Kill it with -9, and wait until it is dead."""
        with self._lock:
            (life,) = self._lives()
            os.kill(life, signal.SIGKILL)
            assert poll(lambda: life not in self._lives(), seconds=DIES_WITHIN, every=0.002), (
                "it does not die"
            )
            self._afterwards()
            self.deaths += 1

    def _lives(self) -> list[int]:
        """The one process that is the part."""
        children = Path(f"/proc/{self._parent}/task/{self._parent}/children")
        return [int(pid) for pid in children.read_text().split()]


@dataclass(frozen=True)
class Proxied:
    """Controller, extender and booking server behind one proxy."""

    proxy: FaultProxy
    parts: dict[PartName, Reborn]
    crashed: Callable[[], str]
    """What parts that have ended by themselves have said; none ever should."""


@contextmanager
def proxied(cluster: Cluster, parts: Parts) -> Iterator[Proxied]:
    """All three, ready; the usual ones run again afterwards."""
    folder = parts.folder / "proxy"
    with FaultProxy(cluster.api_server, cluster.ca_file, folder, host=cluster.host_address) as proxy:
        detour = {"GPU_BOOKING_KUBE_SERVER": proxy.url, "GPU_BOOKING_KUBE_CA_FILE": str(proxy.ca_file)}
        odd = {name: _start(cluster, parts, _odd(part, detour)) for name, part in _usual(parts).items()}
        try:
            parts.await_ready()
            kube = administrator(cluster)

            def release() -> None:
                """The holder of the Lease is dead for certain: nobody needs to wait until it has run out."""
                free = {"spec": {"holderIdentity": ""}}
                kube.patch(LEASES, names.CONTROLLER_LEASE, free, namespace=names.NAMESPACE)

            reborn = {name: Reborn(daemon) for name, daemon in odd.items() if name != "controller"}
            reborn["controller"] = Reborn(odd["controller"], afterwards=release)
            yield Proxied(proxy, reborn, lambda: "\n".join(cluster.log(name) for name in parts.crashed()))
        finally:
            proxy.rules.set()
            for part in _usual(parts).values():
                _start(cluster, parts, part)
            parts.await_ready()


def _start(cluster: Cluster, parts: Parts, part: Part) -> Daemon:
    cluster.daemon(part.name).kill()
    return parts._start(part)


def _odd(part: Part, detour: dict[str, str]) -> Part:
    module = part.program[-1]
    program = (sys.executable, ACTOR, "extender.__main__" if module == "extender" else module)
    return replace(part, program=program, environment={**(part.environment or {}), **detour})


def _usual(parts: Parts) -> dict[PartName, Part]:
    ours = usual(parts)
    return {short: ours[name] for short, name in DAEMONS.items()}
