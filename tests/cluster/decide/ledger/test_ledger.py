import msgspec

from cluster import names
from cluster.decide.ledger import WHOLE, Ledger
from cluster.decide.ledger.view import NodeView
from cluster.objects.assignment import encode_drift
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.fakes.objects import PodBuilder, a100, a6000, a_node, a_pod

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


def test_a_pod_that_waits_holds_nothing() -> None:
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


def test_a_late_word_about_a_deleted_pod_does_not_raise_it() -> None:
    ledger = a_ledger()
    ledger.forget_pod("uid-p", version="12")

    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).at(11).obj)

    assert free(ledger.view("n0")) == [G0, G1, G2, G3]


def test_a_pod_that_an_old_list_left_out_comes_back_with_the_next_word() -> None:
    ledger = a_ledger()
    pod = a_pod().asks(1).on("n0", {"main": (G0,)})
    ledger.apply_pod(pod.obj)
    ledger.forget_pod("uid-p")

    ledger.apply_pod(pod.obj)

    assert free(ledger.view("n0")) == [G1, G2, G3]


def test_a_deletion_that_is_older_than_what_is_known_is_no_deletion() -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).at(20).obj)

    ledger.forget_pod("uid-p", version="19")

    assert free(ledger.view("n0")) == [G1, G2, G3]


def test_versions_that_are_no_numbers_count_in_the_order_in_which_they_come() -> None:
    ledger = a_ledger()

    ledger.apply_pod(in_version("b", a_pod().asks(1).on("n0", {"main": (G0,)})))
    ledger.apply_pod(in_version("a", a_pod().asks(1).on("n0", {"main": (G1,)})))

    assert ledger.view("n0").held == {G1: WHOLE}


def test_a_pod_bound_by_somebody_else_holds_an_unknown_device() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().asks(2).on("n0").obj)

    assert ledger.view("n0").unknown == {names.GPU_RESOURCE: 2}


def test_a_pod_whose_assignment_cannot_be_read_holds_an_unknown_device() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().asks(1).with_annotation(names.ASSIGNED, "?").on("n0").obj)

    assert ledger.view("n0").unknown == {names.GPU_RESOURCE: 1}


def test_a_bound_pod_that_asks_for_no_gpu_holds_nothing() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().on("n0").obj)

    assert ledger.view("n0").unknown == {}
    assert ledger.view("n0").claims == ()


def test_what_the_agent_has_seen_wins_over_what_was_intended() -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).obj)

    ledger.apply_node(
        a_node("n0", a100(0), a100(1), version=2, drift=encode_drift({"uid-p": {"main": (G1,)}}))
    )

    assert ledger.view("n0").held == {G1: WHOLE}


def test_what_the_agent_has_seen_makes_an_unknown_device_known() -> None:
    ledger = a_ledger()
    ledger.apply_node(a_node("n0", a100(0), a100(1), drift=encode_drift({"uid-p": {"main": (G1,)}})))

    ledger.apply_pod(a_pod().asks(1).on("n0").obj)

    assert ledger.view("n0").unknown == {}
    assert ledger.view("n0").held == {G1: WHOLE}


def test_a_device_that_the_inventory_does_not_know_is_held_all_the_same() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": ("GPU-lost",)}).obj)

    assert ledger.view("n0").held == {"GPU-lost": WHOLE}
    assert ledger.view("n0").holders("GPU-lost") == ("uid-p",)


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


def test_an_assumed_bind_outlives_news_of_the_pod_still_waiting() -> None:
    ledger = a_ledger()
    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})

    ledger.apply_pod(a_pod().asks(1).at(5).obj)

    assert free(ledger.view("n0")) == [G1, G2, G3]


def test_what_objects_say_wins_over_what_was_assumed() -> None:
    ledger = a_ledger()
    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})

    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G1,)}).at(2).obj)

    assert ledger.view("n0").held == {G1: WHOLE}
    assert ledger.assumed == {}


def test_assuming_comes_too_late_for_a_pod_that_is_seen_bound() -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G1,)}).at(2).obj)

    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})
    ledger.forget_assumed("uid-p")

    assert ledger.view("n0").held == {G1: WHOLE}


def test_assuming_comes_too_late_for_a_pod_that_is_deleted() -> None:
    ledger = a_ledger()
    ledger.forget_pod("uid-p", version="9")

    ledger.assume(a_pod().asks(1).obj, "n0", {"main": (G0,)})

    assert free(ledger.view("n0")) == [G0, G1, G2, G3]


def test_the_first_assumption_about_a_pod_stands() -> None:
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


def test_a_node_that_is_gone_gives_nothing_but_its_pods_still_hold() -> None:
    ledger = a_ledger()
    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).obj)

    ledger.forget_node("n0")

    view = ledger.view("n0")
    assert not view.published
    assert free(view) == []
    assert view.held == {G0: WHOLE}
    assert ledger.nodes() == ()


def test_a_node_whose_inventory_cannot_be_read_gives_nothing_and_says_so() -> None:
    ledger = a_ledger()

    ledger.apply_node(unreadable(names.INVENTORY))

    assert ledger.view("n0").fault == "the node's GPU inventory cannot be read"
    assert free(ledger.view("n0")) == []


def test_a_node_whose_drift_cannot_be_read_says_so() -> None:
    ledger = a_ledger()

    ledger.apply_node(a_node("n0", a100(0), version=2, drift="?"))

    assert ledger.view("n0").fault == "what the node agent says about drifted pods cannot be read"


def test_a_node_made_anew_under_the_old_name_counts() -> None:
    ledger = a_ledger()

    ledger.apply_node(a_node("n0", a100(7), version=1, uid="another"))

    assert free(ledger.view("n0")) == ["GPU-n0-7"]


def test_a_sick_device_is_not_free() -> None:
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


def test_a_view_changes_only_with_what_matters() -> None:
    ledger = a_ledger()
    before, generation = ledger.view("n0"), ledger.generation

    ledger.apply_node(a_node("n0", a100(0), a100(1), a6000(2), a6000(3), version=2))
    ledger.apply_pod(a_pod().asks(1).obj)

    assert ledger.view("n0") is before
    assert ledger.generation == generation
