"""A pod that cannot be served stays pending with a sentence that says why (law L8)."""

import pytest

from cluster import names
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e


def test_a_pod_that_asks_for_more_gpus_than_any_node_has_says_so(playground: Playground) -> None:
    name = playground.simple("too-big", gpus=9)
    message = playground.await_event(name, "9 GPUs")
    assert "no node has more than 4" in message
    assert playground.pod(name).status.phase == "Pending"


def test_a_pod_that_wants_an_unknown_model_says_which_models_there_are(playground: Playground) -> None:
    name = playground.simple("exotic", model="NVIDIA H900")
    message = playground.await_event(name, "No node has a GPU of model NVIDIA-H900")
    assert "NVIDIA-A100-SXM4-80GB" in message
    assert "NVIDIA-RTX-A6000" in message
    assert playground.pod(name).status.phase == "Pending"


def test_a_pod_that_asks_for_nothing_is_none_of_our_business(playground: Playground) -> None:
    name = playground.simple("plain", gpus=0)
    playground.await_phase([name])
    assert playground.pod(name).metadata.annotation(names.ASSIGNED) is None
    playground.check_sight(name, "main", ())
