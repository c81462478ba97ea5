from itertools import product
from typing import Any

import msgspec
import pytest

from booking.reclaimer.evictions.comeback import (
    MEANINGS,
    Comeback,
    has_ended,
    is_owned,
    next_step,
    on_eviction,
    origin_of,
    victim_of,
)
from cluster import names
from cluster.kube.resources import PodTemplate
from cluster.objects.pods import Pod, is_terminating
from tests.fakes.objects import a_pod

DISRUPTED = [{"type": names.DISRUPTION_TARGET, "status": "True", "reason": names.BOOKING_ENDED}]


def victim(
    *, has_finalizer: bool = True, leaving: bool = False, ours: bool = False, ended: bool = False, **spec: Any
) -> Pod:
    metadata: dict[str, Any] = {"name": "p", "namespace": "team", "uid": "v"}
    if has_finalizer:
        metadata["finalizers"] = [names.COMEBACK]
    if leaving:
        metadata["deletionTimestamp"] = "2026-11-23T09:00:00Z"
    status = {"phase": "Failed" if ended else "Running", "conditions": DISRUPTED if ours else []}
    return msgspec.convert({"metadata": metadata, "spec": {"nodeName": "n0", **spec}, "status": status}, Pod)


def returning(*, has_finalizer: bool = True) -> Pod:
    metadata: dict[str, Any] = {"name": "p", "uid": "r", "annotations": {names.RECREATED_FROM: "v"}}
    if has_finalizer:
        metadata["finalizers"] = [names.COMEBACK]
    return msgspec.convert({"metadata": metadata}, Pod)


def template(*, due: bool = False) -> PodTemplate:
    annotations = {names.COMEBACK_DUE: "2026-11-23T09:00:00Z"} if due else {}
    metadata = {"name": f"{names.COMEBACK_PREFIX}v", "annotations": annotations}
    return msgspec.convert({"metadata": metadata}, PodTemplate)


STORED, DUE = template(), template(due=True)
OURS = {"leaving": True, "ours": True}


@pytest.mark.parametrize(
    ("comeback", "step"),
    [
        # the victim is there
        (Comeback(victim=victim(has_finalizer=False), wanted=True), "store"),
        (Comeback(victim=victim(), wanted=True), "store"),
        (Comeback(victim=victim(has_finalizer=False), template=STORED, wanted=True), "add finalizer"),
        (Comeback(victim=victim(), template=STORED, wanted=True), "take"),
        (Comeback(victim=victim(ours=True), template=STORED, wanted=True), "take"),
        # it need not go
        (Comeback(victim=victim(), template=STORED), "remove finalizer"),
        (Comeback(victim=victim(ended=True), template=STORED, wanted=True), "remove finalizer"),
        (Comeback(victim=victim(has_finalizer=False), template=STORED), "forget"),
        (Comeback(victim=victim(has_finalizer=False)), "done"),
        (Comeback(victim=victim(ours=True), template=STORED), "clear condition"),
        (Comeback(victim=victim(ours=True, ended=True), template=STORED), "clear condition"),
        (Comeback(victim=victim(ours=True, has_finalizer=False)), "clear condition"),
        # it leaves by our hand
        (Comeback(victim=victim(**OURS), template=STORED), "wait"),
        (Comeback(victim=victim(**OURS, ended=True), template=STORED), "mark due"),
        (Comeback(victim=victim(**OURS, ended=True), template=DUE), "release victim"),
        (Comeback(victim=victim(**OURS, ended=True, has_finalizer=False), template=DUE), "wait"),
        (Comeback(victim=victim(**OURS, has_finalizer=False), template=STORED), "mark due"),
        (Comeback(victim=victim(**OURS)), "restore"),
        # its user has deleted it
        (Comeback(victim=victim(leaving=True), template=STORED, wanted=True), "forget"),
        (Comeback(victim=victim(leaving=True)), "release victim"),
        (Comeback(victim=victim(leaving=True, has_finalizer=False)), "done"),
        # it is gone
        (Comeback(template=DUE), "create"),
        (Comeback(template=STORED), "forget"),
        (Comeback(template=DUE, is_name_taken=True), "forget"),
        (Comeback(template=DUE, returning=returning()), "forget"),
        (Comeback(returning=returning()), "release"),
        (Comeback(returning=returning(has_finalizer=False)), "done"),
        (Comeback(), "done"),
    ],
)
def test_law_l4_the_next_step_follows_from_the_objects(comeback: Comeback, step: str) -> None:
    assert next_step(comeback) == step


