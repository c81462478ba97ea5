"""What becomes of an evicted pod's work, by its controller."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from cluster import names
from cluster.decide.eviction.fates import (
    BARE,
    INDEX_FAILURES,
    Fates,
    Member,
    fate_of,
    is_brought_back_by_us,
    member_of,
)
from cluster.objects.jobs import Job
from cluster.objects.pods import Pod

Json = dict[str, Any]
PAIR = {"backoffLimit": 0, "parallelism": 2}
ON_DISRUPTION = [{"type": names.DISRUPTION_TARGET, "status": "True"}]


def owner(kind: str = "Job", api_version: str = "batch/v1", uid: str = "j") -> Json:
    return {"apiVersion": api_version, "kind": kind, "name": uid, "uid": uid, "controller": True}


def a_pod(name: str = "p", by: Json | None = None, *, node: str = "n0", **metadata: Any) -> Pod:
    owners = [owner() if by is None else by]
    meta = {"name": name, "namespace": "team", "uid": name, "ownerReferences": owners, **metadata}
    return msgspec.convert({"metadata": meta, "spec": {"nodeName": node}}, Pod)


def a_job(
    spec: Json | None = None, *, failed: int = 0, uid: str = "j", parent: Json | None = None
) -> Mapping[str, Job]:
    meta = {"name": uid, "namespace": "team", "uid": uid, "ownerReferences": [parent] if parent else []}
    raw = {"metadata": meta, "spec": spec or {}, "status": {"failed": failed}}
    return {f"team/{uid}": msgspec.convert(raw, Job)}


def policy(*rules: Json, limit: int = 6) -> Json:
    return {"backoffLimit": limit, "podFailurePolicy": {"rules": list(rules)}}


def on_disruption(action: str) -> Json:
    return {"action": action, "onPodConditions": ON_DISRUPTION}


def on_codes(action: str, operator: str, *values: int) -> Json:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(values)}}


def in_a_word(jobs: Mapping[str, Job], *, at_once: int = 1, **metadata: Any) -> str:
    fate = fate_of(a_pod(**metadata), jobs, at_once=at_once)
    return "replaced" if fate.is_replaced else f"gang {fate.gang}" if fate.gang else "lost"


@pytest.mark.parametrize(
    ("spec", "failed", "fate"),
    [
        ({}, 0, "replaced"),
        ({"backoffLimit": 6}, 5, "replaced"),
        ({"backoffLimit": 6, "parallelism": 4}, 6, "gang j"),
        ({"backoffLimit": 0, "parallelism": 4}, 0, "gang j"),
        ({"backoffLimit": 0, "completions": 2}, 0, "gang j"),
        (policy(on_disruption("Ignore"), limit=0), 0, "replaced"),
        (policy(on_codes("FailJob", "In", 42), on_disruption("Ignore"), limit=0), 0, "replaced"),
        (policy(on_codes("FailJob", "In", 143), on_disruption("Ignore")), 0, "gang j"),
        (policy(on_codes("FailJob", "NotIn", 42), on_disruption("Ignore")), 0, "gang j"),
        ({**policy(on_codes("Ignore", "In", 137)), **PAIR}, 0, "gang j"),
        ({**policy(on_codes("Count", "In", 143), on_disruption("Ignore")), **PAIR}, 0, "gang j"),
        (policy(on_disruption("FailJob")), 0, "gang j"),
        (policy(on_disruption("Count")), 0, "replaced"),
        ({"backoffLimitPerIndex": 1}, 9, "replaced"),
        ({"backoffLimitPerIndex": 0}, 0, "lost"),
        ({"backoffLimitPerIndex": 0, "maxFailedIndexes": 3}, 0, "gang j"),
        ({**policy(on_disruption("FailIndex")), "backoffLimitPerIndex": 1}, 0, "lost"),
        ({**policy(on_disruption("FailJob")), "backoffLimitPerIndex": 1}, 0, "gang j"),
    ],
)  # fmt: skip
def test_a_job_survives_by_failures_that_are_left_or_by_its_policy(
    spec: Json, failed: int, fate: str
) -> None:
    assert in_a_word(a_job(spec, failed=failed)) == fate


def test_an_index_that_has_failed_too_often_is_not_run_again() -> None:
    jobs = a_job({"backoffLimitPerIndex": 2})
    assert in_a_word(jobs, annotations={INDEX_FAILURES: "1"}) == "replaced"
    assert in_a_word(jobs, annotations={INDEX_FAILURES: "2"}) == "lost"


def test_a_job_that_is_not_known_or_has_been_made_again_is_expected_to_fail() -> None:
    assert in_a_word({}) == "gang j"
    assert in_a_word({"team/j": a_job(uid="other")["team/other"]}) == "gang j"


def test_failures_that_are_left_must_do_for_all_that_may_be_evicted_at_once() -> None:
    jobs = a_job({"backoffLimit": 2, "parallelism": 4})
    assert [in_a_word(jobs, at_once=at_once) for at_once in (1, 2, 3)] == ["replaced", "replaced", "gang j"]


@pytest.mark.parametrize(
    ("kind", "api_version", "fate"),
    [
        ("ReplicaSet", "apps/v1", "replaced"),
        ("StatefulSet", "apps/v1", "replaced"),
        ("ReplicationController", "v1", "replaced"),
        ("RayCluster", "ray.io/v1", "replaced"),
        ("PyTorchJob", "kubeflow.org/v1", "gang j"),
        ("MPIJob", "kubeflow.org/v2beta1", "gang j"),
        ("Job", "batch.volcano.sh/v1alpha1", "gang j"),
        ("Workflow", "argoproj.io/v1alpha1", "lost"),
        ("ReplicaSet", "example.com/v1", "lost"),
        ("Pod", "v1", "lost"),
    ],
)
def test_of_other_controllers_the_kind_decides(kind: str, api_version: str, fate: str) -> None:
    assert in_a_word({}, by=owner(kind, api_version)) == fate


def test_a_pod_without_a_controller_comes_back() -> None:
    assert fate_of(msgspec.convert({}, Pod), {}) == BARE
    assert fate_of(a_pod(by={**owner(), "controller": False}), {}) == BARE


ALONE: Json = {"backoffLimit": 0, "parallelism": 1, "completions": 1}


@pytest.mark.parametrize(
    ("spec", "failed", "ours"),
    [
        (ALONE, 0, True),
        ({"backoffLimit": 2}, 2, True),
        ({"backoffLimit": 2}, 1, False),
        ({**ALONE, "parallelism": 2}, 0, False),
        ({**ALONE, "completions": 2}, 0, False),
        ({**ALONE, "backoffLimitPerIndex": 0}, 0, False),
        ({**policy(on_disruption("Ignore")), **ALONE}, 0, False),
        ({**policy(on_disruption("FailJob")), **ALONE}, 0, False),
    ],
)
def test_the_only_pod_of_a_job_that_fails_with_it_comes_back_by_us(
    spec: Json, failed: int, *, ours: bool
) -> None:
    jobs = a_job(spec, failed=failed)
    assert is_brought_back_by_us(a_pod(), jobs) is ours
    assert not ours or fate_of(a_pod(), jobs) == BARE
    assert not is_brought_back_by_us(a_pod(), {})


def test_a_job_that_somebody_made_who_may_make_another_is_left_to_them() -> None:
    jobs = a_job(ALONE, parent=owner("CronJob", "batch/v1", "c"))
    assert not is_brought_back_by_us(a_pod(), jobs)
    assert in_a_word(jobs) == "gang j"


def a_member(name: str, by: Json | None = None, *, node: str = "n0", leaves: bool = False) -> Member:
    found = member_of(a_pod(name, by, node=node), gpus=1, leaves=leaves)
    assert found is not None
    return found


def test_pods_of_the_job_on_the_node_and_those_that_leave_use_up_its_failures() -> None:
    first, beside, elsewhere, leaving = (
        a_member("first"),
        a_member("beside"),
        a_member("elsewhere", node="n1"),
        a_member("leaving", node="n2", leaves=True),
    )

    def survives(*members: Member, limit: int, outgoing: frozenset[str] = frozenset()) -> bool:
        fates = Fates(members, a_job({"backoffLimit": limit, "parallelism": 9}))
        return fates.of(first, outgoing=outgoing).is_replaced

    assert survives(first, elsewhere, limit=1)
    assert not survives(first, elsewhere, limit=1, outgoing=frozenset({"elsewhere"}))
    assert not survives(first, beside, limit=1)
    assert not survives(first, leaving, limit=1)
    assert survives(first, beside, elsewhere, leaving, limit=3)


def test_a_gang_are_the_pods_that_stay_of_all_jobs_of_a_jobset() -> None:
    jobset = owner("JobSet", "jobset.x-k8s.io/v1alpha2", "set")
    lost = {"backoffLimit": 0, "parallelism": 2}
    jobs = {**a_job(lost, uid="j", parent=jobset), **a_job(lost, uid="k", parent=jobset)}
    one, other = a_member("one"), a_member("other", owner(uid="k"))
    fates = Fates([one, other, a_member("leaves", leaves=True)], jobs)
    assert (fates.of(one).gang, fates.of(other).gang) == ("set", "set")
    assert {member.uid for member in fates.gang("set")} == {"one", "other"}
    assert fates.nodes_of(frozenset({"one"})) == {"n0"}
