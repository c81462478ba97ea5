"""The real agent under a real kubelet and containerd gives pods the real GPU, and CUDA computes on it. Root.

Every play is rehearsed on simulated GPUs, with a simulated CUDA, by tests/long/test_gpu_rehearsal.py.
"""

import pytest

from tests.e2e.persons import Person
from tests.gpu import plays
from tests.gpu.plays import Ground

pytestmark = pytest.mark.gpu


def test_a_pod_computes_on_its_assigned_gpu(ground: Ground) -> None:
    plays.a_pod_computes_on_its_assigned_gpu(ground)


def test_two_pods_share_a_gpu(ground: Ground) -> None:
    plays.two_pods_share_a_gpu(ground)


def test_a_pod_computes_on_a_claimed_gpu(ground: Ground) -> None:
    plays.a_pod_computes_on_a_claimed_gpu(ground)


def test_a_pod_without_a_request_sees_no_gpu(ground: Ground) -> None:
    plays.a_pod_without_a_request_sees_no_gpu(ground)


def test_a_pod_without_a_free_gpu_waits_for_one(ground: Ground) -> None:
    plays.a_pod_without_a_free_gpu_waits_for_one(ground)


def test_killing_the_agent_does_not_disturb_pods(ground: Ground) -> None:
    plays.killing_the_agent_does_not_disturb_pods(ground)


def test_a_booked_pod_gets_a_gpu_on_which_another_pod_computes(
    ground: Ground, alice: Person, bob: Person
) -> None:
    plays.a_booked_pod_gets_a_gpu_on_which_another_pod_computes(ground, alice, bob)
