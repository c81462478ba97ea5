"""How a pod is explained: one test per case."""

from dataclasses import replace

import msgspec

from cluster import names
from cluster.cache import NodeSnapshot
from cluster.decide.explain import Explanation, explain_pod
from cluster.decide.ledger import Ledger
from cluster.objects.evict_orders import EvictOrder, encode_order
from cluster.objects.hold import Hold
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Gate
from tests.cluster.decide.explain.snapshots import (
    DAY,
    NOW,
    UNTIL,
    alices,
    explained,
    holding_all,
    running,
    snapshot,
    tainted,
    taken,
)
from tests.fakes.objects import A100, A6000, EPOCH, a100, a6000, a_booking, a_node, a_pod


def test_a_running_pod_is_explained_by_the_booking_that_covers_it() -> None:
    found = explained(running(), bookings=(a_booking(),))
    assert found.state == "running, booked"
    assert found.because == (
        "It belongs to alice.",
        f"The booking b-1 of 1 x {A100} covers it until 2026-11-25 09:00 UTC.",
        f"It is on n0 and holds GPU 0 ({A100}).",
        f"GPU Booking chose it when the pod was bound: its booking is for {A100}.",
        UNTIL,
    )
    assert found.would_change == ("Extending the booking b-1 before 2026-11-25 09:00 UTC keeps its cover.",)


def test_a_running_pod_without_a_booking_may_lose_its_gpus_at_any_time() -> None:
    found = explained(running())
    assert found.state == "running, not booked"
    assert "No booking of alice's is running." in found.because
    assert found.because[-1] == "A booked pod that finds no free GPU may take its GPUs at any time."
    assert found.would_change[0].startswith("A running booking of alice's")


def test_the_reason_why_a_booking_does_not_cover_a_running_pod_is_explained_with_the_remedy() -> None:
    pod = running()
    seen = replace(snapshot(pod, bookings=(a_booking(),)), cover={}, barred=frozenset({("uid-p", "b-1")}))
    found = explain_pod(pod.obj, seen)
    assert found.state == "running, not booked"
    where = "does not cover it where it runs: others are guaranteed GPUs of n0."
    assert f"The booking b-1 of 1 x {A100} {where}" in found.because
    assert found.would_change[0].startswith("Created again, it gets its GPUs on another node for certain.")


def test_the_reason_why_a_pod_has_no_owner_is_explained() -> None:
    pod = a_pod().asks(1).with_annotation(names.NO_USER, "ServiceAccounts are nobody.")
    found = explained(pod, bookings=(a_booking(),))
    assert found.because[:2] == (
        "It belongs to nobody: ServiceAccounts are nobody.",
        "So no booking can cover it.",
    )
    assert names.OWNER in found.would_change[-1]


def test_the_reason_why_a_running_booking_does_not_cover_a_pod_is_explained() -> None:
    cases = {
        "it is for pods of the namespace research alone": a_booking(namespace="research"),
        f"it accepts {A6000} only.": a_booking(),
        "it asks for 2 GPUs": a_booking(model=A6000, count=1),
    }
    pod = alices().asks(2).wants(A6000)
    for words, booking in cases.items():
        found = explained(pod, bookings=(booking,))
        assert any(f"does not cover it: {words}" in message for message in found.because), found
        assert found.state == "waiting, not booked"


def test_a_pod_that_refuses_the_booked_model_is_not_covered() -> None:
    found = explained(alices().asks(1).with_annotation(names.NOT_MODEL, A100), bookings=(a_booking(),))
    assert f"The booking b-1 of 1 x {A100} does not cover it: it refuses that model." in found.because


def test_a_bound_pod_is_judged_by_the_devices_that_it_has() -> None:
    found = explained(alices().asks(1).on("n0", {"main": ("GPU-n0-2",)}), bookings=(a_booking(),))
    assert "its GPUs are NVIDIA-RTX-A6000" in found.because[1]


