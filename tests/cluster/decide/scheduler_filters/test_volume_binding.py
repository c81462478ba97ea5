"""Volumes of a pod: claims that are bound, that wait for a node, and that no pod can use."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from cluster.decide.scheduler_filters import ClusterObjects, node_pods_of, other_of
from cluster.decide.scheduler_filters.volume_binding import (
    ELSEWHERE,
    IN_USE,
    LOST,
    NO_CLAIM,
    NONE_TO_BIND,
    UNBOUND,
    Volumes,
)
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from cluster.objects.volumes import SELECTED_NODE, StorageClass, Volume, VolumeClaim
from tests.cluster.decide.scheduler_filters import cases
from tests.cluster.decide.scheduler_filters.world import pod_of

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION, REGION = "failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"
NO_PODS: frozenset[str] = frozenset()


def a_node(name: str = "n0", labels: Mapping[str, str] | None = None) -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": dict(labels or {})}}, Node)


def a_claim(
    name: str = "data", *, annotations: Mapping[str, str] | None = None, size: str = "2Gi", **spec: Any
) -> VolumeClaim:
    meta = {"name": name, "namespace": cases.TEAM, "uid": f"uid-{name}", "annotations": annotations or {}}
    written = {"storageClassName": "local", "resources": {"requests": {"storage": size}}, **spec}
    return msgspec.convert({"metadata": meta, "spec": written}, VolumeClaim)


def a_volume(
    name: str = "pv", *, size: str = "2Gi", phase: str = "Available", labels: Any = None, **spec: Any
) -> Volume:
    written = {"storageClassName": "local", "capacity": {"storage": size}, **spec}
    meta = {"name": name, "labels": labels or {}}
    return msgspec.convert({"metadata": meta, "spec": written, "status": {"phase": phase}}, Volume)


def on(node: str) -> cases.Json:
    requirement = {"key": cases.HOST, "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}


def cluster_objects(
    *objects: VolumeClaim | Volume, users: tuple[Pod, ...] = (), **classes: Any
) -> ClusterObjects:
    kinds = {"local": {"provisioner": "kubernetes.io/no-provisioner"}, **classes}
    return ClusterObjects(
        nodes={"n0": a_node()},
        node_pods={"n0": node_pods_of(other for pod in users if (other := other_of(pod)))},
        claims={
            f"{o.metadata.namespace}/{o.metadata.name}": o for o in objects if isinstance(o, VolumeClaim)
        },
        volumes={o.metadata.name: o for o in objects if isinstance(o, Volume)},
        classes={
            name: msgspec.convert({"volumeBindingMode": "WaitForFirstConsumer", **kind}, StorageClass)
            for name, kind in kinds.items()
        },
    )


def rejection(
    there: ClusterObjects, *claims: str, node: Node | None = None, without: frozenset[str] = NO_PODS
) -> str | None:
    pod = pod_of(cases.a_pod("new", volumes=[cases.mount(claim) for claim in claims or ("data",)]))
    here = node or a_node(labels={cases.HOST: "n0"})
    return Volumes(pod, there).rejection(here, without)


@pytest.mark.parametrize(
    ("volumes", "mounts"),
    [
        ([], False),
        ([{"name": "v", "emptyDir": {}}], False),
        ([cases.mount("data")], True),
        ([{"name": "v", "ephemeral": {}}], True),
    ],
)
def test_only_a_pod_that_mounts_a_claim_is_checked(*, volumes: list[cases.Json], mounts: bool) -> None:
    assert bool(Volumes(pod_of(cases.a_pod("new", volumes=volumes)), cluster_objects())) is mounts


@pytest.mark.parametrize(
    ("volume", "reason"),
    [
        (a_volume(), None),
        (a_volume(size="1Gi"), NONE_TO_BIND),
        (a_volume(size="2147483647"), NONE_TO_BIND),
        (a_volume(phase="Released"), NONE_TO_BIND),
        (a_volume(storageClassName="other"), NONE_TO_BIND),
        (a_volume(storageClassName=None), NONE_TO_BIND),
        (a_volume(volumeMode="Block"), NONE_TO_BIND),
        (a_volume(volumeMode="Filesystem"), None),
        (a_volume(nodeAffinity=on("n0")), None),
        (a_volume(nodeAffinity=on("n1")), NONE_TO_BIND),
        (a_volume(nodeAffinity={}), None),
        (a_volume(phase="Bound", claimRef={"namespace": cases.TEAM, "name": "data"}), None),
        (a_volume(claimRef={"namespace": cases.TEAM, "name": "data", "uid": "uid-data"}), None),
        (a_volume(claimRef={"namespace": cases.TEAM, "name": "data", "uid": "earlier"}), NONE_TO_BIND),
        (a_volume(claimRef={"namespace": cases.OTHER, "name": "data"}), NONE_TO_BIND),
        (a_volume(claimRef={"namespace": cases.TEAM, "name": "more"}), NONE_TO_BIND),
        (a_volume(accessModes=["ReadWriteOnce"]), None),
    ],
)
def test_a_claim_finds_a_free_volume_that_is_large_enough_and_of_its_kind(
    volume: Volume, reason: str | None
) -> None:
    assert rejection(cluster_objects(a_claim(), volume)) == reason


@pytest.mark.parametrize(
    ("claim", "volume", "reason"),
    [
        ({"accessModes": ["A"]}, {"accessModes": ["A", "B"]}, None),
        ({"accessModes": ["A", "B"]}, {"accessModes": ["A"]}, NONE_TO_BIND),
        ({"volumeMode": "Block"}, {"volumeMode": "Block"}, None),
        ({"volumeMode": "Block"}, {}, NONE_TO_BIND),
        ({"selector": cases.selector(disk="ssd")}, {"labels": {"disk": "ssd"}}, None),
        ({"selector": cases.selector(disk="ssd")}, {"labels": {"disk": "hdd"}}, NONE_TO_BIND),
        ({"selector": cases.selector(disk="ssd")}, {}, NONE_TO_BIND),
    ],
)
def test_a_volume_must_meet_all_requirements_of_the_claim(
    claim: cases.Json, volume: cases.Json, reason: str | None
) -> None:
    assert rejection(cluster_objects(a_claim(**claim), a_volume(**volume))) == reason


def test_a_volume_that_is_being_deleted_is_not_available() -> None:
    volume = a_volume()
    terminating = msgspec.convert(
        {
            **msgspec.to_builtins(volume),
            "metadata": {"name": "pv", "deletionTimestamp": "2026-11-23T09:00:00Z"},
        },
        Volume,
    )

    assert rejection(cluster_objects(a_claim(), terminating)) == NONE_TO_BIND


def test_a_claim_takes_the_volume_reserved_for_it_instead_of_a_free_one() -> None:
    mine = a_volume("mine", claimRef={"namespace": cases.TEAM, "name": "data"}, nodeAffinity=on("n1"))
    there = cluster_objects(a_claim(), a_volume("free"), mine)

    assert rejection(there) == NONE_TO_BIND
    assert rejection(there, node=a_node("n1", {cases.HOST: "n1"})) is None


@pytest.mark.parametrize(
    ("sizes", "reason"), [(("2Gi", "9Gi"), None), (("9Gi", "9Gi"), None), (("2Gi", "2Gi"), NONE_TO_BIND)]
)
@pytest.mark.parametrize("order", [("small", "large"), ("large", "small")])
def test_of_two_claims_the_smaller_one_gets_the_smaller_volume(
    order: tuple[str, ...], sizes: tuple[str, ...], reason: str | None
) -> None:
    claims = (a_claim("small", size="1Gi"), a_claim("large", size="8Gi"))
    volumes = [a_volume(f"pv-{number}", size=size) for number, size in enumerate(reversed(sizes))]

    assert rejection(cluster_objects(*claims, *volumes), *order) == reason


def test_one_volume_is_not_enough_for_two_claims() -> None:
    there = cluster_objects(a_claim("data"), a_claim("more"), a_volume(size="9Gi"))

    assert rejection(there, "data", "more") == NONE_TO_BIND


MADE = {"provisioner": "maker.example.com"}
ONLY_IN_B = [{"matchLabelExpressions": [{"key": cases.ZONE, "values": ["b", "c"]}]}]
IN_RACK_1 = [
    {"matchLabelExpressions": [{"key": cases.ZONE, "values": ["a"]}, {"key": cases.RACK, "values": ["1"]}]}
]


@pytest.mark.parametrize(
    ("kind", "labels", "reason"),
    [
        (MADE, {}, None),
        ({**MADE, "allowedTopologies": []}, {}, None),
        ({**MADE, "allowedTopologies": ONLY_IN_B}, {cases.ZONE: "b"}, None),
        ({**MADE, "allowedTopologies": ONLY_IN_B}, {cases.ZONE: "a"}, NONE_TO_BIND),
        ({**MADE, "allowedTopologies": ONLY_IN_B}, {}, NONE_TO_BIND),
        ({**MADE, "allowedTopologies": IN_RACK_1}, {cases.ZONE: "a", cases.RACK: "1"}, None),
        ({**MADE, "allowedTopologies": IN_RACK_1}, {cases.ZONE: "a"}, NONE_TO_BIND),
        ({**MADE, "allowedTopologies": [*IN_RACK_1, *ONLY_IN_B]}, {cases.ZONE: "c"}, None),
        ({**MADE, "volumeBindingMode": "Immediate"}, {}, UNBOUND),
        ({**MADE, "volumeBindingMode": None}, {}, UNBOUND),
    ],
)
def test_a_volume_can_be_provisioned_where_the_class_allows_it(
    kind: cases.Json, labels: dict[str, str], reason: str | None
) -> None:
    there = cluster_objects(a_claim(storageClassName="made"), made=kind)

    assert rejection(there, node=a_node(labels=labels)) == reason


@pytest.mark.parametrize(("selected", "reason"), [("n0", None), ("n1", NONE_TO_BIND)])
def test_a_claim_whose_volume_is_being_provisioned_for_a_node_is_usable_only_there(
    selected: str, reason: str | None
) -> None:
    claim = a_claim(storageClassName="made", annotations={SELECTED_NODE: selected})

    assert rejection(cluster_objects(claim, made=MADE)) == reason


def test_a_volume_being_provisioned_for_a_node_is_not_replaced_by_a_free_one() -> None:
    claim = a_claim(annotations={SELECTED_NODE: "n0"})

    assert rejection(cluster_objects(claim, a_volume())) == NONE_TO_BIND


def test_a_claim_that_names_a_volume_and_is_not_bound_yet_must_wait() -> None:
    assert rejection(cluster_objects(a_claim(volumeName="pv"), a_volume())) == UNBOUND


@pytest.mark.parametrize(
    ("volume", "node", "reason"),
    [
        ({cases.ZONE: "a"}, {cases.ZONE: "a"}, None),
        ({cases.ZONE: "a"}, {cases.ZONE: "b"}, ELSEWHERE),
        ({cases.ZONE: "a__b"}, {cases.ZONE: "b"}, None),
        ({cases.ZONE: "a"}, {}, None),
        ({cases.ZONE: "a"}, {REGION: "r"}, ELSEWHERE),
        ({OLD_ZONE: "a"}, {cases.ZONE: "a"}, None),
        ({OLD_ZONE: "a"}, {cases.ZONE: "b"}, ELSEWHERE),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "a", cases.ZONE: "b"}, None),
        ({OLD_REGION: "r", cases.ZONE: "a"}, {REGION: "r", cases.ZONE: "a"}, None),
        ({REGION: "r", cases.ZONE: "a"}, {REGION: "r", cases.ZONE: "b"}, ELSEWHERE),
        ({"disk": "ssd"}, {cases.ZONE: "a"}, None),
    ],
)
def test_a_bound_volume_can_be_used_in_its_zone(
    volume: dict[str, str], node: dict[str, str], reason: str | None
) -> None:
    there = cluster_objects(a_claim(volumeName="pv", annotations=BOUND), a_volume(labels=volume))

    assert rejection(there, node=a_node(labels=node)) == reason


def test_a_claim_that_is_being_deleted_is_lost() -> None:
    claim = msgspec.to_builtins(a_claim())
    claim["metadata"]["deletionTimestamp"] = "2026-11-23T09:00:00Z"

    assert rejection(cluster_objects(msgspec.convert(claim, VolumeClaim), a_volume())) == LOST


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        ({"uid": "uid-new", "controller": True}, None),
        ({"uid": "uid-new"}, NO_CLAIM),
        ({"uid": "uid-else", "controller": True}, NO_CLAIM),
        (None, NO_CLAIM),
    ],
)
def test_an_ephemeral_volume_has_a_claim_that_the_pod_controls(
    owner: cases.Json | None, reason: str | None
) -> None:
    claim = msgspec.to_builtins(a_claim("new-scratch"))
    claim["metadata"]["ownerReferences"] = [owner] if owner else []
    pod = pod_of(cases.a_pod("new", volumes=[{"name": "scratch", "ephemeral": {}}]))
    there = cluster_objects(msgspec.convert(claim, VolumeClaim), a_volume())

    assert Volumes(pod, there).rejection(a_node(), NO_PODS) == reason


def user(name: str, claim: str = "data", namespace: str = cases.TEAM) -> Pod:
    return pod_of(cases.a_pod(name, namespace, nodeName="n0", volumes=[cases.mount(claim)]))


@pytest.mark.parametrize(
    ("users", "without", "reason"),
    [
        ((), NO_PODS, None),
        ((user("p"),), NO_PODS, IN_USE),
        ((user("p"),), frozenset({"uid-p"}), None),
        ((user("p"), user("q")), frozenset({"uid-p"}), IN_USE),
        ((user("p", "more"),), NO_PODS, None),
        ((user("p", namespace=cases.OTHER),), NO_PODS, None),
    ],
    ids=[
        "no pod",
        "another pod",
        "one that leaves",
        "one of two leaves",
        "another claim",
        "another namespace",
    ],
)
def test_a_read_write_once_pod_claim_is_free_once_its_users_have_left(
    users: tuple[Pod, ...], without: frozenset[str], reason: str | None
) -> None:
    there = cluster_objects(
        a_claim(volumeName="pv", annotations=BOUND, accessModes=["ReadWriteOncePod"]),
        a_claim("more", volumeName="pv", annotations=BOUND),
        a_volume(),
        users=users,
    )

    assert rejection(there, without=without) == reason


def test_a_claim_for_several_pods_can_be_shared() -> None:
    there = cluster_objects(a_claim(volumeName="pv", annotations=BOUND), a_volume(), users=(user("p"),))

    assert rejection(there) is None
