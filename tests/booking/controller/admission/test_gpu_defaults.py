"""GPUs that only a LimitRange has given to a new pod: nobody's GPU is given by a default."""

import pytest

from booking.controller.admission.pod_reader import asks_for_gpus, read
from cluster import names
from tests.booking.controller.admission.fake_cluster_view import (
    HUB,
    OURSELVES,
    FakeClusterView,
    Json,
    a_pod,
    reviewed,
)

MIG = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"


def by_default(gpu: str = names.GPU_RESOURCE, *, asks: bool = False, setup: bool = False) -> Json:
    """A pod after LimitRanger: two GPUs in each container that asks for none itself."""
    given = {gpu: "2", "memory": "1Gi"}
    recorded = []
    pod = a_pod(gpus=1 if asks else 0)
    if not asks:
        pod["spec"]["containers"][0]["resources"] = {"limits": dict(given), "requests": dict(given)}
        recorded += [f"memory, {gpu} request for container main", f"memory, {gpu} limit for container main"]
    else:
        side = {"name": "side", "resources": {"limits": dict(given), "requests": dict(given)}}
        pod["spec"]["containers"].append(side)
        recorded += [f"memory, {gpu} request for container side", f"memory, {gpu} limit for container side"]
    if setup:
        own = {"name": "main", "resources": {"limits": dict(given), "requests": dict(given)}}
        pod["spec"]["initContainers"] = [own]
        recorded += [
            f"memory, {gpu} request for init container main",
            f"memory, {gpu} limit for init container main",
        ]
    annotation = f"LimitRanger plugin set: {'; '.join(recorded)}"
    pod["metadata"]["annotations"] = {names.LIMIT_RANGER: annotation}
    return pod


@pytest.mark.parametrize("gpu", [names.GPU_RESOURCE, MIG])
@pytest.mark.parametrize("creator", ["alice", HUB, OURSELVES])
@pytest.mark.parametrize("setup", [False, True], ids=["containers", "init containers too"])
def test_a_pod_that_asks_for_no_gpu_is_given_none(gpu: str, creator: str, *, setup: bool) -> None:
    pod, outcome = reviewed(by_default(gpu, setup=setup), creator)
    for container in (*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())):
        none = {gpu: "0", "memory": "1Gi"}
        assert container["resources"] == {"limits": none, "requests": none}
    assert outcome.kind == "cleaned"
    assert pod["spec"]["schedulerName"] == "default-scheduler"
    (warning,) = outcome.warnings
    assert warning.startswith("Container main and 1 more: without" if setup else "Container main: without")


def test_a_container_beside_one_with_gpus_is_given_none_and_a_booking_covers_what_was_asked_for() -> None:
    pod, outcome = reviewed(by_default(asks=True))
    main, side = pod["spec"]["containers"]
    assert main["resources"]["limits"][names.GPU_RESOURCE] == "1"
    assert side["resources"]["limits"][names.GPU_RESOURCE] == "0"
    assert outcome.kind == "booked", "the booking has one GPU, not three"


@pytest.mark.parametrize("part", ["request", "limit"])
def test_an_amount_of_which_the_user_gave_one_half_stays(part: str) -> None:
    pod = a_pod()
    pod["metadata"]["annotations"] = {
        names.LIMIT_RANGER: f"LimitRanger plugin set: nvidia.com/gpu {part} for container main"
    }
    assert asks_for_gpus(read(reviewed(pod)[0]))


@pytest.mark.parametrize(
    "recorded",
    ["", "anything", "LimitRanger plugin set: nvidia.com/gpu limit for container other"],
)
def test_a_record_of_something_else_takes_nothing(recorded: str) -> None:
    pod, outcome = reviewed(a_pod(annotations={names.LIMIT_RANGER: recorded}))
    assert asks_for_gpus(read(pod))
    assert not any("LimitRange" in warning for warning in outcome.warnings)


def test_a_pod_that_starts_without_its_gpus_has_0_of_what_a_limit_range_would_give_it_after_us() -> None:
    submitted = a_pod(annotations={names.HUB_USER: "bob"})
    full = FakeClusterView(has="full")
    pod, outcome = reviewed(submitted, HUB, full, zero=frozenset({names.GPU_RESOURCE, MIG}))
    assert outcome.kind == "stripped"
    none = {names.GPU_RESOURCE: "0", MIG: "0"}
    assert pod["spec"]["containers"][0]["resources"] == {"limits": none, "requests": none}
