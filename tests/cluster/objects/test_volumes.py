"""Claims, volumes and their classes are read as an API server writes them."""

from typing import Any

import msgspec
import pytest

from cluster.objects.meta import Meta
from cluster.objects.selectors import LabelSelector, NodeSelector, NodeSelectorTerm, Requirement
from cluster.objects.volumes import (
    BIND_COMPLETED,
    CLASS,
    ClaimReference,
    PodVolume,
    StorageClass,
    TopologyRequirement,
    Volume,
    VolumeClaim,
)

ZONE = "topology.kubernetes.io/zone"


def volume_claim(*, annotations: dict[str, str] | None = None, **spec: object) -> VolumeClaim:
    return msgspec.convert({"metadata": {"annotations": annotations}, "spec": spec}, VolumeClaim)


class TestVolumeClaim:
    def test_a_volume_claim_is_read_with_its_requirements(self) -> None:
        found = volume_claim(
            volumeName="pv-1",
            storageClassName="fast",
            volumeMode="Block",
            accessModes=["ReadWriteOncePod", "ReadOnlyMany"],
            resources={"requests": {"storage": "20Gi"}, "limits": {"storage": "30Gi"}},
            selector={"matchLabels": {"disk": "ssd"}},
            dataSource={"kind": "VolumeSnapshot", "name": "s"},
        ).spec
        assert (found.volume_name, found.storage_class_name, found.volume_mode) == ("pv-1", "fast", "Block")
        assert found.access_modes == ("ReadWriteOncePod", "ReadOnlyMany")
        assert found.resources is not None
        assert found.resources.requests == {"storage": "20Gi"}
        assert found.selector == LabelSelector(match_labels={"disk": "ssd"})

    @pytest.mark.parametrize(
        ("annotation", "field", "name"),
        [
            pytest.param(None, None, "", id="neither"),
            pytest.param(None, "", "", id="an empty field"),
            pytest.param(None, "fast", "fast", id="the field"),
            pytest.param("slow", None, "slow", id="the annotation"),
            pytest.param("slow", "fast", "slow", id="the annotation before the field"),
            pytest.param("", "fast", "", id="an empty annotation before the field, too"),
        ],
    )
    def test_the_class_of_a_volume_claim_is_named_by_the_annotation_before_the_field(
        self, annotation: str | None, field: str | None, name: str
    ) -> None:
        """Source: k8s.io/component-helpers storage/volume, GetPersistentVolumeClaimClass."""
        annotations = None if annotation is None else {CLASS: annotation}
        assert volume_claim(annotations=annotations, storageClassName=field).storage_class == name

    @pytest.mark.parametrize(
        ("volume", "annotations", "is_bound"),
        [
            pytest.param("pv-1", {BIND_COMPLETED: "yes"}, True, id="bound"),
            pytest.param("pv-1", {BIND_COMPLETED: ""}, True, id="an empty mark"),
            pytest.param("pv-1", {}, False, id="the volume is named, and nothing done yet"),
            pytest.param("pv-1", {"pv.kubernetes.io/bound-by-controller": "yes"}, False, id="another mark"),
            pytest.param("", {BIND_COMPLETED: "yes"}, False, id="no volume, as where it was lost"),
            pytest.param(None, {BIND_COMPLETED: "yes"}, False, id="no volume at all"),
            pytest.param(None, None, False, id="nothing"),
        ],
    )
    def test_a_volume_claim_is_bound_once_it_has_its_volume_and_the_controller_is_done(
        self, volume: str | None, annotations: dict[str, str] | None, *, is_bound: bool
    ) -> None:
        """Source: k8s.io/component-helpers storage/volume, IsBindCompleted."""
        assert volume_claim(annotations=annotations, volumeName=volume).is_bound is is_bound


def test_a_volume_is_read_with_its_nodes_and_its_volume_claim() -> None:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a", "b"]}]}
    found = msgspec.convert(
        {
            "metadata": {"name": "pv-1", "labels": {ZONE: "a"}},
            "spec": {
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
                "storageClassName": "fast",
                "volumeMode": "Filesystem",
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "100Gi"},
                "claimRef": {
                    "kind": "PersistentVolumeClaim",
                    "namespace": "team",
                    "name": "c",
                    "uid": "uid-c",
                },
                "local": {"path": "/disks/1"},
            },
            "status": {"phase": "Available"},
        },
        Volume,
    )
    spec = found.spec
    assert spec.node_affinity is not None
    assert spec.node_affinity.required == NodeSelector(
        node_selector_terms=(
            NodeSelectorTerm(match_expressions=(Requirement(key=ZONE, operator="In", values=("a", "b")),)),
        )
    )
    assert spec.claim_ref == ClaimReference(namespace="team", name="c", uid="uid-c")
    assert (spec.storage_class_name, spec.volume_mode, spec.access_modes) == (
        "fast",
        "Filesystem",
        ("ReadWriteOnce",),
    )
    assert (spec.capacity, found.status.phase) == ({"storage": "100Gi"}, "Available")


def test_a_storage_class_is_read_with_its_provisioner_mode_and_topology() -> None:
    found = msgspec.convert(
        {
            "metadata": {"name": "zoned"},
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "reclaimPolicy": "Delete",
            "allowedTopologies": [
                {"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]},
                {"matchLabelExpressions": None},
            ],
        },
        StorageClass,
    )
    first, second = found.allowed_topologies or ()
    assert (found.provisioner, found.volume_binding_mode) == ("ebs.csi.aws.com", "WaitForFirstConsumer")
    assert first.match_label_expressions == (TopologyRequirement(key=ZONE, values=("a", "b")),)
    assert second.match_label_expressions is None


@pytest.mark.parametrize(
    ("body", "named", "is_ephemeral"),
    [
        pytest.param(
            {"persistentVolumeClaim": {"claimName": "data", "readOnly": True}}, "data", False, id="a claim"
        ),
        pytest.param(
            {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}, None, True, id="a claim of its own"
        ),
        pytest.param({"emptyDir": {}}, None, False, id="a folder"),
        pytest.param({"configMap": {"name": "c"}}, None, False, id="a ConfigMap"),
        pytest.param({"persistentVolumeClaim": None, "ephemeral": None}, None, False, id="nulls"),
    ],
)
def test_volumes_of_a_pod_with_a_volume_claim_are_known(
    body: dict[str, Any], named: str | None, *, is_ephemeral: bool
) -> None:
    found = msgspec.convert({"name": "v", **body}, PodVolume)
    source = found.persistent_volume_claim
    assert (found.name, source and source.claim_name, found.ephemeral is not None) == (
        "v",
        named,
        is_ephemeral,
    )


def test_volumes_that_differ_only_in_unread_fields_are_equal() -> None:
    """Most updates of a volume change nothing that matters here."""
    written = {"spec": {"capacity": {"storage": "1Gi"}}, "status": {"phase": "Bound"}}
    noisy = {**written, "status": {"phase": "Bound", "lastPhaseTransitionTime": "2026-11-23T09:00:00Z"}}
    assert msgspec.convert(written, Volume) == msgspec.convert(noisy, Volume)
    assert msgspec.convert(written, Volume) != Volume(metadata=Meta())
