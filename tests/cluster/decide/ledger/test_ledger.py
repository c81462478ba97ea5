from datetime import timedelta

import msgspec
import pytest

from cluster import names
from cluster.decide.ledger import WHOLE, Ledger
from cluster.decide.ledger.view import NodeView
from cluster.objects.assignment import encode_drift
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.fakes.objects import EPOCH, PodBuilder, a100, a6000, a_node, a_pod

G0, G1, G2, G3 = (f"GPU-n0-{index}" for index in range(4))


def a_ledger() -> Ledger:
    ledger = Ledger()
    ledger.apply_node(a_node("n0", a100(0), a100(1), a6000(2), a6000(3)))
    return ledger


def free(view: NodeView) -> list[str]:
    groups = view.free_by_model.get(names.GPU_RESOURCE, {})
    return sorted(device.uuid for devices in groups.values() for device in devices)


def in_version(text: str, pod: PodBuilder) -> Pod:
    return msgspec.structs.replace(
        pod.obj, metadata=msgspec.structs.replace(pod.obj.metadata, resource_version=text)
    )


def unreadable(annotation: str) -> Node:
    node = a_node("n0", version=2)
    return msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, annotations={annotation: "?"})
    )


def test_a_bound_pod_holds_all_of_its_devices() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G1,)}).obj)

    assert ledger.view("n0").held == {G1: WHOLE}
    assert free(ledger.view("n0")) == [G0, G2, G3]


def test_a_waiting_pod_holds_nothing() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().asks(1).obj)

    assert free(ledger.view("n0")) == [G0, G1, G2, G3]


def test_a_pod_may_come_before_its_node() -> None:
    ledger = Ledger()
    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G1,)}).obj)

    ledger.apply_node(a_node("n0", a100(0), a100(1)))

    assert free(ledger.view("n0")) == [G0]


def test_a_terminating_pod_still_holds() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).terminating().obj)

    assert free(ledger.view("n0")) == [G1, G2, G3]


def test_a_pod_that_has_ended_holds_nothing() -> None:
    ledger = a_ledger()
    pod = a_pod().asks(1).on("n0", {"main": (G0,)})
    ledger.apply_pod(pod.obj)

    ledger.apply_pod(pod.at(2).ended().obj)

    assert free(ledger.view("n0")) == [G0, G1, G2, G3]


def test_a_pod_is_known_from_its_first_event_to_its_last() -> None:
    ledger = Ledger()
    assert not ledger.knows("uid-p")
    ledger.apply_pod(a_pod("p").obj)
    assert ledger.knows("uid-p")
    ledger.forget_pod("uid-p")
    assert not ledger.knows("uid-p")


def test_a_forgotten_pod_holds_nothing() -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).obj)

    ledger.forget_pod("uid-p")

    assert free(ledger.view("n0")) == [G0, G1, G2, G3]


def test_an_older_state_after_a_newer_one_changes_nothing() -> None:
    ledger = a_ledger()
    pod = a_pod().asks(1)
    ledger.apply_pod(pod.on("n0", {"main": (G0,)}).at(10).obj)

    ledger.apply_pod(pod.at(9).obj)

    assert free(ledger.view("n0")) == [G1, G2, G3]


def test_a_late_event_does_not_bring_a_deleted_pod_back() -> None:
    ledger = a_ledger()
    ledger.forget_pod("uid-p", version="12")

    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).at(11).obj)

    assert free(ledger.view("n0")) == [G0, G1, G2, G3]


def test_a_pod_missing_in_an_old_list_comes_back_with_its_next_event() -> None:
    ledger = a_ledger()
    pod = a_pod().asks(1).on("n0", {"main": (G0,)})
    ledger.apply_pod(pod.obj)
    ledger.forget_pod("uid-p")

    ledger.apply_pod(pod.obj)

    assert free(ledger.view("n0")) == [G1, G2, G3]


