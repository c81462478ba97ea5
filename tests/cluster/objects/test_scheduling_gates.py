"""Which gates of a pod are ours."""

import msgspec
import pytest

from cluster import names
from cluster.objects.pods import Pod
from cluster.objects.scheduling_gates import is_queued, other_gates
from tests.fakes.objects import a_pod

QUEUE = names.QUEUE


@pytest.mark.parametrize(
    ("gates", "queued", "others"),
    [
        pytest.param((QUEUE,), True, (), id="ours alone"),
        pytest.param(("kueue.x-k8s.io/admission",), False, ("kueue.x-k8s.io/admission",), id="another alone"),
        pytest.param(("b", QUEUE, "a"), True, ("b", "a"), id="ours among others, in their order"),
        pytest.param((f"{QUEUE}-2", QUEUE.upper()), False, (f"{QUEUE}-2", QUEUE.upper()), id="nearly ours"),
    ],
)
def test_our_gate_is_distinguished_from_those_of_others(
    gates: tuple[str, ...], others: tuple[str, ...], *, queued: bool
) -> None:
    pod = a_pod().behind(*gates).obj
    assert (is_queued(pod), other_gates(pod)) == (queued, others)


@pytest.mark.parametrize("spec", [{}, {"schedulingGates": None}, {"schedulingGates": []}])
def test_a_pod_without_gates_waits_behind_none(spec: dict[str, object]) -> None:
    pod = msgspec.convert({"spec": spec}, Pod)
    assert (is_queued(pod), other_gates(pod)) == (False, ())
