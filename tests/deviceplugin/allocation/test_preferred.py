"""Which pod is being admitted, case by case."""

from dataclasses import replace

import pytest

from cluster import names
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.preferred import (
    AllocationRequest,
    Decision,
    NodeState,
    Verdict,
    candidates,
    choose,
)
from tests.deviceplugin.pods import GPU, container, held, pod, view

ALL = frozenset({"A", "B", "C", "D"})


def request(size: int = 1, available: frozenset[str] | set[str] = ALL, *must: str) -> AllocationRequest:
    return AllocationRequest(frozenset(available), frozenset(must), size)


def test_the_only_waiting_pod_gets_its_assigned_devices() -> None:
    choice = choose(request(), view(pod("1", assignment=["C"])))
    assert choice == Decision(Verdict.ASSIGNED, ("C",), choice.pod, "main")
    assert choice.pod is not None
    assert choice.pod.metadata.uid == "1"


def test_pods_that_have_been_served_are_not_waiting() -> None:
    before, now = pod("a", assignment=["A"]), pod("2", assignment=["B"])
    choice = choose(request(1, ALL - {"A"}), view(before, now, holdings=held(a="A")))
    assert (choice.verdict, choice.devices) == (Verdict.ASSIGNED, ("B",))


def test_only_a_container_that_asks_for_as_many_devices_matches() -> None:
    choice = choose(request(2), view(pod("1", 1, assignment=["A"]), pod("2", 2, assignment=["B", "C"])))
    assert (choice.verdict, set(choice.devices)) == (Verdict.ASSIGNED, {"B", "C"})


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_pods_that_have_ended_are_not_waiting(phase: str) -> None:
    choice = choose(request(), view(pod("1", assignment=["A"], phase=phase), pod("2", assignment=["B"])))
    assert choice.devices == ("B",)


def test_a_pod_that_is_being_deleted_is_still_admitted() -> None:
    terminating = pod("1", assignment=["B"])
    assert choose(request(), view(terminating)).verdict is Verdict.ASSIGNED


def test_containers_are_served_in_the_order_of_the_kubelet() -> None:
    shape = pod(
        "1",
        assignment={"proxy": ["A"], "setup": ["B"], "main": ["B"]},
        init=(container("proxy", 1, sidecar=True), container("setup", 1)),
    )
    served: dict[tuple[str, str], frozenset[str]] = {}
    for name, device, *again in (("proxy", "A"), ("setup", "B"), ("main", "B", "B")):
        taken = frozenset().union(*served.values()).difference(again)
        choice = choose(request(1, ALL - taken, *again), view(shape, holdings=PodDevices(served)))
        assert (choice.verdict, choice.container, choice.devices) == (Verdict.ASSIGNED, name, (device,))
        served[("1", name)] = frozenset({device})


def test_a_started_pod_without_its_device_is_not_waiting() -> None:
    ghost, now = pod("1", assignment=["A"], started=True), pod("2", assignment=["B"])
    assert choose(request(), view(ghost, now)).devices == ("B",)


def test_l6_with_several_matching_pods_none_is_guessed_where_something_was_assigned() -> None:
    choice = choose(request(), view(pod("1", assignment=["A"]), pod("2", assignment=["B"])))
    assert (choice.verdict, choice.devices) == (Verdict.AMBIGUOUS, ())
    assert "default/pod-1, default/pod-2. Create the pod again." in choice.message


def test_a_request_without_a_waiting_pod_gets_unassigned_devices() -> None:
    choice = choose(request(2), view(pod("1", 1, assignment=["A"])))
    assert (choice.verdict, choice.devices) == (Verdict.NO_MATCH, ("B", "C"))


def test_an_assigned_device_is_given_where_all_are_assigned_but_never_one_in_use() -> None:
    holdings = held(c="A")
    three, one = pod("c", assignment=["A"]), pod("1", assignment=["B"])
    choice = choose(request(2, {"A", "B", "C"}), view(three, one, holdings=holdings))
    assert choice.devices == ("C", "B")


def test_an_unavailable_assigned_device_is_replaced_by_an_unassigned_one() -> None:
    now = pod("2", assignment=["A"])
    later = pod("3", 2, assignment=["B", "C"])
    choice = choose(request(1, ALL - {"A"}), view(now, later))
    assert (choice.verdict, choice.devices) == (Verdict.PARTLY_ASSIGNED, ("D",))
    assert choice.message == "Container main of pod default/pod-2 was assigned A, but is offered D."


def test_a_pod_without_assignment_gets_unassigned_devices() -> None:
    choice = choose(request(), view(pod("1"), pod("2", 2, assignment=["A", "B"])))
    assert (choice.verdict, choice.devices) == (Verdict.UNASSIGNED, ("C",))


def test_an_unreadable_annotation_assigns_nothing() -> None:
    broken = pod("1")
    assert broken.metadata.annotations is not None
    broken.metadata.annotations[names.ASSIGNED] = "{"
    assert choose(request(), view(broken)).verdict is Verdict.UNASSIGNED


def test_checkpoint_entries_of_ended_pods_keep_no_devices() -> None:
    holdings = held(gone="A", ended="B")
    choice = choose(
        request(1, {"A"}),
        view(pod("ended", phase="Succeeded"), pod("1", assignment=["A"]), holdings=holdings),
    )
    assert (choice.verdict, choice.devices) == (Verdict.ASSIGNED, ("A",))


def test_a_device_in_use_is_avoided_even_if_the_kubelet_offers_it() -> None:
    holder = pod("a", assignment=["A"])
    choice = choose(request(), view(holder, pod("2", assignment=["A"]), holdings=held(a="A")))
    assert (choice.verdict, choice.devices) == (Verdict.PARTLY_ASSIGNED, ("B",))


