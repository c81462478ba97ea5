"""The chart on a real API server: it is accepted, Bookings are checked, installing again harms nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster import names
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.product import chart
from tests.charts.matrix import MATRIX
from tests.long.charts.conftest import NO_PULL

pytestmark = pytest.mark.controlplane

# Only OpenShift's own API server knows its constraints.
TAKEN = {name: values for name, values in MATRIX.items() if values.get("distribution") != "openshift"}
VALUES: dict[str, dict[str, Any]] = TAKEN | {
    "a controller outside": {"controller": {"external": {"address": "192.0.2.10", "port": 9443}}},
    "a server outside": {"server": {"external": {"address": "2001:db8::10", "port": 8080}}},
    "admission": {"admission": {"failurePolicy": "Ignore", "timeoutSeconds": 30, "excludedNamespaces": []}},
}
BOOKING: dict[str, Any] = {
    "user": "alice",
    "model": "NVIDIA-A100-SXM4-80GB",
    "count": 1,
    "start": "2026-03-02T09:00:00Z",
    "end": "2026-03-06T17:00:00Z",
}


def create(cluster: Cluster, name: str, spec: dict[str, Any], *flags: str) -> dict[str, Any]:
    body = {
        "apiVersion": f"{names.DOMAIN}/v1",
        "kind": "Booking",
        "metadata": {"name": name},
        "spec": spec,
    }
    output = cluster.kubectl("create", "--filename=-", "--output=json", *flags, given=json.dumps(body))
    created: dict[str, Any] = json.loads(output)
    return created


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES.keys())
def test_every_document_is_accepted_by_the_api_servers_strict_validation(
    installed: Cluster, program: Path, tmp_path: Path, values: dict[str, Any]
) -> None:
    text = chart.render(program, tmp_path, values)
    words = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict"]
    output = installed.kubectl(*words, "--filename=-", "--output=name", given=text)
    assert len(output.splitlines()) == len([document for document in yaml.safe_load_all(text) if document])


def test_a_booking_is_stored_with_its_defaults_and_listed_in_columns(installed: Cluster) -> None:
    created = create(installed, "b-1", {**BOOKING, "namespace": "research", "node": "node-a"})
    assert created["spec"]["topology"] == "any"
    listed = installed.kubectl("get", "bookings", "b-1", "--output=wide").splitlines()
    assert listed[0].split() == ["NAME", "USER", "MODEL", "COUNT", "START", "END", "NAMESPACE", "NODE"]
    row = ["b-1", "alice", BOOKING["model"], "1", BOOKING["start"], BOOKING["end"], "research", "node-a"]
    assert listed[1].split() == row


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 0}, "should be greater than or equal to 1"),
        ({"count": 1.5}, "must be of type integer"),
        ({"end": BOOKING["start"]}, "A booking must end after it starts."),
        ({"end": "2026-03-02T09:30:00+02:00"}, "A booking must end after it starts."),
        ({"start": "tomorrow"}, "must be of type date-time"),
        ({"start": "0000-01-01T00:00:00Z"}, "between the years 1970 and 9999"),
        ({"start": "0001-01-01T00:00:00+14:00"}, "between the years 1970 and 9999"),
        ({"end": "9999-12-31T23:59:59-10:00"}, "between the years 1970 and 9999"),
        ({"model": "NVIDIA RTX A6000"}, "spec.model"),
        ({"user": ""}, "spec.user"),
        ({"topology": "somewhere"}, "supported values"),
        ({"namespace": "Research"}, "spec.namespace"),
    ],
)
def test_an_invalid_booking_is_refused(installed: Cluster, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ClusterError, match=message):
        create(installed, "b-2", {**BOOKING, **change}, "--dry-run=server")


@pytest.mark.parametrize("field", sorted(BOOKING))
def test_a_booking_without_one_of_its_fields_is_refused(installed: Cluster, field: str) -> None:
    spec = {name: value for name, value in BOOKING.items() if name != field}
    with pytest.raises(ClusterError, match=rf"spec\.{field}: Required value"):
        create(installed, "b-2", spec, "--dry-run=server", "--validate=false")


def test_a_write_of_ending_pods_changes_the_status_alone(installed: Cluster) -> None:
    create(installed, "b-3", BOOKING)
    patch = json.dumps({"status": {"ending": ["11111111-2222"]}, "spec": {"count": 8}})
    words = ["patch", "booking", "b-3", "--type=merge", f"--patch={patch}", "--output=json"]
    patched = json.loads(installed.kubectl(*words, "--subresource=status"))
    assert patched["status"] == {"ending": ["11111111-2222"]}
    assert patched["spec"]["count"] == 1
    assert json.loads(installed.kubectl(*words))["status"] == {"ending": ["11111111-2222"]}


def test_installing_again_keeps_the_authority_that_the_controller_wrote(installed: Cluster) -> None:
    def authority() -> str:
        path = "jsonpath={.webhooks[0].clientConfig.caBundle}"
        return installed.kubectl("get", "mutatingwebhookconfiguration", names.WEBHOOK, f"--output={path}")

    change = {"webhooks": [{"name": names.WEBHOOK_ENTRY, "clientConfig": {"caBundle": "LS0tLS0="}}]}
    words = ["patch", "mutatingwebhookconfiguration", names.WEBHOOK, "--type=strategic"]
    installed.kubectl(*words, f"--patch={json.dumps(change)}", f"--field-manager={names.CONTROLLER}")
    chart.install(installed, NO_PULL | {"admission": {"timeoutSeconds": 5}})
    assert authority() == "LS0tLS0="
    chart.install(installed, NO_PULL)
    assert authority() == "LS0tLS0="


def test_a_service_whose_part_moves_into_pods_keeps_no_old_address(installed: Cluster) -> None:
    def slices() -> list[str]:
        words = ["get", "endpointslices", f"--namespace={names.NAMESPACE}", "--output=name"]
        return [line for line in installed.kubectl(*words).splitlines() if "external" in line]

    chart.install(installed, NO_PULL | {"server": chart.external("192.0.2.10", 8080)})
    assert len(slices()) == 1
    chart.install(installed, NO_PULL)
    assert slices() == []
