"""What tests/gpu does with a card, played on simulated GPUs: the same pods, program and steps.

Simulated are NVML, the device nodes (behind which is no driver) and CUDA (tests/gpu/simulated_cuda.c, which
computes on the CPU). So nothing is said here of a driver, of its libraries in a container, or of a card.
"""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.gpu import plays
from tests.gpu.plays import Ground
from tests.gpu.work import Work

pytestmark = pytest.mark.e2e

NODE = "node-a"
SOURCE = Path(__file__).parents[1] / "gpu/simulated_cuda.c"


@pytest.fixture
def work(cluster: Cluster) -> Iterator[Work]:
    """Next to the cluster's state, which its nodes see."""
    folder = cluster.state / "simulated-cuda"
    folder.mkdir()
    library = folder / "libcuda.so.1"
    command = ["cc", "-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE)]
    subprocess.run(command, check=True)
    yield Work(libraries=folder)
    shutil.rmtree(folder)


@pytest.fixture
def ground(playground: Playground, parts: Parts, work: Work) -> Ground:
    return Ground(playground=playground, parts=parts, node=NODE, work=work)


def test_pods_compute_wait_and_outlive_an_agent(ground: Ground) -> None:
    plays.a_pod_computes_on_its_assigned_gpu(ground)
    plays.a_pod_without_a_request_sees_no_gpu(ground)
    plays.killing_the_agent_does_not_disturb_pods(ground)
    ground.playground.clear()
    plays.a_pod_without_a_free_gpu_waits_for_one(ground)


def test_a_pod_computes_on_a_claimed_gpu(ground: Ground) -> None:
    plays.a_pod_computes_on_a_claimed_gpu(ground)


def test_two_pods_share_a_gpu(ground: Ground) -> None:
    plays.two_pods_share_a_gpu(ground)


def test_a_booked_pod_gets_a_gpu_on_which_another_pod_computes(
    ground: Ground, alice: Person, bob: Person
) -> None:
    plays.a_booked_pod_gets_a_gpu_on_which_another_pod_computes(ground, alice, bob)