def test_a_deletion_that_is_older_than_the_known_version_is_ignored() -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).at(20).obj)

    ledger.forget_pod("uid-p", version="19")

    assert free(ledger.view("n0")) == [G1, G2, G3]


def test_versions_that_are_no_numbers_count_in_their_order_of_arrival() -> None:
    ledger = a_ledger()

    ledger.apply_pod(in_version("b", a_pod().asks(1).on("n0", {"main": (G0,)})))
    ledger.apply_pod(in_version("a", a_pod().asks(1).on("n0", {"main": (G1,)})))

    assert ledger.view("n0").held == {G1: WHOLE}


def test_a_pod_bound_by_somebody_else_holds_an_unknown_device() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().asks(2).on("n0").obj)

    assert ledger.view("n0").unknown == {names.GPU_RESOURCE: 2}


def test_a_pod_with_an_unreadable_assignment_holds_an_unknown_device() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().asks(1).with_annotation(names.ASSIGNED, "?").on("n0").obj)

    assert ledger.view("n0").unknown == {names.GPU_RESOURCE: 1}


def test_a_bound_pod_that_asks_for_no_gpu_holds_nothing() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().on("n0").obj)

    assert ledger.view("n0").unknown == {}
    assert ledger.view("n0").holdings == ()


def test_devices_seen_by_the_agent_take_precedence_over_those_assigned() -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).obj)

    ledger.apply_node(
        a_node("n0", a100(0), a100(1), version=2, drift=encode_drift({"uid-p": {"main": (G1,)}}))
    )

    assert ledger.view("n0").held == {G1: WHOLE}


def test_an_unknown_device_becomes_known_once_the_agent_has_seen_it() -> None:
    ledger = a_ledger()
    ledger.apply_node(a_node("n0", a100(0), a100(1), drift=encode_drift({"uid-p": {"main": (G1,)}})))

    ledger.apply_pod(a_pod().asks(1).on("n0").obj)

    assert ledger.view("n0").unknown == {}
    assert ledger.view("n0").held == {G1: WHOLE}


def test_a_static_pod_is_known_by_the_kubelet_s_uid_and_not_by_its_mirror_pod_s() -> None:
    ledger = a_ledger()
    mirror = a_pod("mirror").asks(1).with_annotation(names.STATIC_POD, "4711").on("n0")
    ledger.apply_pod(mirror.obj)
    assert ledger.view("n0").unknown == {names.GPU_RESOURCE: 1}

    ledger.apply_node(
        a_node("n0", a100(0), a100(1), version=2, drift=encode_drift({"4711": {"main": (G1,)}}))
    )

    assert ledger.view("n0").unknown == {}
    assert ledger.view("n0").held == {G1: WHOLE}
    assert ledger.view("n0").holders(G1) == ("uid-mirror",)


def test_devices_that_the_agent_has_not_identified_yet_stay_unknown() -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1, container="first").asks(1, container="second").on("n0").obj)

    ledger.apply_node(
        a_node("n0", a100(0), a100(1), version=2, drift=encode_drift({"uid-p": {"first": (G1,)}}))
    )

    assert ledger.view("n0").held == {G1: WHOLE}
    assert ledger.view("n0").unknown == {names.GPU_RESOURCE: 1}


def test_l1_two_pods_that_name_one_device_are_shown_as_a_conflict() -> None:
    ledger = a_ledger()

    for name in ("p", "q"):
        ledger.apply_pod(a_pod(name).asks(1).on("n0", {"main": (G0,)}).obj)

    view = ledger.view("n0")
    assert view.conflicts == (G0,)
    assert view.holders(G0) == ("uid-p", "uid-q")
    assert free(view) == [G1, G2, G3]


def test_an_assumed_bind_holds_at_once() -> None:
    ledger = a_ledger()

    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})

    assert free(ledger.view("n0")) == [G1, G2, G3]


