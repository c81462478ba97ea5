"""How soon an agent is registered with a real kubelet after its own start, and after the kubelet's."""

import statistics
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from cluster.runtime.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.parts.deploy import AGENT
from devcluster.waiting import Stopwatch, poll
from tests.bench.table import Floor, Row

TIMES = 5
RESTARTS = 3
PATIENCE = 30.0
KUBELET_SOCKET = "var/lib/kubelet/device-plugins/kubelet.sock"


class _Line(msgspec.Struct):
    """What a line of the log must have to be of interest."""

    event: str = ""
    time: datetime | None = None


def measure(cluster: Cluster, node: str) -> Iterator[Row]:
    """Kill the agent of a node, then its kubelet, and start them again, some times."""
    agent, kubelet = cluster.daemon(f"{node}/{AGENT}"), cluster.daemon(f"{node}/kubelet")
    pairs = [(_again(agent, agent)[1], _loading()) for _ in range(TIMES)]
    ours, floor = (statistics.median(times) for times in zip(*pairs, strict=True))
    yield Row(
        f"agent: its start to registered with the kubelet, median of {TIMES}",
        1000 * ours,
        "ms",
        Floor(1000 * floor, "Python loading its modules"),
    )
    pairs = [_after_kubelet(agent, kubelet) for _ in range(RESTARTS)]
    ours, floor = (statistics.median(times) for times in zip(*pairs, strict=True))
    yield Row(
        f"agent: the kubelet's start to registered again, median of {RESTARTS}",
        1000 * ours,
        "ms",
        Floor(1000 * floor, "until the kubelet listens"),
    )


def _again(victim: Daemon, agent: Daemon) -> tuple[datetime, float]:
    """Kill a process and start it again: when that was, and seconds until the agent was registered."""
    victim.kill()
    lines = len(agent.log.read_text(errors="replace").splitlines())
    begin = SystemClock().now()
    victim.control.start_again(victim.name)

    def registered() -> datetime | None:
        fresh = agent.log.read_text(errors="replace").splitlines()[lines:]
        return next((line.time for line in map(_line, fresh) if line.event == "registered"), None)

    at = poll(registered, seconds=PATIENCE)
    if at is None:
        raise RuntimeError(f"{agent.name} did not register within {PATIENCE:.0f} s; its log is {agent.log}.")
    return begin, (at - begin).total_seconds()


def _after_kubelet(agent: Daemon, kubelet: Daemon) -> tuple[float, float]:
    """Seconds from the kubelet's start to the registration, and to the kubelet's socket."""
    begin, registered = _again(kubelet, agent)
    made = Path(f"/proc/{kubelet.pid}/root", KUBELET_SOCKET).stat().st_ctime
    return registered, (datetime.fromtimestamp(made, UTC) - begin).total_seconds()


def _loading() -> float:
    watch = Stopwatch()
    subprocess.run([sys.executable, "-c", "import deviceplugin.__main__"], check=True)
    return watch.seconds


def _line(text: str) -> _Line:
    try:
        return msgspec.json.decode(text, type=_Line)
    except msgspec.MsgspecError:
        return _Line()