def test_a_booking_that_is_used_up_names_the_pods_that_use_it() -> None:
    found = explained(alices().asks(1).created(EPOCH + DAY), running("first"), bookings=(a_booking(),))
    assert f"The booking b-1 of 1 x {A100} does not cover it: all of it is used by first." in found.because
    assert (
        found.would_change[-1]
        == "When pods that use the booking end and leave 1 GPU of it, it covers this one."
    )


def test_bookings_that_have_not_begun_or_are_over_are_explained() -> None:
    later = a_booking("b-2", start=NOW + DAY, end=NOW + 2 * DAY)
    over = a_booking("b-0", start=EPOCH - DAY, end=EPOCH)
    assert (
        "does not cover it yet: it begins at 2026-11-24 10:00 UTC"
        in explained(running(), bookings=(later,)).because[1]
    )
    assert (
        "The last one, b-0, was over at 2026-11-23 09:00 UTC."
        in explained(running(), bookings=(over,)).because
    )


def test_the_reason_why_a_pod_waits_is_explained() -> None:
    full = [
        a_pod(f"q{i}").of("bob").asks(2).on(f"n{i}", {"main": (f"GPU-n{i}-0", f"GPU-n{i}-1")}) for i in (0, 1)
    ]
    found = explained(alices().asks(1).wants(A100), *full)
    assert f"All 4 healthy GPUs of model {A100} are in use." in found.because
    booked = explained(alices().asks(1), *full, bookings=(a_booking(),))
    assert booked.state == "waiting, booked"
    assert booked.would_change[0].startswith("Its booking makes room for it")


def test_free_gpus_for_a_waiting_pod_are_named_with_the_schedulers_message() -> None:
    fresh = explained(alices().asks(1))
    assert "There are free GPUs for it on n0 and n1." in fresh.because
    assert fresh.would_change[0] == "It is bound by itself once the scheduler has tried it."
    assert not any(
        "bound by itself" in one for one in explained(alices().asks(1).unschedulable()).would_change
    )
    assert "The scheduler says: no." in explained(alices().asks(1).unschedulable()).because


def test_the_choice_of_a_bound_pod_s_gpus_is_explained() -> None:
    chose = "GPU Booking chose it when the pod was bound: "
    assert f"{chose}it takes any model." in explained(running()).because
    assert f"{chose}it asks for {A100}." in explained(running().wants(A100)).because
    two = alices().asks(2).on("n0", {"main": ("GPU-n0-0", "GPU-n0-1")})
    assert "GPU Booking chose them when the pod was bound: it takes any model." in explained(two).because
    foreign = replace(snapshot(running()), node_snapshots=snapshot(running()).node_snapshots)
    unchosen = alices().asks(1).on("n0")
    assert (
        "The kubelet chose among its GPUs: the pod was bound by somebody else than GPU Booking."
        in explain_pod(unchosen.obj, foreign).because
    )


def test_the_holders_of_gpus_that_would_fit_a_waiting_pod_are_listed_with_their_ends() -> None:
    found = explained(alices().asks(1).wants(A100), *taken(), bookings=(a_booking(user="bob"),))
    assert found.because[-2:] == (
        (
            "Of the GPUs that would fit, booked pods use 1 (until 2026-11-25 09:00 UTC)"
            " and pods without a booking use 3 (the first until 2026-11-23 18:00 UTC)."
        ),
        "They are used by default/mine.",
    )


def test_names_of_other_people_s_pods_are_shown_only_to_readers_who_may_see_them() -> None:
    pods = [alices().asks(1).wants(A100), *taken()]
    seen = snapshot(*pods, bookings=(a_booking(user="bob"),))
    everything = explain_pod(pods[0].obj, seen, may_name=lambda _pod: True).because[-1]
    assert everything == (
        "They are used by default/granted until 2026-11-23 18:00 UTC,"
        " default/booked until 2026-11-25 09:00 UTC and default/mine."
    )
    nothing = explain_pod(pods[0].obj, seen, may_name=lambda _pod: False).because
    assert not any("default/" in message for message in nothing)