def test_an_assumed_bind_outlives_an_event_of_the_pod_still_waiting() -> None:
    ledger = a_ledger()
    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})

    ledger.apply_pod(a_pod().asks(1).at(5).obj)

    assert free(ledger.view("n0")) == [G1, G2, G3]


def test_stored_objects_take_precedence_over_assumed_binds() -> None:
    ledger = a_ledger()
    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})

    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G1,)}).at(2).obj)

    assert ledger.view("n0").held == {G1: WHOLE}
    assert ledger.assumed == {}


def test_an_assumed_bind_is_ignored_for_a_pod_already_seen_bound() -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G1,)}).at(2).obj)

    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})
    ledger.forget_assumed("uid-p")

    assert ledger.view("n0").held == {G1: WHOLE}


def test_an_assumed_bind_is_ignored_for_a_deleted_pod() -> None:
    ledger = a_ledger()
    ledger.forget_pod("uid-p", version="9")

    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})

    assert free(ledger.view("n0")) == [G0, G1, G2, G3]


def test_the_first_assumed_bind_of_a_pod_remains() -> None:
    ledger = a_ledger()
    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})

    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G1,)})

    assert ledger.view("n0").held == {G0: WHOLE}


def test_an_assumption_can_be_taken_back() -> None:
    ledger = a_ledger()
    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})

    ledger.forget_assumed("uid-p")

    assert free(ledger.view("n0")) == [G0, G1, G2, G3]


def test_a_deleted_pod_releases_what_was_assumed() -> None:
    ledger = a_ledger()
    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})

    ledger.forget_pod("uid-p", version="3")

    assert free(ledger.view("n0")) == [G0, G1, G2, G3]
    assert ledger.assumed == {}


def test_a_deleted_node_gives_nothing_but_its_pods_still_hold() -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).obj)

    ledger.forget_node("n0")

    view = ledger.view("n0")
    assert not view.published
    assert free(view) == []
    assert view.held == {G0: WHOLE}
    assert ledger.nodes() == ()


def test_a_node_with_an_unreadable_inventory_gives_nothing_and_has_a_fault() -> None:
    ledger = a_ledger()

    ledger.apply_node(unreadable(names.INVENTORY))

    assert ledger.view("n0").fault == "the node's GPU inventory cannot be read"
    assert free(ledger.view("n0")) == []


def test_a_node_with_unreadable_drift_has_a_fault() -> None:
    ledger = a_ledger()

    ledger.apply_node(a_node("n0", a100(0), version=2, drift="?"))

    assert ledger.view("n0").fault == "what the node agent says about drifted pods cannot be read"


def test_a_recreated_node_of_the_same_name_counts() -> None:
    ledger = a_ledger()

    ledger.apply_node(a_node("n0", a100(7), version=1, uid="another"))

    assert free(ledger.view("n0")) == ["GPU-n0-7"]


def test_an_unhealthy_device_is_not_free() -> None:
    ledger = Ledger()

    ledger.apply_node(a_node("n0", a100(0), a100(1, health="unhealthy", reason="XID 79")))

    assert free(ledger.view("n0")) == [G0]


def test_a_gpu_that_is_cut_into_mig_devices_is_not_given_whole() -> None:
    ledger = Ledger()

    ledger.apply_node(
        a_node(
            "n0", a100(0), a100(1), a100(2, uuid="MIG-a", model="1g.10gb", parent=G0, profile="1g.10gb+me")
        )
    )

    assert free(ledger.view("n0")) == [G1]
    mig = ledger.view("n0").free_by_model["nvidia.com/mig-1g.10gb.me"]
    assert [device.uuid for device in mig["1g.10gb"]] == ["MIG-a"]


def test_a_view_changes_only_with_relevant_changes() -> None:
    ledger = a_ledger()
    before, generation = ledger.view("n0"), ledger.generation

    ledger.apply_node(a_node("n0", a100(0), a100(1), a6000(2), a6000(3), version=2))
    ledger.apply_pod(a_pod().asks(1).obj)

    assert ledger.view("n0") is before
    assert ledger.generation == generation


