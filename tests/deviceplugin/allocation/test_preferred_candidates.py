"""Which pod is being admitted: several that match, containers with several requests, doubtful knowledge."""

from dataclasses import replace

import pytest

from cluster.objects.pods import Container, Pod, Resources
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.preferred import (
    AllocationRequest,
    NodeState,
    Verdict,
    candidates,
    choose,
)
from tests.deviceplugin.pods import GPU, MIG, container, held, pod, view

ALL = frozenset("ABCD")


UNKNOWN = (
    "The pods of this node could not be read, so it is unknown which pod is being admitted and which devices"
    " were assigned to it; create the pod again."
)


def request(size: int = 1, available: str = "ABCD", must: str = "") -> AllocationRequest:
    return AllocationRequest(frozenset(available), frozenset(must), size)


TWO_CONTAINERS = pod(
    "1", assignment={"main": ["D"], "side": ["B", "C"]}, app=(container("main", 1), container("side", 2))
)
MIXED = pod("1", assignment=["A", "M"], app=(container("main", 1, slices=1),))
"""One container that asks for a GPU and for a MIG device."""
UNREADABLE = pod("u", app=(Container(name="main", resources=Resources(limits={GPU: "half"})),))


def test_the_first_container_of_a_pod_without_devices_is_the_waiting_one() -> None:
    seen = view(TWO_CONTAINERS)
    assert candidates(request(2), seen) == ()
    (waiting,) = candidates(request(1), seen)
    assert (waiting.uid, waiting.container, waiting.count) == ("1", "main", 1)
    (waiting,) = candidates(request(2), view(TWO_CONTAINERS, holdings=held(**{"1": "D"})))
    assert waiting.container == "side"


def test_devices_assigned_to_a_later_container_are_kept_from_other_pods() -> None:
    assert choose(request(3), view(TWO_CONTAINERS, pod("2", 3))).devices == ("A", "B", "C")


def test_devices_assigned_to_a_later_container_are_kept_from_its_own_pod_too() -> None:
    choice = choose(request(1, "ABC"), view(TWO_CONTAINERS))
    assert (choice.verdict, choice.devices) == (Verdict.PARTLY_ASSIGNED, ("A",))


@pytest.mark.parametrize(
    ("resource", "holdings", "waits"),
    [
        (GPU, PodDevices(), True),
        (GPU, PodDevices({("1", "main"): frozenset("A")}), False),
        (GPU, PodDevices({}, {MIG: {("1", "main"): frozenset("M")}}), True),
        (MIG, PodDevices({}, {GPU: {("1", "main"): frozenset("A")}}), True),
        (MIG, PodDevices({("1", "main"): frozenset("M")}), False),
    ],
)
def test_a_container_with_two_requests_waits_for_each_until_that_one_is_served(
    resource: str, holdings: PodDevices, *, waits: bool
) -> None:
    seen = NodeState(resource, holdings, (MIXED,))
    assert [waiting.uid for waiting in candidates(request(), seen)] == ["1"] * waits


def test_a_pod_with_unreadable_amounts_waits_for_nothing() -> None:
    seen = view(UNREADABLE, pod("2", assignment=["B"]))
    assert [waiting.uid for waiting in candidates(request(), seen)] == ["2"]
    assert choose(request(), seen).devices == ("B",)


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        ((pod("1"), pod("2"), pod("3", 2)), "1 2"),
        ((pod("1"), pod("2", started=True)), "1"),
        ((pod("1", started=True),), "1"),
        ((pod("1", started=True), pod("2", started=True)), ""),
        ((pod("1"), pod("2", started=True), pod("3")), "1 3"),
    ],
    ids=["two", "one has started", "the only one has started", "both have started", "two of three"],
)
def test_started_pods_are_excluded_where_several_match(pods: tuple[Pod, ...], found: str) -> None:
    assert [waiting.uid for waiting in candidates(request(), view(*pods))] == found.split()


def test_a_pod_without_a_must_include_device_is_excluded_where_another_pod_has_one() -> None:
    takes_over = pod("1", init=(container("setup", 1),))
    holdings = PodDevices({("1", "setup"): frozenset("A")})
    seen = view(takes_over, pod("2"), pod("3"), holdings=holdings)
    assert [waiting.uid for waiting in candidates(request(must="A"), seen)] == ["1"]
    assert [waiting.uid for waiting in candidates(request(must="B"), seen)] == ["1", "2", "3"]


