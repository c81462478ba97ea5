"""More pods than devices: free devices are found, and waiting pods get what is freed."""

import pytest

from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

DEVICES = 8


def test_five_pods_want_four_a100s_and_the_fifth_gets_the_one_that_is_freed(playground: Playground) -> None:
    names = [playground.simple(f"a100-{n}", model="NVIDIA A100-SXM4-80GB") for n in range(4)]
    playground.await_phase(names)
    fifth = playground.simple("a100-4", model="NVIDIA-A100-SXM4-80GB")
    assert "A100" in playground.await_waiting(fifth)
    freed = playground.assignment(names[2])
    playground.delete(names[2])
    playground.await_phase([fifth])
    assert playground.assignment(fifth) == freed
    playground.check_agreement(fifth)


def test_a_list_of_models_takes_whichever_is_free(playground: Playground) -> None:
    either = "NVIDIA A100-SXM4-80GB, NVIDIA RTX A6000"
    names = [playground.simple(f"either-{n}", model=either) for n in range(DEVICES)]
    playground.await_phase(names)
    models = {playground.inventory()[u][1].model for n in names for u in playground.assignment(n)["main"]}
    assert models == {"NVIDIA-A100-SXM4-80GB", "NVIDIA-RTX-A6000"}
    playground.check_law_1()
