"""A pod that cannot be served stays pending with a message that explains why (law L8)."""

import pytest

from cluster import names
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e


def test_a_pod_that_requests_more_gpus_than_any_node_has_gets_an_event_about_it(
    playground: Playground,
) -> None:
    name = playground.simple("too-big", gpus=9)
    message = playground.await_event(name, "9 GPUs")
    assert "no node has more than 4" in message
    assert playground.pod(name).status.phase == "Pending"


def test_a_pod_that_requests_an_unknown_model_gets_an_event_with_the_known_models(
    playground: Playground,
) -> None:
    name = playground.simple("exotic", model="NVIDIA H900")
    message = playground.await_event(name, "No node has a GPU of model NVIDIA-H900")
    assert "NVIDIA-A100-SXM4-80GB" in message
    assert "NVIDIA-RTX-A6000" in message
    assert playground.pod(name).status.phase == "Pending"


def test_a_pod_that_requests_no_gpu_is_left_alone(playground: Playground) -> None:
    name = playground.simple("plain", gpus=0)
    playground.await_phase([name])
    assert playground.pod(name).metadata.annotation(names.ASSIGNED) is None
    playground.check_sight(name, "main", ())