def test_gpus_that_are_kept_for_a_booked_pod_are_counted() -> None:
    booked = a_pod("booked").of("bob").asks(1).kept("n0", "GPU-n0-0")
    found = explained(alices().asks(1).wants(A100), booked, *taken()[2:], running("mine", index=1))
    assert "1 GPU that would fit is kept for booked pods." in found.because


def test_messages_of_the_schedulers_own_filters_are_shown_without_the_extenders() -> None:
    message = (
        "0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint(s) "
        "{a: b, c: d}, 1 Insufficient cpu. preemption: 0/4 nodes are available: 4 No victims found."
    )
    found = explained(alices().asks(9).unschedulable(message))
    assert (
        "The scheduler's own filters say of 2 nodes: node(s) had untolerated taint(s) {a: b, c: d};"
        " 1 node: Insufficient cpu." in found.because
    )
    only_ours = explained(
        alices().asks(9).unschedulable("0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
    )
    assert not any("own filters" in text for text in only_ours.because)


def test_reasons_of_the_extender_are_not_reported_as_the_scheduler_s_own_filters() -> None:
    message = (
        "0/3 nodes are available: 1 GPUs of this node are kept for another pod [held-for-booked-pod],"
        " 1 Insufficient nvidia.com/mig-1g.5gb, 1 the GPU agent of the node is unresponsive"
        " [agent-unresponsive]."
        " no new claims to deallocate, preemption: 0/3 nodes are available: 3 No victims found."
    )
    found = explained(alices().asks(9).unschedulable(message))
    assert not any("own filters" in text for text in found.because)


def test_a_message_of_the_scheduler_about_the_pod_alone_is_shown() -> None:
    message = "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. preemption: 0/3 no."
    found = explained(alices().asks(9).unschedulable(message))
    assert (
        "The scheduler's own filters say: pod has unbound immediate PersistentVolumeClaims." in found.because
    )


def test_the_message_of_a_failed_bind_is_shown_unchanged() -> None:
    message = "The API server refused the Binding (403 Forbidden)."
    found = explained(alices().asks(9).unschedulable(message))
    assert f"The scheduler says: {message}" in found.because


def test_a_pod_that_was_not_tried_yet_names_the_scheduler_that_it_waits_for() -> None:
    found = explained(alices().asks(1).scheduled_by("volcano"))
    assert "The scheduler volcano has not tried it yet, or is about to bind it." in found.because


def test_a_pod_that_can_never_fit_is_not_advised_to_wait() -> None:
    for pod in (alices().asks(9), alices().asks(1).wants("NVIDIA B300")):
        for bookings in ((), (a_booking(count=9), a_booking("b-2", model="NVIDIA-B300"))):
            found = explained(pod, bookings=bookings)
            assert found.would_change in {
                ("Fewer GPUs, or a larger node.",),
                ("Another request, or a node that has such GPUs.",),
            }
    gated = msgspec.structs.replace(
        alices().asks(1).obj.spec, scheduling_gates=(Gate(name="kueue.x-k8s.io/admission"),)
    )
    pod = msgspec.structs.replace(alices().asks(1).obj, spec=gated)
    assert explain_pod(pod, snapshot()).would_change[0] == (
        "It is offered once the owner of kueue.x-k8s.io/admission removes that gate."
    )


def test_a_pod_in_line_behind_our_gate_has_the_same_reasons_as_one_that_was_offered() -> None:
    full = [
        a_pod(f"b{n}{i}").of("bob").asks(1).on(n, {"main": (f"GPU-{n}-{i}",)})
        for n in ("n0", "n1")
        for i in (0, 1)
    ]
    pod = a_pod("p").of("alice").asks(1).wants(A100)
    queued, loose = explained(pod.behind(), *full), explained(pod, *full)
    in_line = (
        f"It is in line behind the scheduling gate {names.QUEUE}, and has not been offered to the scheduler."
    )
    assert in_line in queued.because
    assert [one for one in queued.because if one != in_line] == list(loose.because)
    assert (queued.state, queued.would_change) == (loose.state, loose.would_change)


def test_a_pod_in_line_with_a_free_gpu_is_offered_in_its_turn() -> None:
    found = explained(a_pod("p").of("alice").asks(1).wants(A100).behind())
    assert "There are free GPUs for it on n0 and n1." in found.because
    assert (
        "It is offered to the scheduler by itself, after those that were there before it."
        in found.would_change
    )


def test_a_foreign_gate_is_named_beside_ours() -> None:
    found = explained(a_pod("p").of("alice").asks(1).behind(names.QUEUE, "kueue.x-k8s.io/admission"))
    assert (
        "It has not been offered to the scheduler: scheduling gate kueue.x-k8s.io/admission." in found.because
    )


def test_each_rejection_of_a_node_is_shown_with_what_would_change_it() -> None:
    pod = alices().asks(1)
    seen = snapshot(pod)
    seen_n0, _ = seen.node_snapshots["n0"]
    seen = replace(seen, node_snapshots={**seen.node_snapshots, "n0": (seen_n0, "unresponsive")})
    seen = replace(seen, nodes={"n1": tainted("n1")})
    found = explain_pod(pod.obj, seen)
    assert "n0: the GPU agent of the node is unresponsive." in found.because
    assert "n1: the node has a taint that the pod does not tolerate." in found.because
    assert "n0: the node agent renews its Lease again; it has not for 75 s." in found.would_change
    assert "n1: a toleration of the node's taint." in found.would_change
    nowhere = explain_pod(pod.obj, replace(seen, nodes={"n0": tainted("n0"), "n1": tainted("n1")}))
    assert nowhere.would_change == ("n0 and n1: a toleration of the node's taint.",)


def test_a_node_with_an_unreadable_drift_annotation_is_named() -> None:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0), drift="{"))
    ledger.apply_node(a_node("n1", a6000(0, "n1")))
    pod = alices().asks(1).wants(A100, A6000)
    node_snapshots: dict[str, NodeSnapshot] = {
        view.name: (view, "alive") for view in ledger.views(ledger.nodes())
    }
    found = explain_pod(pod.obj, replace(snapshot(pod), node_snapshots=node_snapshots))
    assert "n0: what the node agent says about drifted pods cannot be read." in found.because


