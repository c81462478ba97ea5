"""A pod that has lost work is distinguished from one that was asked to end, and from one that never began."""

from datetime import UTC, datetime
from typing import Any

import pytest

from cluster.kube.resources import WholePod
from cluster.objects.meta import Meta
from tests.long.chaos.load import lost_work

OVER = {"terminated": {"reason": "Error", "exitCode": 137, "startedAt": "then", "finishedAt": "now"}}
NEVER_BEGAN = {"terminated": {"reason": "ContainerStatusUnknown", "exitCode": 137, "startedAt": None}}
DIED_IN_STARTING = {
    "terminated": {"reason": "StartError", "exitCode": 128, "startedAt": "1970-01-01T00:00:00Z"}
}
RUNS: dict[str, Any] = {"running": {}}
TERMINATING = Meta(deletion_timestamp=datetime(2026, 1, 2, tzinfo=UTC))


def pod(state: dict[str, Any], last: dict[str, Any], meta: Meta) -> WholePod:
    return WholePod(metadata=meta, status={"containerStatuses": [{"state": state, "lastState": last}]})


@pytest.mark.parametrize(("state", "last"), [(OVER, {}), (RUNS, OVER)], ids=["ended", "started again"])
def test_a_container_that_ends_by_itself_has_lost_work(state: dict[str, Any], last: dict[str, Any]) -> None:
    assert lost_work(pod(state, last, Meta())) == "Error (137), then to now"


@pytest.mark.parametrize(
    ("state", "meta"),
    [
        (OVER, TERMINATING),
        (RUNS, Meta()),
        (NEVER_BEGAN, Meta()),
        (DIED_IN_STARTING, Meta()),
        ({"waiting": {}}, Meta()),
    ],
    ids=["asked to end", "runs", "never began", "died in starting", "waits"],
)
def test_no_other_pod_has_lost_work(state: dict[str, Any], meta: Meta) -> None:
    assert lost_work(pod(state, {}, meta)) is None
    assert lost_work(WholePod()) is None
