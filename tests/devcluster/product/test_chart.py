"""Helm is called as by an administrator, with no settings of the person who runs it."""

import json
from pathlib import Path
from typing import Any

import pytest

from devcluster.errors import ClusterError
from devcluster.product import chart
from tests.devcluster.product.cluster import FakeCluster

SCRIPT = """#!/bin/sh
printf '%s\\n' "$@" > "$HELM_DATA_HOME.words"
env > "$HELM_DATA_HOME.env"
cat > "$HELM_DATA_HOME.values"
[ -e "$HELM_DATA_HOME.fail" ] && { echo "Error: chart is unwell" >&2; exit 1; }
exit 0
"""


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    """A cluster whose helm records its arguments, environment and values next to its folder."""
    (tmp_path / "helm").write_text(SCRIPT)
    (tmp_path / "helm").chmod(0o755)
    return FakeCluster(tmp_path)


def test_the_chart_is_installed_into_its_namespace_with_the_given_values_alone(
    cluster: FakeCluster, tmp_path: Path
) -> None:
    values: dict[str, Any] = {"server": chart.external("192.0.2.1", 8080)}
    chart.install(cluster, values)
    words = (tmp_path / "helm.words").read_text().split()
    assert words[:2] == ["upgrade", "--install"]
    assert {"--create-namespace", "--reset-values", "--namespace=gpu-booking"} <= set(words)
    assert f"--kubeconfig={cluster.kubeconfig}" in words
    assert json.loads((tmp_path / "helm.values").read_text()) == values


def test_helm_keeps_its_files_in_the_clusters_folder_and_sees_no_settings_of_a_person(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELM_NAMESPACE", "elsewhere")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid")
    chart.install(cluster, {})
    seen = dict(
        line.split("=", 1) for line in (tmp_path / "helm.env").read_text().splitlines() if "=" in line
    )
    assert {seen[name] for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")} == {
        str(tmp_path / "helm")
    }
    assert not {"HELM_NAMESPACE", "HTTPS_PROXY", "KUBECONFIG"} & seen.keys()


def test_a_refusal_of_helm_is_reported_in_its_own_words(cluster: FakeCluster, tmp_path: Path) -> None:
    (tmp_path / "helm.fail").touch()
    with pytest.raises(ClusterError, match="chart is unwell"):
        chart.install(cluster, {})
