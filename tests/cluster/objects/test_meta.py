"""Metadata of any object, and how partial structs read what an API server writes."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.kube import resources
from cluster.kube.resources import Resource
from cluster.objects.bookings import Booking
from cluster.objects.meta import UNREADABLE, Instant, ListMeta, Meta, Owner, Status, Versioned, ready
from cluster.objects.nodes import Lease, Node
from cluster.objects.pods import Pod
from cluster.objects.volumes import StorageClass, Volume, VolumeClaim

KEY = names.EVICTIONS
WRITTEN = {
    "name": "p",
    "namespace": "team",
    "uid": "uid-p",
    "resourceVersion": "4711",
    "creationTimestamp": "2026-11-23T09:00:00Z",
    "deletionTimestamp": "2026-11-23T09:00:30Z",
    "deletionGracePeriodSeconds": 30,
    "labels": {"app": "web"},
    "annotations": {KEY: "2"},
    "ownerReferences": [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "uid-j", "controller": True},
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "uid-c"},
    ],
    "finalizers": ["example.com/keep"],
    "generation": 3,
    "managedFields": [{"manager": "kubectl"}],
}
"""As ``kubectl get --output json --show-managed-fields`` shows it."""


def with_note(text: str | None) -> Meta:
    return Meta(annotations=None if text is None else {KEY: text})


def test_metadata_is_read_as_an_api_server_writes_it() -> None:
    assert msgspec.convert(WRITTEN, Meta) == Meta(
        name="p",
        namespace="team",
        uid="uid-p",
        resource_version="4711",
        creation_timestamp=datetime(2026, 11, 23, 9, tzinfo=UTC),
        deletion_timestamp=datetime(2026, 11, 23, 9, 0, 30, tzinfo=UTC),
        deletion_grace_period_seconds=30,
        labels={"app": "web"},
        annotations={KEY: "2"},
        owner_references=(
            Owner(api_version="batch/v1", kind="Job", name="j", uid="uid-j", controller=True),
            Owner(api_version="v1", kind="ConfigMap", name="c", uid="uid-c"),
        ),
        finalizers=("example.com/keep",),
    )


def test_a_missing_annotation_differs_from_an_empty_one() -> None:
    found = [meta.annotation(KEY) for meta in (Meta(), Meta(annotations={}), with_note(""), with_note("x"))]
    assert found == [None, None, "", "x"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        pytest.param(None, 0, id="missing"),
        pytest.param("", 0, id="empty"),
        pytest.param("0", 0, id="nothing"),
        pytest.param("2", 2, id="a number"),
        pytest.param(" 12\n", 12, id="blanks around it"),
        pytest.param("007", 7, id="leading zeros"),
        pytest.param("999999999", 999_999_999, id="nine digits"),
        pytest.param("1000000000", 0, id="ten digits"),
        pytest.param("-1", 0, id="a negative number"),
        pytest.param("+1", 0, id="a sign"),
        pytest.param("1.0", 0, id="a point"),
        pytest.param("1_0", 0, id="an underscore"),
        pytest.param("1 0", 0, id="a blank within"),
        pytest.param("٣", 0, id="a digit of another script"),
        pytest.param("²", 0, id="an exponent"),
        pytest.param("0x1f", 0, id="hexadecimal"),
        pytest.param("two", 0, id="a word"),
    ],
)
def test_an_unreadable_number_in_an_annotation_counts_as_zero(text: str | None, number: int) -> None:
    assert with_note(text).count(KEY) == number


@given(st.integers(0, 10**9 - 1))
def test_every_count_we_can_reach_is_read_back(number: int) -> None:
    assert with_note(str(number)).count(KEY) == number


@given(st.text(max_size=20))
def test_any_text_is_read_as_a_number_that_can_be_counted_up(text: str) -> None:
    number = with_note(text).count(KEY)
    assert 0 <= number < 10**9
    assert number == 0 or text.strip().lstrip("0") == str(number)


OBJECTS = [one for one in vars(resources).values() if isinstance(one, Resource)]


@pytest.mark.parametrize("resource", OBJECTS, ids=lambda one: one.plural)
def test_a_bookmark_is_read_for_every_kind_that_can_be_watched(resource: Resource[Any]) -> None:
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    meta = {"resourceVersion": "4711", "creationTimestamp": None}
    text = msgspec.json.encode({**head, "metadata": meta})
    found = msgspec.json.decode(text, type=resource.type).metadata
    assert (found.name, found.uid, found.resource_version) == ("", "", "4711")


@pytest.mark.parametrize(
    ("kind", "bookmark"),
    [
        (Pod, {"spec": {"containers": None}, "status": {}}),
        (Node, {"spec": {}, "status": {"daemonEndpoints": {}, "nodeInfo": {"containerRuntimeVersion": ""}}}),
        (Lease, {"spec": {}}),
        (VolumeClaim, {"spec": {"resources": None}, "status": {}}),
        (Volume, {"spec": {}, "status": {}}),
        (StorageClass, {"provisioner": ""}),
        (Booking, {}),
    ],
    ids=["pod", "node", "lease", "claim", "volume", "class", "booking"],
)
def test_a_bookmark_is_read_as_an_empty_object(
    kind: type[msgspec.Struct], bookmark: dict[str, object]
) -> None:
    assert msgspec.convert(bookmark, kind) == kind()


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        *((Meta, key) for key in ("labels", "annotations", "ownerReferences", "finalizers")),
        *((Pod, f"spec.{key}") for key in ("containers", "initContainers", "tolerations", "volumes")),
        *((Pod, f"spec.{key}") for key in ("schedulingGates", "topologySpreadConstraints", "affinity")),
        *((Pod, f"status.{key}") for key in ("conditions", "containerStatuses", "startTime")),
        *((Node, f"status.{key}") for key in ("capacity", "allocatable", "conditions")),
        *((Node, f"spec.{key}") for key in ("taints", "unschedulable")),
        *((VolumeClaim, f"spec.{key}") for key in ("accessModes", "selector", "resources")),
        *((Volume, f"spec.{key}") for key in ("claimRef", "nodeAffinity", "capacity")),
        (StorageClass, "allowedTopologies"),
        (Booking, "status.ending"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_null_is_read_like_a_missing_field(kind: type[msgspec.Struct], key: str) -> None:
    """Go writes ``null`` for a list or a map that is nil."""
    body: Any = None
    for part in reversed(key.split(".")):
        body = {part: body}
    assert msgspec.convert(body, kind) == kind()


class TestVersions:
    @pytest.mark.parametrize("text", ["{}", '{"version": 1}', '{"new": true}'])
    def test_the_first_version_may_leave_its_number_out(self, text: str) -> None:
        assert msgspec.json.decode(text, type=Versioned) == Versioned()

    @pytest.mark.parametrize("text", ['{"version": 2}', '{"version": 0}', '{"version": "1"}', "[]", "null"])
    def test_any_other_version_is_refused(self, text: str) -> None:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=Versioned)

    def test_the_first_version_is_not_written(self) -> None:
        assert msgspec.json.encode(Versioned()) == b"{}"


class TestInstants:
    @pytest.mark.parametrize(
        "text", ["2026-11-23T09:00:00Z", "2026-11-23T10:00:00+01:00", "2026-11-23T04:00:00.000-05:00"]
    )
    def test_an_instant_is_read_in_many_spellings(self, text: str) -> None:
        assert msgspec.convert(text, Instant) == datetime(2026, 11, 23, 9, tzinfo=UTC)

    @pytest.mark.parametrize("text", ["2026-11-23T09:00:00", "2026-11-23", "09:00:00Z", ""])
    def test_a_text_without_an_offset_is_no_instant(self, text: str) -> None:
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(text, Instant)


def test_unreadable_covers_every_error_that_a_text_can_raise() -> None:
    found = []
    for text in ("{", "[]", '{"new": ' + "[" * 5_000 + "]" * 5_000 + "}"):
        try:
            msgspec.json.decode(text, type=Versioned)
        except UNREADABLE as error:
            found.append(type(error).__name__)
    assert found == ["DecodeError", "ValidationError", "RecursionError"]


def test_a_type_that_msgspec_cannot_read_is_an_error_when_its_module_is_imported() -> None:
    class Both(msgspec.Struct):
        either: Meta | Status

    assert ready(Meta) is Meta
    with pytest.raises(TypeError, match="multiple Struct types"):
        ready(Both)


def test_a_list_has_the_token_of_its_next_page() -> None:
    first = msgspec.convert({"resourceVersion": "7", "continue": "token"}, ListMeta)
    last = msgspec.convert({"resourceVersion": "7"}, ListMeta)
    assert (first.continue_, last.continue_, first.resource_version) == ("token", None, "7")
