"""What is written on a pod, and what of it counts."""

import pytest

from cluster import names
from cluster.decide.ledger import WHOLE, Holding, Ledger
from cluster.decide.ledger.holdings import (
    PodHoldings,
    as_reported,
    assigned_devices,
    holding_with,
    holdings,
    on_known_devices,
)
from cluster.decide.ledger.view import NodeView
from tests.cluster.decide.ledger.test_ledger import G0, G1, G2, G3, a_ledger
from tests.fakes.objects import PodBuilder, a100, a_node, a_pod


def test_a_pod_that_names_a_device_that_the_node_lacks_holds_an_unknown_one() -> None:
    ledger = a_ledger()

    ledger.apply_pod(a_pod().asks(2).on("n0", {"main": (G0, "GPU-lost")}).obj)

    assert ledger.view("n0").held == {G0: WHOLE, "GPU-lost": WHOLE}
    assert ledger.view("n0").unknown == {names.GPU_RESOURCE: 1}


def test_an_assignment_is_believed_while_the_devices_of_the_node_are_unknown() -> None:
    ledger = Ledger()

    ledger.apply_pod(a_pod().asks(1).on("n0", {"main": (G0,)}).obj)
    assert ledger.view("n0").held == {G0: WHOLE}

    ledger.apply_node(a_node("n0", a100(0), a100(1)))
    assert ledger.view("n0").held == {G0: WHOLE}
    assert ledger.view("n0").unknown == {}


@pytest.mark.parametrize(
    ("builder", "held", "unknown"),
    [
        (a_pod(), {}, {}),
        (a_pod().asks(1), {G0: WHOLE}, {}),
        (a_pod().asks(1, container="other"), {}, {names.GPU_RESOURCE: 1}),
        (a_pod().asks(2), {G0: WHOLE, G1: WHOLE}, {}),
    ],
    ids=["asks for none", "asks for one", "names another container", "asks for two"],
)
def test_l1_an_assignment_counts_only_up_to_what_each_container_asks_for(
    builder: PodBuilder, held: dict[str, int], unknown: dict[str, int]
) -> None:
    """A pod that asks for no GPU must not take a node's GPUs, whoever wrote the annotation."""
    ledger = a_ledger()

    ledger.apply_pod(builder.on("n0", {"main": (G0, G0, G1, G2, G3)}).obj)

    view = ledger.view("n0")
    assert (view.held, view.unknown) == (held, unknown)


ALL = (G0, G1, G2, G3)
MIG, OTHER = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"


@pytest.mark.parametrize(
    ("builder", "assignment", "held"),
    [
        (
            a_pod().init("a", 1).init("b", 1).init("c", 1).asks(1),
            {"a": (G0,), "b": (G1,), "c": (G2,), "main": (G3,)},
            {G0},
        ),
        (a_pod().init("a", 1).init("b", 2).asks(1), {"main": (G3,), "b": (G1, G2), "a": (G0,)}, {G0, G1}),
        (a_pod().init("a", 2).asks(2), {"a": (G0, G1), "main": (G2, G3)}, {G0, G1}),
        (a_pod().sidecar("a", 1).init("b", 1).asks(1), {"a": (G0,), "b": (G1,), "main": (G2,)}, {G0, G1}),
        (a_pod().init("a", 1).sidecar("b", 1).asks(1), {"a": (G0,), "b": (G0,), "main": (G2,)}, {G0, G2}),
        (a_pod().asks(1, container="x").asks(1, container="y"), {"x": ALL, "y": ALL[1:]}, {G0, G1}),
    ],
    ids=[
        "init containers hand on what they have",
        "the most that one init container asks for",
        "all that an init container has is handed on",
        "a sidecar keeps its own",
        "a sidecar takes what is handed on, and keeps it",
        "app containers have their own",
    ],
)
def test_l1_an_assignment_counts_up_to_what_the_pod_can_hold_in_all(
    builder: PodBuilder, assignment: dict[str, tuple[str, ...]], held: set[str]
) -> None:
    ledger = a_ledger()

    ledger.apply_pod(builder.on("n0", assignment).obj)

    assert _held(ledger.view("n0")) == (held, {})


