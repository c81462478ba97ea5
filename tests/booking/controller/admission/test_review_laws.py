"""Law L7 over every pod that may be sent: nobody gives their pod a user, a class or an end time."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from booking.controller.admission.free_gpus import FreeGpus
from booking.controller.admission.owner import PodNamespace
from cluster import names
from cluster.decide.entitlement import UserCoverage
from cluster.objects.bookings import Booking
from cluster.objects.claims import PodClaims
from cluster.objects.cover_annotations import cover_annotations_of
from cluster.objects.pods import Pod
from cluster.objects.replaced_fields import replaced_in
from tests.booking.controller.admission.fake_cluster_view import (
    BOOKING,
    HUB,
    JOBS,
    OURSELVES,
    FakeClusterView,
    a_pod,
    annotations,
    reviewed,
)

Json = dict[str, Any]


class Covering(FakeClusterView):
    """A booking covers every pod that may be covered, or there is none."""

    def __init__(self, booking: Booking | None, has: FreeGpus = "free") -> None:
        super().__init__(has=has, namespaces={"default": PodNamespace(name="default", owner="alice")})
        self.booking = booking

    def user_coverage(self, pod: Pod, _now: object) -> UserCoverage:
        return UserCoverage(covered={pod.metadata.uid: self.booking} if self.booking else {})


THEIRS = "theirs"

KEYS = st.sampled_from(
    [
        names.USER,
        names.BOOKING,
        names.TERMINATE_AT,
        names.REPLACED,
        names.COMEBACK,
        names.FIRST_CREATED,
        names.HOLD,
        names.NO_USER,
        f"{names.STATE_DOMAIN}/~x",
        f"{names.STATE_DOMAIN}/",
        names.MODEL,
        names.HUB_USER,
        "app",
        f"x.{names.STATE_DOMAIN}/user",
    ]
)
MAPS = st.none() | st.dictionaries(KEYS, st.just(THEIRS), max_size=6)
FINALIZERS = st.none() | st.lists(KEYS, unique=True, max_size=4)
CLASSES = st.sampled_from([None, "batch", names.BOOKED_CLASS, names.OPPORTUNISTIC_CLASS])
SCHEDULERS = st.sampled_from(["default-scheduler", "mine", names.SCHEDULER_NAME])
AMOUNTS = st.dictionaries(
    st.sampled_from([names.GPU_RESOURCE, "nvidia.com/mig-1g.10gb", "cpu"]),
    st.sampled_from(["0", "1", "2"]),
    max_size=2,
)


UNBOOKED = st.sampled_from(["queue", "strip"])


@st.composite
def pods(draw: st.DrawFn) -> Json:
    parts = {"annotations": draw(MAPS), "labels": draw(MAPS), "finalizers": draw(FINALIZERS)}
    metadata = {"generateName": "p-", **{key: value for key, value in parts.items() if value is not None}}
    spec: Json = {
        "containers": [{"name": "main", "resources": {"limits": draw(AMOUNTS)}}],
        "schedulerName": draw(SCHEDULERS),
        "priority": 0,
    }
    class_name = draw(CLASSES)
    if class_name:
        spec["priorityClassName"] = class_name
    return {"metadata": metadata, "spec": spec}


def gpu_resources(pod: Json) -> set[str]:
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    return {name for name, amount in limits.items() if names.is_gpu_resource(name) and amount != "0"}


def ours_on(pod: Json) -> tuple[Json, Json, list[str]]:
    metadata = pod["metadata"]
    maps = [
        {key: value for key, value in (metadata.get(part) or {}).items() if names.is_ours(key)}
        for part in ("annotations", "labels")
    ]
    return maps[0], maps[1], [key for key in metadata.get("finalizers") or () if names.is_ours(key)]


def maias(pod: Json, creator: str, *, maia: bool) -> Json:
    """The annotations with our keys that may stay on the pod."""
    given = {k: v for k, v in (pod["metadata"].get("annotations") or {}).items() if k == names.TERMINATE_AT}
    return given if maia and creator == HUB else {}


@given(
    pod=pods(),
    creator=st.sampled_from(["bob", HUB, JOBS]),
    booking=st.sampled_from([None, BOOKING]),
    has=st.sampled_from(["free", "full", "unknown"]),
    unbooked=UNBOOKED,
    notebooks=UNBOOKED,
    maia=st.booleans(),
    is_certain=st.booleans(),
)
def test_l7_no_key_of_ours_has_a_value_of_the_users(
    *,
    pod: Json,
    creator: str,
    booking: Booking | None,
    has: FreeGpus,
    unbooked: str,
    notebooks: str,
    maia: bool,
    is_certain: bool,
) -> None:
    policies = {"unbooked": unbooked, "unbooked_notebooks": notebooks, "maia": maia}
    after, outcome = reviewed(pod, creator, Covering(booking, has), is_certain=is_certain, **policies)

    found, labels, finalizers = ours_on(after)
    assert (labels, finalizers) == ({}, [])
    granted = maias(pod, creator, maia=maia)
    if not gpu_resources(pod):
        assert found == granted
        assert after["spec"] == pod["spec"]
        return
    hub_user = (pod["metadata"].get("annotations") or {}).get(names.HUB_USER)
    user = {"bob": "bob", JOBS: "alice", HUB: hub_user}[creator]
    is_booked = bool(is_certain and user and booking and len(gpu_resources(pod)) == 1)
    policy = notebooks if creator == HUB else unbooked
    if is_certain and not is_booked and policy == "strip" and has == "full":
        assert outcome.kind == "stripped"
        assert found.pop(names.STRIPPED) == outcome.warnings[0]
        assert found == granted
        assert not gpu_resources(after)
        assert after["spec"]["schedulerName"] in {"default-scheduler", "mine"}
        assert after["spec"].get("priorityClassName") in {None, "batch"}
        return
    assert outcome.kind == ("booked" if is_booked else "opportunistic")
    assert (found.pop(names.ADMITTED), found.pop(names.USER, None)) == ("true", user)
    assert (names.NO_USER in found) == (user is None)
    assert found.pop(names.NO_USER, None) != THEIRS
    kept = replaced_in({names.REPLACED: found.pop(names.REPLACED, "{}")})
    assert kept.priority_class_name in {None, "batch"}
    assert kept.scheduler_name in {None, "default-scheduler", "mine"}
    assert found == (cover_annotations_of(BOOKING) if is_booked else granted)
    assert after["spec"]["priorityClassName"] == (
        names.BOOKED_CLASS if is_booked else names.OPPORTUNISTIC_CLASS
    )


@given(pods())
def test_a_pod_that_neither_requests_gpus_nor_has_our_keys_is_not_changed(pod: Json) -> None:
    _, outcome = reviewed(pod, "bob", Covering(None))
    concerns_us = gpu_resources(pod) or any(ours_on(pod))
    assert (outcome.kind == "untouched") == (not concerns_us)
    assert concerns_us or outcome.patch == ()


@given(pods(), st.sampled_from(["bob", HUB, OURSELVES]))
def test_a_second_review_at_most_drops_the_record_of_replaced_values(pod: Json, creator: str) -> None:
    once, _ = reviewed(pod, creator, Covering(BOOKING))
    twice, _ = reviewed(once, creator, Covering(BOOKING))
    if creator != OURSELVES:
        (once["metadata"].get("annotations") or {}).pop(names.REPLACED, None)
    assert twice == once


@given(pod=pods(), unbooked=UNBOOKED, maia=st.booleans())
def test_pods_that_we_create_ourselves_are_never_stripped(*, pod: Json, unbooked: str, maia: bool) -> None:
    _, outcome = reviewed(pod, OURSELVES, Covering(None, "full"), unbooked=unbooked, maia=maia)
    assert outcome.kind in {"opportunistic", "untouched"}


def test_l7_a_pod_with_claims_gets_its_creator_and_our_scheduler_before_it_is_known_what_they_ask() -> None:
    claims = [{"name": "gpu", "resourceClaimName": "not-made-yet"}]
    forged = {names.USER: "bob", names.BOOKING: "b-1"}
    asking = a_pod(gpus=0, spec={"resourceClaims": claims}, annotations=forged)
    pod, outcome = reviewed(asking, claims=True)
    assert (outcome.kind, pod["spec"]["schedulerName"]) == ("guided", names.SCHEDULER_NAME)
    assert (annotations(pod)[names.USER], names.BOOKING in annotations(pod)) == ("alice", False)


def test_a_pod_of_which_it_is_not_known_yet_has_what_counts_if_it_asks_for_gpus() -> None:
    claims = [{"name": "gpu", "resourceClaimName": "not-made-yet"}]
    own = {"resourceClaims": claims, "priorityClassName": "batch", "priority": 7}
    vision = frozenset({"vision"})
    pod, _ = reviewed(a_pod(gpus=0, spec=own), claims=True, groups=vision, share_groups=lambda: vision)
    assert annotations(pod)[names.GROUPS] == '["vision"]'
    found = replaced_in(annotations(pod))
    assert (found.priority_class_name, found.priority) == ("batch", 7)
    assert pod["spec"]["priorityClassName"] == "batch"
    nobodys, _ = reviewed(a_pod(gpus=0, spec=own), JOBS, claims=True)
    assert names.NO_USER in annotations(nobodys)


def test_who_creates_a_pod_whose_template_the_driver_would_refuse_is_warned() -> None:
    why = "The driver gpu.nvidia.com here gives no sharing by MPS"

    view = FakeClusterView(by_claims=PodClaims(count=1, problem=why, refusal=why, accepted=frozenset()))
    asking = a_pod(gpus=0, spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "mps"}]})
    _, outcome = reviewed(asking, view=view, claims=True)
    assert why in " ".join(outcome.warnings)