def test_an_offer_of_devices_in_use_alone_is_refused_with_their_holders_names() -> None:
    choice = choose(request(1, {"A"}), view(pod("a"), pod("2", assignment=["A"]), holdings=held(a="A")))
    assert choice.verdict is Verdict.REFUSED
    assert "other living pods hold: A (held by default/pod-a)" in choice.message


def test_too_few_free_devices_are_a_refusal_too() -> None:
    choice = choose(request(2, {"A", "B"}), view(pod("a"), pod("2", 2), holdings=held(a="A")))
    assert choice.verdict is Verdict.REFUSED


def test_devices_reused_from_an_init_container_identify_the_pod() -> None:
    shape = pod(
        "1",
        assignment={"setup": ["A"], "main": ["A", "B"]},
        init=(container("setup", 1),),
        app=(container("main", 2),),
    )
    rival = pod("2", 2, assignment=["C", "D"])
    holdings = PodDevices({("1", "setup"): frozenset({"A"})})
    choice = choose(request(2, ALL, "A"), view(shape, rival, holdings=holdings))
    assert (choice.verdict, choice.devices) == (Verdict.ASSIGNED, ("A", "B"))


def test_devices_that_were_chosen_by_numa_are_kept() -> None:
    choice = choose(request(2, ALL, "D"), view(pod("1", 2, assignment=["A", "B"])))
    assert (choice.verdict, choice.devices) == (Verdict.PARTLY_ASSIGNED, ("D", "A"))


def test_a_must_include_device_that_another_pod_holds_is_a_refusal() -> None:
    choice = choose(request(2, ALL, "A"), view(pod("a"), pod("2", 2), holdings=held(a="A")))
    assert choice.verdict is Verdict.REFUSED


@pytest.mark.parametrize("holdings", [held(a="A"), None])
def test_l6_where_the_pods_could_not_be_read_no_device_is_chosen(holdings: PodDevices | None) -> None:
    choice = choose(request(), NodeState(GPU, holdings, None))
    assert choice.devices == ()
    assert "create the pod again" in choice.message


def test_l6_no_device_is_chosen_for_one_of_several_bound_pods_if_one_has_an_assignment() -> None:
    bound = replace(view(pod("1", assignment=["C"]), pod("2")), from_watch=True)
    assert (choose(request(), bound).verdict, choose(request(), bound).devices) == (Verdict.AMBIGUOUS, ())
    unassigned = replace(view(pod("1"), pod("2")), from_watch=True)
    assert choose(request(), unassigned).devices == ("A",)


def test_without_a_checkpoint_the_only_pod_that_has_not_started_gets_what_was_assigned() -> None:
    runs, served = pod("1", assignment=["A"], started=True), pod("2", assignment=["B"])
    seen = NodeState(GPU, None, (runs, served, pod("3", assignment=["C"])))
    choice = choose(request(1, ALL - {"A", "B"}), seen)
    assert (choice.verdict, choice.devices) == (Verdict.ASSIGNED, ("C",))


def test_l6_without_a_checkpoint_nothing_is_guessed_where_something_was_assigned() -> None:
    two = NodeState(GPU, None, (pod("1", assignment=["A"]), pod("2", assignment=["B"])))
    assert (choose(request(), two).verdict, choose(request(), two).devices) == (Verdict.NO_CHECKPOINT, ())
    several = pod("1", assignment={"a": ["A"], "b": ["B"]}, app=(container("a", 1), container("b", 1)))
    assert choose(request(), NodeState(GPU, None, (several,))).devices == ()
    others = NodeState(GPU, None, (pod("1", 2, assignment=["A", "B"]),))
    assert choose(request(), others).devices == ("C",)


def test_remembered_pods_count_only_if_a_reused_device_identifies_them() -> None:
    shape = pod(
        "1",
        assignment={"setup": ["A"], "main": ["A", "B"]},
        init=(container("setup", 1),),
        app=(container("main", 2),),
    )
    holdings = PodDevices({("1", "setup"): frozenset({"A"})})
    proven = choose(request(2, ALL, "A"), view(shape, holdings=holdings, remembered=True))
    assert (proven.verdict, proven.devices) == (Verdict.ASSIGNED, ("A", "B"))
    stranger = choose(request(2, ALL, "D"), view(pod("2", 2, assignment=["B", "C"]), remembered=True))
    assert (stranger.verdict, stranger.devices) == (Verdict.PODS_UNAVAILABLE, ())


def test_pods_of_other_resources_are_not_candidates() -> None:
    other = replace(view(pod("1")), resource="nvidia.com/mig-1g.5gb")
    assert candidates(request(), other) == ()


def test_an_assignment_of_two_resources_is_kept_resource_by_resource() -> None:
    shape = pod("1", assignment=["MIG-1", "B"], app=(container("main", 1, slices=1),))
    choice = choose(request(), replace(view(shape), other_resources=frozenset({"MIG-1"})))
    assert (choice.verdict, choice.devices) == (Verdict.ASSIGNED, ("B",))


def test_a_device_that_a_pod_has_under_another_name_is_busy() -> None:
    holdings = PodDevices(others={"other": {("a", "main"): frozenset({"A"})}})
    choice = choose(request(), view(pod("a"), pod("1", assignment=["A"]), holdings=holdings))
    assert "A" not in choice.devices
    choice = choose(request(1, {"A"}), view(pod("a"), pod("1"), holdings=holdings))
    assert choice.verdict is Verdict.REFUSED
