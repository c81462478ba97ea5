"""The laws are watched on a cluster that the story's own program plays, too."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from cluster import names
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.wait import poll
from tests.clusters import own
from tests.e2e.attached import Attached
from tests.e2e.story_run import run
from tests.laws.broken import LawBrokenError
from tests.patience import PATIENCE

pytestmark = pytest.mark.e2e


def give_a_device_twice(name: str) -> bool:
    """Write one pod's devices on another one, as soon as a cluster has two that have some; whether it had."""

    def is_done() -> bool:
        try:
            cluster = Cluster.attach(name)
            pods = json.loads(cluster.kubectl("get", "pods", "--all-namespaces", "--output=json"))["items"]
        except ClusterError:
            return False  # it is not up yet
        metas = [pod["metadata"] for pod in pods]
        given = [meta for meta in metas if names.ASSIGNED in meta.get("annotations", {})]
        if len(given) < 2:
            return False
        first, second = given[:2]
        words = ("annotate", "pod", second["name"], f"--namespace={second['namespace']}", "--overwrite")
        cluster.kubectl(*words, f"{names.ASSIGNED}={first['annotations'][names.ASSIGNED]}")
        return True

    return bool(poll(is_done, seconds=PATIENCE))


def test_a_law_broken_while_the_story_is_played_is_seen_from_outside() -> None:
    name = own("attached")
    with ThreadPoolExecutor(1) as pool:
        breaking = pool.submit(give_a_device_twice, name)
        with pytest.raises(LawBrokenError, match="Law L1 is broken: "), Attached(name) as laws:
            played = run(name, "--processes", until=laws.has_failed)
    assert breaking.result()
    assert "REST API: " not in played.stdout, "it was played to its end nevertheless"
