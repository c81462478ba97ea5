"""Before the product is removed: no pod is evicted any more, none is lost, and nothing is left behind."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from booking.controller.reclaimer.evictions.pod_evictor import PodEvictor
from booking.controller.reclaimer.evictor import EvictionCause
from booking.controller.uninstall.kinds import POLICY_BINDINGS
from booking.controller.uninstall.marks import STORY
from cluster import claim_names, event_reasons, names
from cluster.fake import Attributes
from cluster.kube.errors import Forbidden, Request
from cluster.kube.resources import LEASES, NODES, POD_TEMPLATES, PODS, TAINT_RULES
from cluster.objects.meta import Status
from cluster.objects.pods import Pod, is_terminating
from tests.booking.controller.reclaimer.evictions.comebacks import FakeRecorder, gpu_pod
from tests.booking.controller.uninstall.world import OTHERS, TEAM, World

EVICTED = EvictionCause(reason="evicted", message="Alice's pod needs the GPU.", grace_seconds=20)


def named(world: World, name: str = "p") -> Pod:
    return next(pod for pod in world.pods if pod.metadata.name == name)


def taken_away(world: World, why: EvictionCause = EVICTED, name: str = "p") -> str:
    """A pod that the controller has just evicted; its uid."""
    victim = world.kube.put(PODS, gpu_pod(name))
    evictor = PodEvictor(world.kube, world.clock, FakeRecorder())
    evictor.evict(victim, why)
    assert is_terminating(named(world, name))
    return victim.metadata.uid


def test_nothing_of_ours_is_left_except_the_bookings() -> None:
    world = World()
    for lease in (names.CONTROLLER_LEASE, names.SCHEDULER_LEASE, names.node_lease("n0"), names.MIRROR_LEASE):
        world.put_lease(lease)
    world.put_lease("somebodys")
    assert world.uninstall(), world.reports
    assert world.left() == [f"Lease {names.MIRROR_LEASE}", "Lease somebodys"]
    (node,) = world.kube.list(NODES).items
    assert node.metadata.annotations == node.metadata.labels == {OTHERS: "yes"}


def test_what_keeps_gpus_for_claims_is_removed_and_rules_of_others_stay() -> None:
    world = World()
    world.kube.put(TAINT_RULES, {"metadata": {"name": "ours", "labels": {names.HOLD_OF: "uid-a"}}})
    world.kube.put(TAINT_RULES, {"metadata": {"name": "twice", "labels": {names.CONFLICT_TAINT: "true"}}})
    world.kube.put(TAINT_RULES, {"metadata": {"name": "theirs"}})
    policies = (claim_names.CLAIM_PODS_POLICY, claim_names.EXTENDED_POLICY)
    for name in policies:
        world.kube.put(POLICY_BINDINGS, {"metadata": {"name": name}})
    assert world.uninstall(), world.reports
    assert [one.metadata.name for one in world.kube.list(TAINT_RULES).items] == ["theirs"]
    assert not any(world.is_there(POLICY_BINDINGS, name) for name in policies)


def test_the_mirrors_lease_is_removed_too_when_bookings_are_not_kept() -> None:
    world = World(keep_bookings=False)
    world.put_lease(names.MIRROR_LEASE)
    assert world.uninstall(), world.reports
    assert world.left() == []
    assert not any("bookings" in message for message in world.reports)


def test_the_controller_is_gone_before_any_pod_is_brought_back() -> None:
    world = World()
    taken_away(world)
    world.others_act()
    world.uninstall()
    order = [path for path in world.writes if "deployments/" in path or path.endswith("/pods")]
    assert order[-1].endswith(names.BOOKING_SERVER)
    back = next(
        number for number, path in enumerate(world.writes) if path == f"POST /api/v1/namespaces/{TEAM}/pods"
    )
    gone = next(
        number for number, path in enumerate(world.writes) if path.endswith(f"deployments/{names.CONTROLLER}")
    )
    assert gone < back


def test_nothing_is_changed_while_a_controller_outside_the_release_may_reclaim() -> None:
    world = World()
    uid = taken_away(world)
    world.put_lease(names.CONTROLLER_LEASE, holder="a laptop")
    renewals = iter(range(1000))

    def renewing() -> None:
        World.others_act(world)
        world.kube.patch(
            LEASES,
            names.CONTROLLER_LEASE,
            {"spec": {"leaseTransitions": next(renewals)}},
            namespace=names.NAMESPACE,
        )

    world.clock.meanwhile = renewing
    assert not world.uninstall()
    assert any(names.CONTROLLER_LEASE in message and "stop" in message for message in world.reports)
    assert all(pod.metadata.uid == uid for pod in world.pods)
    world.clock.meanwhile = world.others_act
    assert world.uninstall(), world.reports
    assert world.left() == []


def test_a_pod_that_does_not_end_is_named_and_comes_back_later() -> None:
    world = World(timeout_seconds=30)
    taken_away(world)
    world.kubelets_work = False
    assert not world.uninstall()
    assert any("team/p is still terminating on node n0" in message for message in world.reports)
    assert "uninstall again" in world.reports[-1]
    world.kubelets_work = True
    assert world.uninstall(), world.reports
    assert [pod.metadata.name for pod in world.pods] == ["p"]
    assert world.left() == []


def test_a_refused_comeback_is_reported_with_the_reason_and_how_to_give_it_up() -> None:
    world = World(timeout_seconds=60)
    uid = taken_away(world)
    full = Forbidden(Request("POST", "pods"), Status(code=403, reason="Forbidden", message="exceeded quota"))

    def refused(attributes: Attributes) -> dict[str, Any]:
        if attributes.plural == PODS.plural:
            raise full
        return attributes.obj

    world.kube.admission = refused
    assert not world.uninstall()
    assert any(
        "exceeded quota" in message and f"PodTemplate {names.COMEBACK_PREFIX}{uid}" in message
        for message in world.reports
    )
    world.kube.delete(POD_TEMPLATES, f"{names.COMEBACK_PREFIX}{uid}", namespace=TEAM)
    assert world.uninstall(), world.reports
    assert world.pods == ()
    assert world.left() == []


def test_pods_that_wait_for_our_scheduler_are_named() -> None:
    world = World()
    world.kube.put(PODS, gpu_pod("waits", node=None))
    world.kube.put(PODS, gpu_pod("runs"))
    assert world.uninstall()
    assert any("team/waits" in message and names.SCHEDULER_NAME in message for message in world.reports)
    assert any(message == "Pods that run keep their GPUs until they end: 1." for message in world.reports)


@pytest.mark.parametrize("others", [[], [{"name": OTHERS}]], ids=["ours alone", "next to somebody's"])
def test_no_pod_stays_behind_our_scheduling_gate(others: list[dict[str, str]]) -> None:
    world = World()
    pod = gpu_pod("queues", node=None)
    pod["spec"]["schedulingGates"] = [{"name": names.QUEUE}, *others]
    world.kube.put(PODS, pod)
    assert world.uninstall(), world.reports
    gates = world.kube.raw(PODS, "queues", namespace=TEAM)["spec"].get("schedulingGates", [])
    assert gates == others


ANNOTATIONS = sorted(
    STORY
    | {*names.WAITING_STATE, names.NOTICE, names.EVICT, names.WARNED, names.END_REQUESTED, names.COMEBACK_HOW}
    | {names.BOOKING, names.TERMINATE_AT, OTHERS}
)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """A pod in any state, possible or not, with any of our keys on it."""
    keys = draw(st.lists(st.sampled_from(ANNOTATIONS), unique=True))
    metadata: dict[str, Any] = {"annotations": dict.fromkeys(keys, "1")}
    if draw(st.booleans()):
        metadata["labels"] = {names.COMEBACK: "true", OTHERS: "yes"}
    metadata["finalizers"] = draw(st.sampled_from([[], [names.COMEBACK], [OTHERS, names.COMEBACK]]))
    pod = gpu_pod(node=draw(st.sampled_from(["n0", None])), **metadata)
    pod["status"]["phase"] = draw(st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]))
    if draw(st.booleans()):
        condition = {"type": names.DISRUPTION_TARGET, "status": "True", "reason": event_reasons.BOOKING_ENDED}
        pod["status"]["conditions"] = [condition]
    if draw(st.booleans()) and metadata["finalizers"]:
        pod["metadata"]["deletionTimestamp"] = "2026-03-02T09:00:00Z"
    return pod


@settings(max_examples=30)
@given(
    found=st.lists(pods(), max_size=3),
    templates=st.lists(
        st.sampled_from(["of p0", "due of p0", "of nobody", "due of nobody", "broken"]), unique=True
    ),
)
def test_nothing_of_ours_remains_from_any_state_of_the_cluster(
    found: list[dict[str, Any]], templates: list[str]
) -> None:
    world = World(keep_bookings=False)
    world.put_lease(names.CONTROLLER_LEASE, holder="one that was killed")
    stored: dict[str, Pod] = {}
    for number, pod in enumerate(found):
        pod["metadata"]["name"] = f"p{number}"
        stored[f"p{number}"] = world.kube.put(PODS, pod)
    for what in templates:
        of = stored.get("p0") if what.endswith("p0") else None
        put_template(world, what, of.metadata.uid if of else f"uid-{what.replace(' ', '-')}")
    # A finalizer of another controller may keep an ended pod, and its name, for any length of time.
    world.clock.meanwhile = lambda: (World.others_act(world), let_go_by_others(world))[0]
    assert world.uninstall(), world.reports
    assert world.left() == []
    for pod in world.pods:
        before = stored.get(pod.metadata.name)
        if before and before.metadata.uid == pod.metadata.uid:
            kept = {key for key in before.metadata.annotations or {} if key in STORY or key == OTHERS}
            assert kept <= set(pod.metadata.annotations or {})
    writes = len(world.writes)
    assert world.uninstall(), world.reports
    assert all(call.startswith("DELETE ") for call in world.writes[writes:])


def put_template(world: World, what: str, uid: str) -> None:
    annotations = {names.COMEBACK_REASON: "evicted", names.COMEBACK_MESSAGE: "Why."}
    if what.startswith("due"):
        annotations[names.COMEBACK_DUE] = "2026-03-02T09:00:00Z"
    name = "p0" if what.endswith("p0") else "gone"
    pod = {
        "metadata": {"name": name, "labels": {}, "annotations": {}},
        "spec": {"containers": [{"name": "c"}]},
    }
    world.kube.put(
        POD_TEMPLATES,
        {
            "metadata": {
                "name": f"{names.COMEBACK_PREFIX}{uid}",
                "namespace": TEAM,
                "labels": {names.COMEBACK: "true"},
                "annotations": annotations,
            },
            "template": {} if what == "broken" else pod,
        },
    )


def let_go_by_others(world: World) -> None:
    for pod in world.pods:
        finalizers = pod.metadata.finalizers or ()
        if is_terminating(pod) and finalizers == (OTHERS,):
            world.kube.patch(PODS, pod.metadata.name, {"metadata": {"finalizers": None}}, namespace=TEAM)