@pytest.mark.parametrize(
    ("builder", "uuids", "held", "unknown"),
    [
        (a_pod().asks(1, resource=MIG), (G1,), set(), {MIG: 1}),
        (a_pod().asks(1, resource=MIG).asks(1), (G1, "MIG-a"), {G1, "MIG-a"}, {}),
        (a_pod().asks(1, resource=MIG).asks(1), (G1, G2), {G1}, {MIG: 1}),
        (a_pod().asks(1), ("MIG-a",), {"MIG-a"}, {}),
        (a_pod().asks(1, resource=OTHER), ("MIG-a",), set(), {OTHER: 1}),
    ],
    ids=[
        "a GPU for a MIG device",
        "one of each",
        "two GPUs for one of each",
        "a MIG device for a GPU, as where the node's strategy was another",
        "a MIG device of another profile",
    ],
)
def test_l1_an_assignment_counts_only_for_the_resource_asked_for(
    builder: PodBuilder, uuids: tuple[str, ...], held: set[str], unknown: dict[str, int]
) -> None:
    """No pod gets a GPU by asking for a MIG device."""
    ledger = Ledger()
    cut = a100(3, uuid="MIG-a", model="1g.10gb", parent=G0, profile="1g.10gb")
    ledger.apply_node(a_node("n0", a100(0), a100(1), a100(2), cut))

    ledger.apply_pod(builder.on("n0", {"main": uuids}).obj)

    assert _held(ledger.view("n0")) == (held, unknown)


def _held(view: NodeView) -> tuple[set[str], dict[str, int]]:
    return set(view.held), view.unknown


# --- one holding by itself ---------------------------------------------------------------------------

GPU = names.GPU_RESOURCE
CUT = a100(3, uuid="MIG-a", model="1g.10gb", parent=G3, profile="1g.10gb")
DEVICES = {device.uuid: device for device in (a100(0), a100(1), CUT)}


def holding(*uuids: str, unknown: dict[str, int] | None = None, **requested: int) -> PodHoldings:
    named = {GPU if name == "gpu" else MIG: number for name, number in requested.items()}
    held = {uuid: Holding(uuid) for uuid in uuids}
    return PodHoldings(uid="uid-p", node="n0", devices=held, requested=named, unknown=unknown or {})


@pytest.mark.parametrize(
    "builder",
    [
        a_pod().asks(1),
        a_pod().on("n0"),
        a_pod().asks(1).on("n0").ended("Succeeded"),
        a_pod().asks(1).on("n0").ended("Failed"),
        a_pod().needing(**{GPU: "lots"}).on("n0"),
    ],
    ids=["waiting", "asks for none", "succeeded", "failed", "an amount that cannot be read"],
)
def test_a_pod_that_holds_nothing_has_no_holding(builder: PodBuilder) -> None:
    assert assigned_devices(builder.obj) is None


def test_a_bound_pod_without_an_assignment_is_known_by_its_own_uid() -> None:
    assert assigned_devices(a_pod().asks(2).on("n0").obj) == PodHoldings(
        uid="uid-p", node="n0", devices={}, requested={GPU: 2}, unknown={GPU: 2}, known_as="uid-p"
    )


def test_the_devices_of_all_containers_are_held_once_whole_and_in_order() -> None:
    found = holding_with("uid-p", "n0", {"b": (G1, G0), "a": (G2, G1)})

    assert list(found.devices.items()) == [(uuid, Holding(uuid)) for uuid in (G0, G1, G2)]


