"""Static pods: the kubelet starts them by itself, none is bound, and their mirror has another uid."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import names
from cluster.objects.assignment import devices_of, drift_of
from devcluster import probe
from devcluster.cluster import Cluster
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

NODE = "node-a"


@pytest.fixture
def manifest(cluster: Cluster) -> Iterator[Path]:
    """A file that the node's kubelet reads, gone again after the test."""
    path = cluster.state / NODE / "static-pods" / "fixed.json"
    yield path
    path.unlink(missing_ok=True)


def test_l1_the_gpu_of_a_static_pod_is_given_to_no_other_pod(playground: Playground, manifest: Path) -> None:
    body = probe.pod("fixed", [probe.container("main", gpus=1)])
    body["apiVersion"], body["kind"] = "v1", "Pod"
    body["metadata"]["namespace"] = playground.namespace
    manifest.write_text(json.dumps(body))
    mirror = f"fixed-{NODE}"
    playground.await_that(
        f"{mirror} is there", lambda: mirror in {p.metadata.name for p in playground.pods()}
    )
    playground.await_phase([mirror])

    def reported() -> frozenset[str] | None:
        uid = playground.pod(mirror).metadata.annotation(names.STATIC_POD) or ""
        return devices_of(drift_of(playground.node(NODE)).get(uid, {})) or None

    taken = playground.await_that("the agent says which device it has", reported)
    others = [playground.simple(f"other-{number}", node=NODE) for number in range(3)]
    playground.await_phase(others)
    for name in others:
        assert not devices_of(playground.assignment(name)) & taken
        playground.check_agreement(name)
    playground.await_waiting(playground.simple("too-many", node=NODE))

    manifest.unlink()
    playground.await_phase(["too-many"])
    assert devices_of(playground.assignment("too-many")) == taken
