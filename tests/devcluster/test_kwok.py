"""kwok's command line and stages; ``make bench`` shows that it makes nodes Ready and pods Running."""

import json
from pathlib import Path

from devcluster.components import kwok


def test_kwok_manages_simulated_nodes_and_never_a_real_one() -> None:
    folder = Path("/state")
    argv = kwok.command(folder / "kwok", kubeconfig=folder / "admin", configuration=folder / "stages")
    assert argv[0] == "/state/kwok"
    assert {"--kubeconfig=/state/admin", "--config=/state/stages", "--manage-all-nodes=false"} < set(argv)
    assert "--manage-nodes-with-label-selector=simulated=true" in argv


def test_nodes_get_ready_and_pods_run_and_end_by_stages_of_our_own() -> None:
    _options, *stages = [json.loads(text) for text in kwok.configuration().split("\n---\n")]
    following = {stage["metadata"]["name"]: stage["spec"]["next"] for stage in stages}
    assert list(following) == ["node-ready", "pod-runs", "pod-ends"]
    assert "phase: Running" in following["pod-runs"]["statusTemplate"]
    assert following["pod-ends"] == {"delete": True}
    assert all(stage["spec"]["selector"]["matchExpressions"] for stage in stages)