@pytest.mark.parametrize(
    ("before", "held", "unknown"),
    [
        (holding(G0, gpu=1), [G0], {}),
        (holding(G0, G1, gpu=1), [G0], {}),
        (holding(G0, gpu=2), [G0], {GPU: 1}),
        (holding(G0, mig=1), [], {MIG: 1}),
        (holding("GPU-lost", gpu=1), ["GPU-lost"], {GPU: 1}),
        (holding("GPU-lost", G0, gpu=1), ["GPU-lost", G0], {}),
        (holding("MIG-a", G0, gpu=1, mig=1), ["MIG-a", G0], {}),
        (holding("MIG-a", G0, gpu=1), [G0], {}),
        (holding("MIG-a", gpu=1, mig=1), ["MIG-a"], {GPU: 1}),
        (holding(G0, G1), [G0, G1], {}),
    ],
    ids=[
        "what it asks for",
        "more than it asks for",
        "less than it asks for",
        "another resource than it asks for",
        "one that the node does not have",
        "one that the node does not have counts in addition to the request",
        "a MIG device leaves the GPU that is asked for to the GPU",
        "a GPU is counted before a MIG device",
        "a MIG device counts as one first",
        "nothing is known of what it asks for",
    ],
)
def test_l1_where_devices_are_known_a_pod_holds_only_what_it_can_have_been_given(
    before: PodHoldings, held: list[str], unknown: dict[str, int]
) -> None:
    after = on_known_devices(before, DEVICES)

    assert (list(after.devices), after.unknown) == (held, unknown)
    assert set(after.devices.values()) == {Holding(uuid) for uuid in held}


@pytest.mark.parametrize("before", [holding(G0, gpu=1), holding(G0), holding("MIG-a", G0, gpu=1, mig=1)])
def test_a_holding_that_needs_no_correction_is_the_same_object(before: PodHoldings) -> None:
    assert on_known_devices(before, DEVICES) is before


@pytest.mark.parametrize(
    ("before", "reported", "unknown"),
    [
        (holding(gpu=1, unknown={GPU: 1}), (G0,), {}),
        (holding(gpu=2, unknown={GPU: 2}), (G0,), {GPU: 1}),
        (holding(gpu=1, unknown={GPU: 1}), (G0, G1), {}),
        (holding(mig=2, unknown={MIG: 2}), ("MIG-a",), {MIG: 1}),
        (holding(gpu=1, mig=1, unknown={GPU: 1, MIG: 1}), ("MIG-a",), {GPU: 1}),
        (holding(gpu=2, unknown={GPU: 2}), ("GPU-lost",), {GPU: 1}),
        (holding(G1, gpu=1), (G0,), {}),
    ],
    ids=[
        "all",
        "one of two",
        "more than is unknown",
        "a MIG device",
        "one of each kind",
        "one that the node does not have is a GPU",
        "another than was intended",
    ],
)
def test_devices_that_the_agent_reports_are_held_and_no_longer_unknown(
    before: PodHoldings, reported: tuple[str, ...], unknown: dict[str, int]
) -> None:
    after = as_reported(before, {"uid-p": {"main": reported}}, DEVICES)

    assert (set(after.devices), after.unknown) == (set(reported), unknown)


def test_a_report_of_the_agent_about_another_pod_changes_nothing() -> None:
    before = holding(G0, gpu=1)

    assert as_reported(before, {"uid-q": {"main": (G1,)}}, DEVICES) is before


def test_what_a_pod_holds_by_several_sources_adds_up() -> None:
    pod = a_pod().asks(1).on("n0", {"main": (G0,)}).obj
    claimed = PodHoldings("uid-p", "n0", {G1: Holding(G1)}, requested={MIG: 1}, unknown={MIG: 1})

    found = holdings(pod, (assigned_devices, lambda _: claimed, lambda _: None))

    assert found == PodHoldings(
        "uid-p",
        "n0",
        {G0: Holding(G0), G1: Holding(G1)},
        requested={GPU: 1, MIG: 1},
        unknown={MIG: 1},
    )
    assert holdings(pod, ()) is None
