"""Which Event explains a pod that does not exist, and in which words."""

from datetime import timedelta

import msgspec
import pytest

from booking.server.cluster_status.never_created import newest_about, why_never_created
from cluster import names
from cluster.fake.clock import START
from cluster.kube.resources import EventSeries, InvolvedObject, KubeEvent

QUOTA = (
    'Error creating: pods "train-7d9-x" is forbidden: exceeded quota: gpus, requested:'
    " requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4"
)


def refusal(kind: str, name: str, minute: int = 0, message: str = QUOTA) -> KubeEvent:
    return KubeEvent(
        reason="FailedCreate",
        message=message,
        count=7,
        last_timestamp=START + timedelta(minutes=minute),
        involved_object=InvolvedObject(kind=kind, name=name),
    )


@pytest.mark.parametrize(
    ("queried", "owner"),
    [
        ("train", "train"),
        ("train", "train-7d9c5"),
        ("train-7d9c5-x2z4q", "train-7d9c5"),
        ("web-0", "web"),
        ("sweep-3-x2z4q", "sweep"),
        ("nightly", "nightly-29012345"),
    ],
)
def test_a_pod_is_asked_about_by_its_own_name_or_that_of_what_creates_it(queried: str, owner: str) -> None:
    found = newest_about(queried, [refusal("X", "other"), refusal("ReplicaSet", owner)])
    assert found is not None
    assert found.involved_object.name == owner


@pytest.mark.parametrize(
    ("queried", "owner"), [("train", "train-eval-7d9c5"), ("trai", "train"), ("a.b", "axb")]
)
def test_a_controller_whose_name_only_begins_alike_is_another_one(queried: str, owner: str) -> None:
    assert newest_about(queried, [refusal("ReplicaSet", owner)]) is None


def test_the_newest_refusal_counts_in_whatever_field_its_time_is() -> None:
    first, later = refusal("Job", "train", minute=1), refusal("Job", "train")
    series = EventSeries(last_observed_time=START + timedelta(minutes=2))
    repeated = msgspec.structs.replace(later, series=series, last_timestamp=None)
    undated = msgspec.structs.replace(first, last_timestamp=None)
    assert newest_about("train", [repeated, first, undated]) == repeated


def test_a_refusal_by_a_quota_names_the_quota_and_the_remedy() -> None:
    found = why_never_created(refusal("ReplicaSet", "train-7d9"), namespace="lab", name="train")
    assert (found.namespace, found.name, found.state) == ("lab", "train", "never created")
    assert found.because[0].startswith(
        'ReplicaSet lab/train-7d9 could not create its pod: pods "train-7d9-x"'
    )
    assert "7 times so far" in found.because[1]
    assert "ResourceQuota gpus;" in found.would_change[0]
    assert "PriorityClass gpu-opportunistic" in found.would_change[1]
    of_mig = refusal(
        "Job", "train", message=QUOTA.replace(names.GPU_RESOURCE, f"{names.MIG_RESOURCE_PREFIX}1g.10gb")
    )
    explained = why_never_created(of_mig, namespace="lab", name="train")
    assert explained.would_change == found.would_change


def test_a_refusal_by_something_else_has_no_remedy_of_ours() -> None:
    other = refusal("Job", "train", message="pods is forbidden: no PriorityClass")
    assert len(why_never_created(other, namespace="lab", name="train").would_change) == 1
    memory = refusal(
        "Job", "train", message="exceeded quota: memory, requested: memory=1Gi, used: memory=1Gi"
    )
    assert len(why_never_created(memory, namespace="lab", name="train").would_change) == 1