def test_of_several_matching_pods_without_an_assignment_each_gets_devices_of_nobody() -> None:
    seen = view(pod("1"), pod("2"), pod("3", 2, assignment=["A", "C"]))
    choice = choose(request(), seen)
    assert (choice.verdict, choice.devices, choice.pod) == (Verdict.AMBIGUOUS, ("B",), None)
    assert choice.has_candidate


@pytest.mark.parametrize(
    ("seconds", "bindings", "found"),
    [
        ((0, 1), {"1": (7, 7), "2": (8, 8)}, ["2"]),
        ((0, 1), {"1": (0, 7), "2": (8, 8)}, ["2"]),
        ((0, 1), {"1": (0, 9), "2": (8, 8)}, ["1", "2"]),
        ((0, 1), {"1": (7, 7), "2": (0, 8)}, ["1", "2"]),
        ((0, 1), {"2": (8, 8)}, ["1", "2"]),
        ((0, 0), {"1": (7, 7), "2": (8, 8)}, ["1", "2"]),
        ((1, 0), {"1": (7, 7), "2": (8, 8)}, ["1", "2"]),
    ],
)
def test_the_pod_that_was_created_and_bound_after_all_others_is_being_admitted(
    seconds: tuple[int, int], bindings: dict[str, tuple[int, int]], found: list[str]
) -> None:
    """Before Kubernetes 1.34 a kubelet lists pods that it has rejected, and their status may come late."""
    pods = (pod(uid, created=second) for uid, second in zip("12", seconds, strict=True))
    seen = replace(view(*pods), bindings=bindings)
    assert [waiting.uid for waiting in candidates(request(), seen)] == found


@pytest.mark.parametrize(
    ("state", "verdict", "message"),
    [
        (
            NodeState(GPU, None, (pod("1"), pod("2"))),
            Verdict.NO_CHECKPOINT,
            "The kubelet's checkpoint could not be read, so the pod that is being admitted is unknown.",
        ),
        (
            NodeState(GPU, PodDevices(), None),
            Verdict.PODS_UNAVAILABLE,
            UNKNOWN,
        ),
        (
            view(pod("1"), remembered=True),
            Verdict.PODS_UNAVAILABLE,
            UNKNOWN,
        ),
        (
            view(pod("1", 2)),
            Verdict.NO_MATCH,
            "The pod that is being admitted is unknown; waiting for 1 devices: none.",
        ),
        (
            view(pod("1"), pod("2")),
            Verdict.AMBIGUOUS,
            "The pod that is being admitted is unknown; waiting for 1 devices: default/pod-1, default/pod-2.",
        ),
        (
            view(pod("1")),
            Verdict.UNASSIGNED,
            "Container main of pod default/pod-1 was assigned no devices; it is offered A.",
        ),
    ],
)
def test_every_answer_that_is_not_the_assignment_is_explained(
    state: NodeState, verdict: Verdict, message: str
) -> None:
    choice = choose(request(), state)
    assert (choice.verdict, choice.message) == (verdict, message)
    assert len(choice.devices) == (verdict is not Verdict.PODS_UNAVAILABLE)
    assert choice.has_candidate is (verdict in {Verdict.AMBIGUOUS, Verdict.UNASSIGNED, Verdict.NO_CHECKPOINT})


def test_pods_of_our_own_watch_make_a_device_avoided_but_do_not_refuse_a_pod() -> None:
    """Our watch may show the end of the holder late, and a refusal is final."""
    seen = view(pod("a"), pod("2", assignment=["A"]), holdings=held(a="A"))
    watched = replace(seen, from_watch=True)
    assert choose(request(1, "AB"), watched).devices == ("B",)
    assert choose(request(1, "A"), seen).verdict is Verdict.REFUSED
    choice = choose(request(1, "A"), watched)
    assert (choice.verdict, choice.devices, choice.busy) == (Verdict.ASSIGNED, ("A",), frozenset())


def test_no_pod_is_refused_for_a_must_include_device_because_of_our_own_watch() -> None:
    seen = view(pod("a"), pod("2", 2), holdings=held(a="A"))
    assert choose(request(2, must="A"), seen).verdict is Verdict.REFUSED
    choice = choose(request(2, must="A"), replace(seen, from_watch=True))
    assert (choice.verdict, choice.devices) == (Verdict.UNASSIGNED, ("A", "B"))


def test_a_refusal_names_only_the_offered_devices_of_their_holder() -> None:
    choice = choose(request(1, "A"), view(pod("a", 2), pod("2"), holdings=held(a="A C")))
    assert choice.message.startswith(
        "The kubelet offers devices that other living pods hold: A (held by default/pod-a)."
    )
    assert (choice.devices, choice.busy, choice.has_candidate) == ((), {"A"}, True)
