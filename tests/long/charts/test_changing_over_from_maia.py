"""The steps of docs/operations/maia.md beside a release of MAIA's name and shape."""

import json
import re
from pathlib import Path
from typing import Final

import pytest

from booking.server.web import maia
from cluster import names
from devcluster.cluster import Cluster
from devcluster.commands import output
from devcluster.errors import ClusterError
from devcluster.paths import CHECKOUT
from devcluster.product import chart
from tests.long.charts.conftest import NO_PULL

pytestmark = pytest.mark.controlplane

THEIRS: Final = CHECKOUT / "tests" / "long" / "charts" / "maia"
RELEASE: Final = names.PRODUCT
"""Of MAIA's manual; so is the namespace."""
PAGE: Final = (CHECKOUT / "docs" / "operations" / "maia.md").read_text()
COMMANDS: Final = re.findall(r"^       ((?:kubectl|helm) .+)$", PAGE, re.MULTILINE)
VALUES: Final = NO_PULL | {"apiToken": "mine", "maia": {"enabled": True}}


def run(cluster: Cluster, command: str, folder: Path) -> str:
    """As an administrator types it."""
    values = folder / "my-values.yaml"
    values.write_text(json.dumps(VALUES))
    command = command.replace("my-values.yaml", str(values)).replace("=TOKEN", "=mine").replace("'", "")
    program, *words = command.replace("charts/gpu-booking", str(chart.CHART)).split()
    homes = dict.fromkeys(("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "HOME"), str(folder))
    environment = {"PATH": "/usr/bin:/bin", "KUBECONFIG": str(cluster.kubeconfig), **homes}
    return output([cluster.program(program), *words], env=environment)


def found(cluster: Cluster, kind: str) -> set[str]:
    listed = cluster.kubectl("get", kind, "--namespace", names.NAMESPACE, "--output=name")
    return {line.rpartition("/")[2] for line in listed.splitlines()}


def selected(cluster: Cluster) -> str:
    """What the Service pod-terminator leads to."""
    words = ("get", "service", "pod-terminator", f"--namespace={names.NAMESPACE}", "--output=json")
    return str(json.loads(cluster.kubectl(*words))["spec"]["selector"])


def test_the_documented_steps_leave_maias_webhook_until_it_is_removed_and_then_nothing_of_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    show, remove_terminator, install, point, uninstall, again = COMMANDS
    run(cluster, f"helm install {RELEASE} {THEIRS} -n {names.NAMESPACE} --create-namespace", tmp_path)
    before = found(cluster, "deployments")

    with pytest.raises(ClusterError, match=f"Release {RELEASE} in namespace {names.NAMESPACE} is MAIA's"):
        chart.install(cluster, VALUES)
    assert found(cluster, "mutatingwebhookconfigurations") == {"gpu-booking-webhook"}
    assert found(cluster, "deployments") == before

    assert "gpu-booking-pod-terminator" in run(cluster, show, tmp_path)
    run(cluster, remove_terminator, tmp_path)
    run(cluster, install, tmp_path)
    ours = {names.WEBHOOK, names.LAST_WEBHOOK}
    assert found(cluster, "mutatingwebhookconfigurations") == {"gpu-booking-webhook", *ours}
    assert names.PRODUCT in selected(cluster)

    run(cluster, point, tmp_path)
    words = ("get", "deployment", "gpu-booking-mutating-webhook", f"--namespace={names.NAMESPACE}")
    deployment = json.loads(cluster.kubectl(*words, "--output=json"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    server = f"http://{names.BOOKING_SERVER}.{names.NAMESPACE}"
    assert {one["name"]: one["value"] for one in container["env"]} == {
        "API_URL": f"{server}{maia.SCHEDULABILITY}/",
        "GPU_STATS_URL": f"{server}{maia.STATS[1]}/",
        "API_TOKEN": "mine",
    }

    run(cluster, uninstall, tmp_path)
    assert found(cluster, "mutatingwebhookconfigurations") == ours
    assert not found(cluster, "deployments") & before
    assert names.PRODUCT in selected(cluster)
    words = ("delete", "service", "pod-terminator", f"--namespace={names.NAMESPACE}")
    cluster.kubectl(*words)
    run(cluster, again, tmp_path)
    assert names.PRODUCT in selected(cluster)
