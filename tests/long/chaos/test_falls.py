"""A container that ends by itself is found; one that was killed, or asked to end, is none of these."""

import pytest

from cluster.kube.resources import WholePod
from cluster.objects.meta import Meta
from tests.long.chaos.falls import Ended, ended, unrequested


def pod(exit_code: int, *, container: str = "server", when: str = "lastState") -> WholePod:
    over = {"exitCode": exit_code, "reason": "Error", "containerID": "containerd://c-1"}
    status = {"name": container, "state": {"running": {}}, "lastState": {}} | {when: {"terminated": over}}
    return WholePod(metadata=Meta(name="one"), status={"containerStatuses": [status]})


@pytest.mark.parametrize("when", ["state", "lastState"])
def test_a_container_that_ends_with_an_error_has_crashed(when: str) -> None:
    assert unrequested(ended([pod(1, when=when)]), ()) == [Ended("c-1", "one", "server", 1, "Error")]


@pytest.mark.parametrize(
    ("exit_code", "container", "struck"),
    [(1, "server", {"c-1"}), (137, "server", ()), (0, "server", ()), (1, "kube-scheduler", ())],
    ids=["struck", "killed by its kubelet", "asked to end", "a scheduler without its Lease"],
)
def test_a_container_that_was_asked_to_end_has_not_crashed(
    exit_code: int, container: str, struck: set[str]
) -> None:
    assert unrequested(ended([pod(exit_code, container=container)]), struck) == []


def test_no_end_is_found_on_a_pod_that_runs_or_that_never_began() -> None:
    running = {"name": "server", "state": {"running": {}}}
    pods = [WholePod(status={"containerStatuses": [running]}), WholePod()]
    assert not [*ended(pods)]
