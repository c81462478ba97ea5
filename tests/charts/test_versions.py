"""What the chart becomes on older versions of Kubernetes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from booking.controller.admission import endpoint
from cluster import names
from devcluster.errors import ClusterError
from devcluster.product import chart

pytestmark = pytest.mark.component

MINORS = ("v1.30.14", "v1.33.1", "v1.36.0")


def hiding(text: str) -> list[dict[str, Any]]:
    """The webhooks that hide GPUs from pods without one."""
    webhooks = [
        webhook
        for document in yaml.safe_load_all(text)
        if document and document["kind"] == "MutatingWebhookConfiguration"
        for webhook in document["webhooks"]
    ]
    return [one for one in webhooks if one["name"] == names.HIDING_WEBHOOK_ENTRY]


def test_what_the_api_server_cannot_write_the_webhook_does(program: Path, tmp_path: Path) -> None:
    served = chart.render(program, tmp_path, kubernetes="v1.36.0")
    assert "kind: MutatingAdmissionPolicy\n" in served
    assert not hiding(served)
    older = chart.render(program, tmp_path, served=(), kubernetes="v1.35.0")
    assert "kind: MutatingAdmissionPolicy\n" not in older
    (webhook,) = hiding(older)
    assert webhook["clientConfig"]["service"]["path"] == endpoint.HIDING_PATH
    selector = webhook["namespaceSelector"]
    assert selector["matchLabels"] == {names.NO_VISIBLE_DEVICES: "true"}
    assert selector["matchExpressions"][0]["operator"] == "NotIn"
    without = chart.render(program, tmp_path, {"policies": {"enabled": False}}, (), kubernetes="v1.35.0")
    assert not hiding(without)


@pytest.mark.parametrize("version", MINORS)
def test_the_scheduler_is_of_the_clusters_own_version(program: Path, tmp_path: Path, version: str) -> None:
    text = chart.render(program, tmp_path, served=(), kubernetes=version)
    assert f"/kube-scheduler:{version}\n" in text


@pytest.mark.parametrize("tag", ["v1.35.0", "1.36.2", "v2.0.0"])
def test_a_scheduler_newer_than_the_api_server_is_refused_with_the_reason(
    program: Path, tmp_path: Path, tag: str
) -> None:
    values = {"scheduler": {"image": {"tag": tag}}}
    with pytest.raises(ClusterError, match="a newer kube-scheduler waits for ever"):
        chart.render(program, tmp_path, values, kubernetes="v1.34.5")


@pytest.mark.parametrize("tag", ["v1.34.9", "v1.33.2", "latest", "1"])
def test_one_that_is_not_newer_or_whose_tag_says_nothing_is_taken(
    program: Path, tmp_path: Path, tag: str
) -> None:
    values = {"scheduler": {"image": {"tag": tag}}}
    assert f"/kube-scheduler:{tag}\n" in chart.render(program, tmp_path, values, kubernetes="v1.34.5")


def test_an_older_api_server_than_the_lowest_that_ran_is_refused(program: Path, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"chart requires kubeVersion: >=1\.30\.0-0"):
        chart.render(program, tmp_path, kubernetes="v1.29.15")


@pytest.mark.parametrize(("version", "path"), [("v1.30.14", "/healthz"), ("v1.34.5-eks-1", "/readyz")])
def test_a_scheduler_is_asked_whether_it_is_ready_where_it_answers(
    program: Path, tmp_path: Path, version: str, path: str
) -> None:
    text = chart.render(program, tmp_path, served=(), kubernetes=version)
    assert f"httpGet: {{path: {path}, port: scheduler, scheme: HTTPS}}" in text
