"""What we ask of cert-manager, its own custom resources take. cert-manager itself does not run here."""

import json
from typing import Any

import pytest

from devcluster.cluster import Cluster
from devcluster.product import chart
from tests.charts.conftest import Document, Render
from tests.charts.custom_resources import resources

pytestmark = pytest.mark.controlplane

BY_CERT_MANAGER: dict[str, Any] = {"admission": {"certificates": "cert-manager"}}
MODES = {
    "dedicated": {**BY_CERT_MANAGER},
    "existing": {**BY_CERT_MANAGER, "scheduler": {"mode": "existing", "name": "default-scheduler"}},
}
TRY = ("apply", "--server-side", "--dry-run=server", "--filename=-", "--output=json")


@pytest.fixture(scope="module")
def managed(installed: Cluster) -> Cluster:
    """The cluster with cert-manager's kinds in it."""
    for file in resources():
        installed.kubectl("apply", "--server-side", f"--filename={file}")
        name = f"crd/{file.stem.removeprefix('cert-manager.io_')}.cert-manager.io"
        chart.await_established(installed, name)
    return installed


def theirs(documents: list[Document]) -> list[Document]:
    return [d for d in documents if d["apiVersion"].startswith("cert-manager.io/")]


@pytest.mark.parametrize("values", MODES.values(), ids=MODES.keys())
def test_cert_manager_takes_every_field_that_we_send_it(
    managed: Cluster, render: Render, values: dict[str, Any]
) -> None:
    sent = theirs(render(values))
    output = managed.kubectl(*TRY, given=json.dumps({"apiVersion": "v1", "kind": "List", "items": sent}))
    taken = {(item["kind"], item["metadata"]["name"]): item["spec"] for item in json.loads(output)["items"]}
    assert taken == {(d["kind"], d["metadata"]["name"]): d["spec"] for d in sent}
    assert {kind for kind, _ in taken} == {"Issuer", "Certificate"}
