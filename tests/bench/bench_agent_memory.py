"""How much memory a node agent takes a minute after its start: eight GPUs, a real kubelet and API server.

It runs with the packages of its image on a node of the cluster, in place of the usual agent. A part of
``bench_agent``.
"""

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cluster import names
from cluster.process.clock import SystemClock
from devcluster.fakenvml import A100_80GB, FakeNvml, devicenodes, gpu
from devcluster.product import Parts
from devcluster.wait import poll
from tests.bench import agent_image
from tests.bench.lab import Lab
from tests.bench.rows import Kind, Row, Target

MINUTE: Final = 60.0
PATIENCE: Final = 60.0
GPUS: Final = tuple(gpu(A100_80GB, index, node="bench") for index in range(8))
_MEMORY: Final = Kind(
    "agent-memory",
    f"agent: resident memory a minute after its start, {len(GPUS)} GPUs",
    "MiB",
    "Python that has loaded grpc, protobuf and pynvml",
    target=Target(value=48),
)
KINDS: Final = (_MEMORY,)


def measure(lab: Lab, node: str) -> Iterator[Row]:
    """One agent for one minute."""
    with another_agent(lab.standing.parts, lab.standing.cluster.state, node) as pid:
        SystemClock().wait(threading.Event(), MINUTE)
        yield _MEMORY.row(resident(pid), floor())


@contextmanager
def another_agent(parts: Parts, state: Path, node: str) -> Iterator[int]:
    """The image's agent on a node: its PID as soon as it is ready. Afterwards the usual agent runs again."""
    folder = state / "bench-gpus"
    fake = FakeNvml(folder)
    fake.create(GPUS)
    (folder / "dev").mkdir()
    devicenodes.make(folder / "dev", GPUS)
    with agent_image.image(state / "bench-agent") as environment:
        parts.agent(node).kill()
        dev = {names.setting("dev_root"): str(folder / "dev")}
        settings = environment | fake.environment() | dev
        program = (*agent_image.BARE, "-m", "deviceplugin")
        agent = parts.start_agent(node, name="agent-of-image", settings=settings, program=program)
        try:
            if not poll(lambda: parts.is_ready(agent), seconds=PATIENCE):
                raise RuntimeError(f"The agent does not get ready; its log is {agent.log}.")
            yield agent.pid
        finally:
            agent.kill()
            parts.restore()


def resident(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def floor() -> float:
    """MiB that a bare process takes."""
    program = f"{agent_image.FLOOR}\nprint(open('/proc/self/status').read())"
    output = subprocess.run(
        [*agent_image.BARE, "-c", program],
        env={"PYTHONPATH": str(agent_image.libraries())},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return next(int(line.split()[1]) for line in output.splitlines() if line.startswith("VmRSS:")) / 1024
