"""Laws on kubelets and more, on the newest, where one kubelet is of 1.34 and the other of the newest."""

import pytest

from devcluster.versions import NEWEST_MINOR
from tests.e2e.playground import Playground
from tests.e2e.testbed import NODES
from tests.long.test_refused_pods import NODE
from tests.long.versions.cases import *  # noqa: F403 - the tests
from tests.long.versions.cases import on

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]  # it may be built first

OLD = "1.34"
DESIGN = on("mixed", kubelets={NODE: OLD})


def test_the_kubelets_are_of_two_versions(playground: Playground) -> None:
    words = ("get", "nodes", "--output=jsonpath={range .items[*]}{.status.nodeInfo.kubeletVersion} {end}")
    minors = {version.removeprefix("v").rpartition(".")[0] for version in playground.kubectl(*words).split()}
    assert minors == {OLD, NEWEST_MINOR}
    pods = [playground.simple(f"on-{node}", node=node) for node in NODES]
    playground.await_phase(pods)
    for name in pods:
        playground.check_agreement(name)