def test_barred_nodes_and_disruption_budgets_are_reasons_of_a_waiting_booked_pod() -> None:
    pod = alices().asks(1).with_annotation(names.BARRED, "n7,n8")
    pod = pod.with_annotation(names.BUDGETS_SINCE, "2026-11-23T09:30:00Z")
    found = explained(pod, *taken()[:1], *holding_all(), bookings=(a_booking(), a_booking("b-2", user="bob")))
    assert "Nothing is kept for it on n7 and n8 for a while: it did not help there." in found.because
    assert (
        "Disruption budgets alone keep others from leaving for it, since 2026-11-23T09:30:00Z."
        in found.because
    )


def test_a_booking_that_cannot_make_room_now_is_not_said_to_make_it_by_itself() -> None:
    pod = alices().asks(1).with_annotation(names.BLOCKED, "A pod would have to leave, but may not.")
    found = explained(pod, *taken()[:1], *holding_all(), bookings=(a_booking(), a_booking("b-2", user="bob")))
    (change,) = found.would_change
    assert change.startswith("Its booking makes room for it as soon as the pods in its way may leave")


def test_devices_that_are_unknown_to_the_node_or_unnamed_are_reported() -> None:
    lost = explained(alices().asks(1).on("n0", {"main": ("GPU-gone",)}))
    assert "Of what it was given, n0 does not know GPU-gone any more." in lost.because
    assert not any("holds GPUs" in message for message in lost.because)
    ledger = Ledger()
    pod = alices().asks(2).on("n0")
    ledger.apply_node(a_node("n0", a100(0), a100(1), drift='{"uid-p":{"main":["GPU-n0-0"]}}'))
    ledger.apply_pod(pod.obj)
    partly = explain_pod(pod.obj, replace(snapshot(pod), node_snapshots={"n0": (ledger.view("n0"), "alive")}))
    assert f"It is on n0 and holds GPU 0 ({A100})." in partly.because
    assert "Of 1 more GPU that it asks for, it is not known which it holds." in partly.because