def every_victim() -> list[Pod | None]:
    flags = product([False, True], repeat=4)
    return [None] + [victim(has_finalizer=g, leaving=t, ours=o, ended=e) for g, t, o, e in flags]


@pytest.mark.parametrize("is_name_taken", [False, True])
@pytest.mark.parametrize("wanted", [False, True])
def test_law_l4_every_state_has_a_next_step_and_none_overrules_the_user(
    *, wanted: bool, is_name_taken: bool
) -> None:
    templates = [None, STORED, DUE]
    back = [None, returning(), returning(has_finalizer=False)]
    for one, kept, new in product(every_victim(), templates, back):
        step = next_step(
            Comeback(victim=one, template=kept, returning=new, wanted=wanted, is_name_taken=is_name_taken)
        )
        assert step in MEANINGS
        if step == "create":
            assert (one, kept, new, is_name_taken) == (None, DUE, None, False)
        if step == "take":
            assert one is not None
            assert wanted
            assert kept is not None
            assert one.metadata.finalizers
            assert not is_terminating(one)


def statuses(*terminated: bool) -> list[dict[str, Any]]:
    return [{"name": "c", "state": {"terminated": {}} if ended else {"running": {}}} for ended in terminated]


@pytest.mark.parametrize(
    ("pod", "ended"),
    [
        ({"spec": {}}, True),
        ({"spec": {"nodeName": "n0"}, "status": {"phase": "Running"}}, False),
        ({"spec": {"nodeName": "n0"}, "status": {"phase": "Succeeded"}}, True),
        ({"spec": {"nodeName": "n0"}, "metadata": {"deletionGracePeriodSeconds": 0}}, True),
        ({"spec": {"nodeName": "n0"}, "metadata": {"deletionGracePeriodSeconds": 30}}, False),
        ({"spec": {"nodeName": "n0", "containers": [{}]}, "status": {"containerStatuses": []}}, False),
        (
            {
                "spec": {"nodeName": "n0", "containers": [{}, {}]},
                "status": {"containerStatuses": statuses(True, False)},
            },
            False,
        ),
        (
            {
                "spec": {"nodeName": "n0", "containers": [{}, {}]},
                "status": {"containerStatuses": statuses(True, True)},
            },
            True,
        ),
        (
            {
                "spec": {
                    "nodeName": "n0",
                    "containers": [{}],
                    "initContainers": [{"restartPolicy": "Always"}],
                },
                "status": {"containerStatuses": statuses(True)},
            },
            False,
        ),
    ],
)
def test_a_victim_has_ended_when_nothing_of_it_can_run(pod: dict[str, Any], *, ended: bool) -> None:
    assert has_ended(msgspec.convert(pod, Pod)) is ended


def test_only_a_controllers_pod_is_brought_back_by_its_owner() -> None:
    def owned(**owner: Any) -> Pod:
        return msgspec.convert({"metadata": {"ownerReferences": [{"kind": "X", **owner}]}}, Pod)

    assert is_owned(owned(controller=True))
    assert not is_owned(owned())
    assert not is_owned(a_pod().obj)


def test_template_and_returning_pod_name_the_pod_that_they_replace() -> None:
    assert victim_of(STORED) == "v"
    assert origin_of(returning()) == "v"
    assert origin_of(victim()) is None


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (None, "without-gpu"),
        ("recreate-without-gpu", "without-gpu"),
        ("requeue", "as-it-was"),
        (" delete ", "never"),
        ("keep", "without-gpu"),
    ],
)
def test_a_pods_annotation_says_how_it_comes_back_and_invalid_values_are_ignored(
    value: str | None, back: str
) -> None:
    pod = a_pod().with_annotation(names.ON_EVICT, value) if value else a_pod()
    assert on_eviction(pod.obj) == back
