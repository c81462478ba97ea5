"""The custom resource says the same as the struct that reads it, and as the names that everybody uses."""

import re
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
import yaml

from cluster import names
from cluster.kube.resources import BOOKINGS
from cluster.objects.bookings import BookingSpec, BookingStatus, Topology
from devcluster.product.chart import CHART

CRD: dict[str, Any] = yaml.safe_load(Path(CHART, "files", "bookings.yaml").read_text())
VERSION: dict[str, Any] = CRD["spec"]["versions"][0]
PROPERTIES: dict[str, Any] = VERSION["schema"]["openAPIV3Schema"]["properties"]


def fields(struct: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_it_is_served_where_our_parts_read_it() -> None:
    assert CRD["metadata"]["name"] == f"{BOOKINGS.plural}.{BOOKINGS.group}"
    assert CRD["spec"]["group"] == BOOKINGS.group
    assert CRD["spec"]["scope"] == ("Namespaced" if BOOKINGS.namespaced else "Cluster")
    assert CRD["spec"]["names"]["kind"] == BOOKINGS.kind
    assert [version["name"] for version in CRD["spec"]["versions"]] == [BOOKINGS.version]


def test_its_spec_and_status_have_the_fields_that_are_read_and_no_others() -> None:
    assert set(PROPERTIES["spec"]["properties"]) == fields(BookingSpec)
    assert set(PROPERTIES["status"]["properties"]) == fields(BookingStatus)


def test_what_the_struct_requires_is_required() -> None:
    needed = {field.encode_name for field in msgspec.structs.fields(BookingSpec) if field.required}
    assert set(PROPERTIES["spec"]["required"]) == needed


def test_the_topologies_are_the_same() -> None:
    assert PROPERTIES["spec"]["properties"]["topology"]["enum"] == list(get_args(Topology))


@pytest.mark.parametrize(
    "name", ["NVIDIA H200 NVL", "Tesla M2050 / M2070", "NVIDIA (engineering) #1", "N" * 96]
)
def test_a_gpu_can_be_mirrored_under_any_name_that_its_driver_reports(name: str) -> None:
    model = PROPERTIES["spec"]["properties"]["model"]
    assert re.search(model["pattern"], names.model_label(name))
    assert len(name) <= model["maxLength"]


def test_every_field_is_explained() -> None:
    for part in ("spec", "status"):
        assert all(field["description"].endswith(".") for field in PROPERTIES[part]["properties"].values())