def test_a_part_of_a_gpu_is_called_by_its_profile() -> None:
    ledger = Ledger()
    part = a100(0, uuid="MIG-a", parent="GPU-n0-9", profile="1g.5gb")
    pod = alices().asks(1, resource="nvidia.com/mig-1g.5gb").on("n0", {"main": ("MIG-a",)})
    ledger.apply_node(a_node("n0", part))
    ledger.apply_pod(pod.obj)
    found = explain_pod(pod.obj, replace(snapshot(pod), node_snapshots={"n0": (ledger.view("n0"), "alive")}))
    assert f"It is on n0 and holds GPU 0 ({A100}, 1g.5gb)." in found.because


def test_a_booked_pod_on_its_booking_s_node_is_reported_as_planned_there() -> None:
    there = a_booking(places=[{"node": "n0", "count": 1}])
    assert "Its booking is planned on this node." in explained(running(), bookings=(there,)).because
    elsewhere = a_booking(places=[{"node": "n1", "count": 1}])
    assert not any("planned" in one for one in explained(running(), bookings=(elsewhere,)).because)


def test_a_hold_is_explained_to_its_pod_and_to_its_victim() -> None:
    victim = running("v")
    waiting = alices("w").asks(1)
    hold = Hold(node="n0", devices=("GPU-n0-0",), victims=("uid-v",), at=NOW)
    kept = waiting.kept("n0", "GPU-n0-0")
    seen = replace(
        snapshot(victim, kept, bookings=(a_booking(start=NOW - DAY),)), cover={"uid-w": a_booking()}
    )
    seen = replace(seen, holds={"uid-w": hold})
    found = explain_pod(kept.obj, seen)
    assert found.because[-2:] == (
        "1 GPU of node n0 is kept for this pod.",
        "Of 1 kept for it 0 are free already.",
    )
    assert found.would_change == ("It is bound by itself as soon as all of its GPUs are free.",)
    leaving = explain_pod(victim.obj, seen)
    assert (leaving.state, leaving.because[-1]) == (
        "to be evicted",
        "A booked pod needs its GPUs: it must leave.",
    )


def test_protection_grant_and_evict_order_are_shown() -> None:
    pod = running()
    protected = Namespace(metadata=a_pod("default").with_annotation(names.NEVER_EVICT, "true").obj.metadata)
    seen = replace(snapshot(pod), namespaces={"default": protected})
    assert "no pod of the namespace default is evicted" in explain_pod(pod.obj, seen).because[-1]
    granted = explain_pod(pod.obj, snapshot(pod), granted=NOW + DAY)
    assert "MAIA has granted it its GPUs until 2026-11-24 10:00 UTC" in granted.because[-1]
    order = encode_order(EvictOrder(by="bob", reason="The rack is on fire.", at=NOW))
    ordered = explained(pod.with_annotation(names.EVICT, order), bookings=(a_booking(),))
    assert "bob, an administrator, has ordered it to go: The rack is on fire." in ordered.because


def test_pods_that_leave_have_ended_or_have_no_gpu_are_explained() -> None:
    assert explained(running().terminating()).state == "leaving"
    assert explained(running().ended()).state == "finished"
    assert explained(a_pod()) == Explanation("without GPU", ("It asks for no GPU.",))
    stripped = explained(alices().with_annotation(names.STRIPPED, "All GPUs are booked."))
    assert (stripped.state, stripped.because) == (
        "without its GPU",
        ("It belongs to alice.", "All GPUs are booked."),
    )
    assert stripped.would_change


def test_the_reason_why_the_first_pod_had_to_leave_is_shown_on_its_comeback() -> None:
    found = explained(
        alices().asks(1).with_annotation(names.COMEBACK_MESSAGE, "The booked pod x needed its GPUs.")
    )
    assert "It replaces a pod that had to go: The booked pod x needed its GPUs." in found.because