# --- holds -------------------------------------------------------------------------------------------


def test_a_hold_keeps_devices_from_others_and_holds_nothing() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().asks(2).kept("n0", G0, G1).obj)

    view = ledger.view("n0")
    assert view.on_hold == {G0: "uid-p", G1: "uid-p"}
    assert view.held == {}
    assert free(view) == [G2, G3]


def test_devices_are_kept_while_their_holders_leave() -> None:
    ledger = a_ledger()
    victim = a_pod("victim").asks(1).on("n0", {"main": (G0,)})
    ledger.apply_pod(victim.obj)
    ledger.apply_pod(a_pod().asks(1).kept("n0", G0).obj)
    assert ledger.view("n0").held == {G0: WHOLE}

    ledger.forget_pod("uid-victim")

    assert ledger.view("n0").on_hold == {G0: "uid-p"}
    assert free(ledger.view("n0")) == [G1, G2, G3]


@pytest.mark.parametrize(
    "after",
    [
        a_pod().asks(1),
        a_pod().asks(1).kept("n0", G0).on("n0", {"main": (G0,)}),
        a_pod().asks(1).kept("n0", G0).ended(),
        a_pod().asks(1).kept("n0", G0).terminating(),
        a_pod().asks(1).with_annotation(names.HOLD, "?"),
        a_pod().asks(1).kept("n1", G0),
    ],
    ids=["taken away", "bound", "ended", "terminating", "unreadable", "elsewhere"],
)
def test_a_hold_ends_when_its_pod_no_longer_waits(after: PodBuilder) -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1).kept("n0", G0).obj)

    ledger.apply_pod(after.at(2).obj)

    assert ledger.view("n0").on_hold == {}


def test_a_hold_ends_with_its_pod() -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1).kept("n0", G0).obj)

    ledger.forget_pod("uid-p", "2")

    assert ledger.view("n0").on_hold == {}


@pytest.mark.parametrize("order", [("a", "b", "c"), ("c", "b", "a")])
def test_a_device_with_several_holds_is_kept_for_the_oldest_then_the_smallest_uid(
    order: tuple[str, ...],
) -> None:
    second = EPOCH + timedelta(seconds=1)
    pods = {
        "a": a_pod("a").asks(1).kept("n0", G0, G1, at=None),
        "b": a_pod("b").asks(2).kept("n0", G0, G2, at=second),
        "c": a_pod("c").asks(2).kept("n0", G2, G3, at=second),
    }
    ledger = a_ledger()
    for name in order:
        ledger.apply_pod(pods[name].obj)

    assert ledger.view("n0").on_hold == {G0: "uid-b", G1: "uid-a", G2: "uid-b", G3: "uid-c"}


def test_a_hold_whose_instant_has_no_time_zone_is_in_utc() -> None:
    ledger = a_ledger()
    naive = f'{{"node":"n0","devices":["{G0}"],"at":"2026-11-23T08:00:00"}}'
    ledger.apply_pod(a_pod("a").asks(1).kept("n0", G0).obj)

    ledger.apply_pod(a_pod("b").asks(1).with_annotation(names.HOLD, naive).obj)

    assert ledger.view("n0").on_hold == {G0: "uid-b"}


def test_applying_an_older_version_reports_that_nothing_was_applied() -> None:
    ledger = a_ledger()

    assert ledger.apply_pod(a_pod().asks(1).at(5).obj)
    assert ledger.apply_pod(a_pod().asks(1).at(5).obj)
    assert not ledger.apply_pod(a_pod().asks(1).at(4).obj)
    assert ledger.apply_node(a_node("n0", a100(0), version=3))
    assert not ledger.apply_node(a_node("n0", a100(1), version=2))
