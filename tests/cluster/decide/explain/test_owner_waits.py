"""What a pod is told of nodes that wait to change who gives out their GPUs."""

import msgspec

from cluster import names
from cluster.decide.explain import ExplanationSnapshot
from cluster.decide.explain.unbound import Waits, waits
from cluster.decide.predicates import OWNER_WAITS
from cluster.objects import inventory
from tests.cluster.decide.explain.snapshots import alices, over
from tests.fakes.objects import A100, PodBuilder, a100, a_pod, shared_gpu


def _waits(pod: PodBuilder, seen: ExplanationSnapshot) -> Waits:
    return waits(pod.obj, seen, None, lambda _other: True)


_WITHHELD = msgspec.structs.replace(shared_gpu(0), health="unhealthy", reason=inventory.OWNER_WAITS)


def _sharing(name: str, user: str) -> PodBuilder:
    return a_pod(name).of(user).shares(memory=1024).on("n0", {"main": ("GPU-n0-0",)})


def test_where_only_a_node_that_changes_its_owner_would_do_it_is_said_for_whom_that_waits() -> None:
    pod, theirs = alices().asks(1), _sharing("theirs", "bob")
    seen = over({"n0": (_WITHHELD,)}, pod, _sharing("mine", "alice"), theirs)
    found = waits(pod.obj, seen, None, lambda other: other != theirs.obj)
    assert "n0" in found.because[0]
    assert found.because[1] == "n0 waits for 2 pods: default/mine."
    assert names.DEVICE_PLUGIN in found.would_change[0]
    assert not found.is_hopeless


def test_where_others_are_in_use_it_is_said_too_that_a_node_changes_its_owner() -> None:
    pod = alices().asks(1)
    busy = a_pod("busy").of("bob").asks(1).on("n1", {"main": ("GPU-n1-0",)})
    found = _waits(pod, over({"n0": (_WITHHELD,), "n1": (a100(0, "n1"),)}, pod, busy))
    assert found.because[:2] == ("All 1 healthy GPUs are in use.", f"n0: {OWNER_WAITS}.")


def test_a_node_of_claims_that_changes_its_owner_is_no_lasting_reason_to_wait() -> None:
    claimed = {"resource": names.CLAIM_RESOURCE, "claimed_as": "gpu-0", "model": names.claimed_model(A100)}
    pod = alices().asks(1)
    found = _waits(pod, over({"n0": (msgspec.structs.replace(_WITHHELD, **claimed),)}, pod))
    assert "n0" in found.because[0]
    assert (found.is_settled, found.is_hopeless) == (False, False)
