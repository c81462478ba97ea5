from itertools import product
from typing import Any

import msgspec
import pytest

from booking.controller.reclaimer.evictions.comeback import (
    MEANINGS,
    Comeback,
    has_ended,
    how,
    is_comeback,
    is_marked_for_disruption,
    is_owned,
    next_step,
    on_eviction,
    reason_in,
)
from cluster import event_reasons, names
from cluster.kube.resources import PodTemplate
from cluster.objects.meta import Meta
from cluster.objects.pods import Pod, is_terminating
from tests.fakes.objects import a_pod

DISRUPTED = [{"type": names.DISRUPTION_TARGET, "status": "True", "reason": event_reasons.BOOKING_ENDED}]


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


def rejected(**more: Any) -> Pod:
    """A victim that a kubelet has rejected: it has ended, and nobody has deleted it."""
    return changed(victim(**more), {"phase": "Failed", "reason": "UnexpectedAdmissionError"})


def by_the_api(**more: Any) -> Pod:
    """A victim that leaves and has the condition that the Eviction API sets itself."""
    reason = "EvictionByEvictionAPI"
    condition = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": reason}
    return changed(victim(leaving=True, **more), {"phase": "Running", "conditions": [condition]})


def changed(pod: Pod, status: dict[str, Any]) -> Pod:
    return msgspec.structs.replace(pod, status=msgspec.convert({"status": status}, Pod).status)


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
        # a kubelet has rejected it
        (Comeback(victim=rejected(has_finalizer=False), wanted=True), "store"),
        (Comeback(victim=rejected(has_finalizer=False), template=STORED, wanted=True), "add finalizer"),
        (Comeback(victim=rejected(), template=STORED, wanted=True), "take"),
        (Comeback(victim=rejected(), template=STORED), "remove finalizer"),
        # it leaves by our hand
        (Comeback(victim=victim(**OURS), template=STORED), "wait"),
        (Comeback(victim=victim(**OURS, ended=True), template=STORED), "mark due"),
        (Comeback(victim=victim(**OURS, ended=True), template=DUE), "release victim"),
        (Comeback(victim=victim(**OURS, ended=True, has_finalizer=False), template=DUE), "wait"),
        (Comeback(victim=victim(**OURS, has_finalizer=False), template=STORED), "mark due"),
        (Comeback(victim=victim(**OURS)), "restore"),
        (Comeback(victim=victim(**OURS, nodeName=""), template=STORED), "mark due"),
        (Comeback(victim=by_the_api(), template=STORED), "wait"),
        (Comeback(victim=by_the_api()), "restore"),
        (Comeback(victim=by_the_api(has_finalizer=False), template=STORED), "mark due"),
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


@pytest.mark.parametrize(
    "reason",
    [event_reasons.EVICTED_FOR_BOOKING, event_reasons.BOOKING_ENDED, event_reasons.REJECTED_BY_KUBELET],
)
@pytest.mark.parametrize(
    ("kind", "status", "is_marked"),
    [
        (names.DISRUPTION_TARGET, "True", True),
        (names.DISRUPTION_TARGET, "False", False),
        (names.DISRUPTION_TARGET, "Unknown", False),
        ("PodScheduled", "True", False),
    ],
)
def test_a_victim_is_marked_by_a_true_disruption_target_with_a_reason_of_ours(
    reason: str, kind: str, status: str, *, is_marked: bool
) -> None:
    condition = {"type": kind, "status": status, "reason": reason}
    assert is_marked_for_disruption(changed(victim(), {"conditions": [condition]})) is is_marked


@pytest.mark.parametrize("reason", ["EvictionByEvictionAPI", "PreemptionByScheduler", None])
def test_a_disruption_target_that_others_have_set_is_not_ours_to_take_back(reason: str | None) -> None:
    theirs = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": reason}
    marked = changed(victim(), {"conditions": [theirs]})
    assert not is_marked_for_disruption(marked)
    assert next_step(Comeback(victim=marked, template=STORED)) == "remove finalizer"


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
                "status": {"containerStatuses": statuses(True)},
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


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([], "evicted"),
        ([{"type": names.DISRUPTION_TARGET, "reason": event_reasons.EVICTED_FOR_BOOKING}], "evicted"),
        ([{"type": names.DISRUPTION_TARGET, "reason": event_reasons.BOOKING_ENDED}], "ended"),
        ([{"type": names.DISRUPTION_TARGET, "reason": event_reasons.REJECTED_BY_KUBELET}], "refused"),
        ([{"type": names.DISRUPTION_TARGET, "reason": "EvictionByEvictionAPI"}], "evicted"),
        ([{"type": names.DISRUPTION_TARGET}], "evicted"),
        ([{"type": "Ready", "reason": event_reasons.BOOKING_ENDED}], "evicted"),
        (
            [
                {"type": "Ready", "reason": "ContainersNotReady"},
                {"type": names.DISRUPTION_TARGET, "reason": event_reasons.BOOKING_ENDED},
            ],
            "ended",
        ),
    ],
)
def test_the_reason_of_an_eviction_is_that_of_the_victims_disruption_target(
    conditions: list[dict[str, str]], reason: str
) -> None:
    assert reason_in(changed(victim(), {"conditions": conditions})) == reason


@pytest.mark.parametrize(
    ("value", "back"),
    [
        ("as-it-was", "as-it-was"),
        ("without-gpu", "without-gpu"),
        ("never", "without-gpu"),
        (None, "without-gpu"),
    ],
)
def test_a_pod_comes_back_as_it_was_only_where_that_is_on_record(value: str | None, back: str) -> None:
    annotations = {} if value is None else {names.COMEBACK_HOW: value}
    assert how(msgspec.convert({"annotations": annotations}, Meta)) == back


@pytest.mark.parametrize(
    ("name", "content", "is_ours"),
    [
        (f"{names.COMEBACK_PREFIX}v", {"metadata": {"name": "p"}}, True),
        ("v", {"metadata": {"name": "p"}}, False),
        (f"theirs-{names.COMEBACK_PREFIX}v", {"metadata": {"name": "p"}}, False),
        (f"{names.COMEBACK_PREFIX}v", {"metadata": {"name": ""}}, False),
        (f"{names.COMEBACK_PREFIX}v", {"metadata": {}}, False),
        (f"{names.COMEBACK_PREFIX}v", {"metadata": None}, False),
        (f"{names.COMEBACK_PREFIX}v", {}, False),
    ],
)
def test_a_template_is_ours_if_its_name_is_and_it_has_the_name_of_a_pod(
    name: str, content: dict[str, Any], *, is_ours: bool
) -> None:
    one = msgspec.convert({"metadata": {"name": name}, "template": content}, PodTemplate)
    assert is_comeback(one) is is_ours


def test_only_a_controllers_pod_is_brought_back_by_its_owner() -> None:
    def owned(**owner: Any) -> Pod:
        return msgspec.convert({"metadata": {"ownerReferences": [{"kind": "X", **owner}]}}, Pod)

    assert is_owned(owned(controller=True))
    assert not is_owned(owned())
    assert not is_owned(a_pod().obj)


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


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (None, "as-it-was"),
        ("keep", "as-it-was"),
        ("recreate-without-gpu", "without-gpu"),
        ("requeue", "as-it-was"),
        ("delete", "never"),
    ],
)
def test_a_pod_that_a_booking_would_cover_elsewhere_keeps_its_gpus_unless_it_says_otherwise(
    value: str | None, back: str
) -> None:
    pod = a_pod().with_annotation(names.ON_EVICT, value) if value else a_pod()
    assert on_eviction(pod.obj, is_awaited=True) == back
