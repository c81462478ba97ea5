"""How soon an agent is registered with a real kubelet, what memory it takes, how fast pods are admitted."""

import statistics
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cluster.process.clock import SystemClock
from devcluster.daemons import Daemon
from devcluster.product.deploy import AGENT
from devcluster.wait import Stopwatch
from tests.bench import agent_image, bench_agent_cordon, bench_agent_memory, bench_agent_rate
from tests.bench.agent_log import logged
from tests.bench.lab import NODES, Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target

TIMES = 5
RESTARTS = 3
KUBELET_SOCKET = "var/lib/kubelet/device-plugins/kubelet.sock"
_START: Final = Kind(
    "agent-start",
    f"agent: its start to registered with the kubelet, median of {TIMES}",
    "ms",
    "Python loading its modules",
    target=Target(value=1000),
)
_AFTER_KUBELET: Final = Kind(
    "agent-after-kubelet",
    f"agent: the kubelet's start to registered again, median of {RESTARTS}",
    "ms",
    "until the kubelet listens",
    target=Target(value=800),
)


def measure(lab: Lab) -> Iterator[Row]:
    """Kill and restart the agent of a node, then its kubelet, several times."""
    cluster, node = lab.standing.cluster, NODES[0]
    agent, kubelet = cluster.daemon(f"{node}/{AGENT}"), cluster.daemon(f"{node}/kubelet")
    starts = [(_again(agent, agent)[1], _loading()) for _ in range(TIMES)]
    yield _START.row(*(1000 * statistics.median(times) for times in zip(*starts, strict=True)))
    restarts = [_after_kubelet(agent, kubelet) for _ in range(RESTARTS)]
    yield _AFTER_KUBELET.row(*(1000 * statistics.median(times) for times in zip(*restarts, strict=True)))
    yield from bench_agent_cordon.measure(lab, node)
    yield from bench_agent_memory.measure(lab, node)
    yield from bench_agent_rate.measure(lab, node)


def _again(victim: Daemon, agent: Daemon) -> tuple[datetime, float]:
    """Kill a process and start it again: the time of that, and seconds until the agent was registered."""
    victim.kill()
    begin = SystemClock().now()
    victim.control.start_again(victim.name)
    at = logged(agent, "registered with the kubelet", since=begin)
    return begin, (at - begin).total_seconds()


def _after_kubelet(agent: Daemon, kubelet: Daemon) -> tuple[float, float]:
    """Seconds from the kubelet's start until the registration, and until the kubelet's socket exists."""
    begin, registered = _again(kubelet, agent)
    made = Path(f"/proc/{kubelet.pid}/root", KUBELET_SOCKET).stat().st_ctime
    return registered, (datetime.fromtimestamp(made, UTC) - begin).total_seconds()


def _loading() -> float:
    watch = Stopwatch()
    subprocess.run([sys.executable, "-c", "import deviceplugin.__main__"], check=True)
    return watch.seconds


MEASURE: Final = Measure(
    "agent",
    (_START, _AFTER_KUBELET, *bench_agent_cordon.KINDS, *bench_agent_memory.KINDS, *bench_agent_rate.KINDS),
    measure,
    on_cluster=True,
    prepare=agent_image.libraries,
)
