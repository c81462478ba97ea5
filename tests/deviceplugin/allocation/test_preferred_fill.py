"""Which devices fill the answer: must-include first, then the assignment, then what harms others least."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from cluster.objects.inventory import Device
from deviceplugin.allocation.best_effort import best_effort
from deviceplugin.allocation.link_scores import scores
from deviceplugin.allocation.preferred import AllocationRequest, NodeState, Verdict, choose
from tests.deviceplugin.pods import held, pod, view


def request(size: int, available: str = "ABCD", must: str = "") -> AllocationRequest:
    return AllocationRequest(frozenset(available), frozenset(must), size)


@dataclass
class Picks:
    """Takes the last devices, and keeps what it was asked."""

    calls: list[tuple[str, str, int]] = field(default_factory=list)

    def __call__(self, free: Sequence[str], taken: frozenset[str], count: int) -> Sequence[str]:
        self.calls.append(("".join(free), "".join(sorted(taken)), count))
        return free[-count:]


@pytest.mark.parametrize(("size", "devices"), [(1, "D"), (2, "DC"), (3, "DCB"), (4, "DCBA")])
def test_free_devices_come_first_then_assigned_then_in_use_then_both(size: int, devices: str) -> None:
    """D is free, C is assigned to a pod that waits, B is in use, and A is in use and assigned."""
    waits = pod("w", 9, assignment=["A", "C"])
    seen = view(pod("a", 2), waits, holdings=held(a="A B"))
    choice = choose(request(size), replace(seen, from_watch=True))
    assert (choice.verdict, "".join(choice.devices)) == (Verdict.NO_MATCH, devices)


@pytest.mark.parametrize(
    ("size", "must", "assignment", "devices", "verdict"),
    [
        (1, "D", [], "D", Verdict.UNASSIGNED),
        (2, "D", [], "DA", Verdict.UNASSIGNED),
        (3, "A", [], "ABC", Verdict.UNASSIGNED),
        (4, "D", ["C"], "DCAB", Verdict.PARTLY_ASSIGNED),
        (2, "B", ["B", "D"], "BD", Verdict.ASSIGNED),
        (2, "BD", ["D", "B"], "BD", Verdict.ASSIGNED),
        (1, "D", ["A"], "D", Verdict.PARTLY_ASSIGNED),
    ],
)
def test_must_include_comes_first_then_the_assignment_and_nothing_twice(
    size: int, must: str, assignment: list[str], devices: str, verdict: Verdict
) -> None:
    choice = choose(request(size, must=must), view(pod("1", size, assignment=assignment)))
    assert ("".join(choice.devices), choice.verdict) == (devices, verdict)


def test_the_pick_is_asked_for_the_missing_number_the_remaining_and_the_chosen_devices() -> None:
    picks = Picks()
    seen = replace(view(pod("1", 3, assignment=["B"]), pod("w", 9, assignment=["E"])), pick=picks)
    choice = choose(request(3, "ABCDEF", must="C"), seen)
    assert picks.calls == [("ADF", "BC", 1)]
    assert choice.devices == ("C", "B", "F")


def test_the_pick_is_not_asked_where_there_is_nothing_to_choose() -> None:
    picks = Picks()
    seen = replace(view(pod("1", 2), pod("w", 9, assignment=["C", "D"])), pick=picks)
    assert choose(request(2), seen).devices == ("A", "B")
    assert picks.calls == []


def test_a_tier_that_is_too_small_is_taken_whole_and_the_pick_chooses_in_the_next() -> None:
    picks = Picks()
    seen = replace(view(pod("1", 2), pod("w", 9, assignment=["A", "B", "C"])), pick=picks)
    assert choose(request(2), seen).devices == ("D", "C")
    assert picks.calls == [("ABC", "D", 1)]


# --- NVLink ------------------------------------------------------------------------------------------

PAIRS = {"A": "C", "C": "A", "B": "D", "D": "B"}
"""GPU -> the one that it has an NVLink to."""
LINKED = partial(
    best_effort,
    scores([Device(uuid=one, index=i, model="X", links={PAIRS[one]: 4}) for i, one in enumerate("ABCD")], {}),
)


def linked(state: NodeState) -> NodeState:
    return replace(state, pick=LINKED)


@pytest.mark.parametrize(
    ("assigned", "available", "must", "devices"),
    [
        ("", "ABCD", "", "AC"),
        ("A", "ABCD", "", "BD"),
        ("B", "ABCD", "", "AC"),
        ("", "DAB", "", "BD"),
        ("", "ABCD", "D", "DB"),
        ("C", "ABCD", "A", "AB"),
        ("CD", "ABCD", "", "AB"),
        ("BCD", "ABCD", "", "AC"),
    ],
    ids=[
        "all are free",
        "one of a pair is assigned",
        "one of the other is",
        "one is not offered",
        "one is chosen already",
        "its partner is assigned to another pod",
        "links are no reason to take what is assigned",
        "in a shortage the assigned one that is linked",
    ],
)
def test_a_container_without_assignment_gets_linked_gpus_among_the_unassigned_ones(
    assigned: str, available: str, must: str, devices: str
) -> None:
    waits = pod("w", 9, assignment=list(assigned))
    choice = choose(request(2, available, must), linked(view(pod("1", 2), waits)))
    assert (choice.verdict, "".join(choice.devices)) == (Verdict.UNASSIGNED, devices)


def test_an_assignment_that_is_partly_gone_is_completed_by_a_gpu_linked_to_the_rest() -> None:
    choice = choose(request(2, "DAB"), linked(view(pod("1", 2, assignment=["C", "D"]))))
    assert (choice.verdict, choice.devices) == (Verdict.PARTLY_ASSIGNED, ("D", "B"))
    assert choice.message == "Container main of pod default/pod-1 was assigned C, D, but is offered D, B."
