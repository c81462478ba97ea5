"""Our parts and their kube-scheduler behind a proxy to the API server, which can make any call go wrong.

Controller, extender and booking server run as `actors/reborn_part.py`: whoever is killed, at one of its calls
for example, is there again at once. Node agents and kube-scheduler run as ever, but for their way to the API
server.
"""

import json
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
from devcluster.product import Parts, booking_controller, booking_server, extender, gpu_scheduler
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
    """All of them behind one proxy."""

    proxy: FaultProxy
    parts: dict[PartName, Reborn]
    """Those that can be killed."""
    fallen: Callable[[], str]
    """What parts that have ended by themselves have said; none ever should."""


@contextmanager
def proxied(cluster: Cluster, parts: Parts) -> Iterator[Proxied]:
    """Our parts, ready, and kube-scheduler; the usual ones run again afterwards."""
    folder = parts.folder / "proxy"
    with FaultProxy(cluster.api_server, cluster.ca_file, folder, host=cluster.host_address) as proxy:
        detour = {"GPU_BOOKING_KUBE_SERVER": proxy.url, "GPU_BOOKING_KUBE_CA_FILE": str(proxy.ca_file)}
        agents = [_as_it_runs(cluster, parts.agent(node).name) for node in cluster.nodes]
        scheduler = _as_it_runs(cluster, gpu_scheduler.NAME)
        try:
            for agent in agents:
                _start(cluster, parts, replace(agent, environment={**(agent.environment or {}), **detour}))
            _start(cluster, parts, _odd_scheduler(cluster, parts, proxy, folder))
            odd = {name: _start(cluster, parts, _odd(part, detour)) for name, part in _usual(parts).items()}
            parts.await_ready()
            yield Proxied(proxy, _reborn(cluster, odd), lambda: _fallen(cluster, parts))
        finally:
            proxy.rules.set()
            for part in (*_usual(parts).values(), *agents, scheduler):
                _start(cluster, parts, part)
            parts.await_ready()


def _reborn(cluster: Cluster, odd: dict[PartName, Daemon]) -> dict[PartName, Reborn]:
    kube = administrator(cluster)

    def release() -> None:
        """Whoever held the Lease is dead for certain: nobody needs to wait until it has run out."""
        free = {"spec": {"holderIdentity": ""}}
        kube.patch(LEASES, names.CONTROLLER_LEASE, free, namespace=names.NAMESPACE)

    reborn = {name: Reborn(daemon) for name, daemon in odd.items() if name != "controller"}
    reborn["controller"] = Reborn(odd["controller"], afterwards=release)
    return reborn


def _fallen(cluster: Cluster, parts: Parts) -> str:
    scheduler = [gpu_scheduler.NAME] if parts.scheduler().restarted else []
    return "\n".join(cluster.log(name) for name in (*parts.fallen(), *scheduler))


def _as_it_runs(cluster: Cluster, name: str) -> Part:
    """What a process was started with, to be started so once more."""
    request = cluster.processes()[name].request
    return Part(name=name, program=request.argv, environment=request.env, probes=None, node=request.node)


def _odd_scheduler(cluster: Cluster, parts: Parts, proxy: FaultProxy, folder: Path) -> Part:
    """kube-scheduler with another kubeconfig; its account and token are the usual ones."""
    usual = parts.folder / f"{gpu_scheduler.ACCOUNT}.kubeconfig"
    document = json.loads(usual.read_text())
    document["clusters"][0]["cluster"] = {"server": proxy.url, "certificate-authority": str(proxy.ca_file)}
    kubeconfig = folder / usual.name
    kubeconfig.write_text(json.dumps(document))
    kubebox = cluster.program("kubebox")
    return gpu_scheduler.part(kubebox=kubebox, kubeconfig=kubeconfig, folder=folder, elects=False)


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
