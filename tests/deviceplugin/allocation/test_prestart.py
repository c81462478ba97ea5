"""The gate before every start of a container."""

import msgspec
import pytest

from cluster import names
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.prestart import StartDecision, StartVerdict, decide
from tests.deviceplugin.pods import container, held, pod

KNOWN = {uuid: Device(uuid=uuid, index=i, model="NVIDIA-A100") for i, uuid in enumerate("ABCD")}


def gate(
    devices: str,
    holdings: PodDevices | None,
    *pods: Pod,
    unseen: bool = False,
    known: dict[str, Device] = KNOWN,
) -> StartDecision:
    by_uid = None if unseen else {one.metadata.uid: one for one in pods}
    return decide(frozenset(devices.split()), holdings, by_uid, known)


def test_every_container_of_a_pod_that_reuses_devices_starts() -> None:
    shape = pod("a", assignment={"setup": ["A"], "main": ["A"]}, init=(container("setup", 1),))
    holdings = PodDevices({("a", "setup"): frozenset("A"), ("a", "main"): frozenset("A")})
    assert gate("A", holdings, shape) == StartDecision(StartVerdict.AS_ASSIGNED, "a")


def test_an_unseen_pod_starts_when_it_alone_has_the_devices() -> None:
    assert gate("A", held(a="A"), unseen=True).is_open


def test_without_a_checkpoint_the_kubelet_is_trusted() -> None:
    assert gate("A", None).gate is StartVerdict.UNCHECKED


def test_an_unhealthy_device_holds_the_container_back_with_its_reason() -> None:
    unhealthy = {**KNOWN, "A": msgspec.structs.replace(KNOWN["A"], health="unhealthy", reason="XID 79.")}
    decision = gate("A B", held(a="A B"), known=unhealthy)
    assert decision.gate is StartVerdict.UNHEALTHY
    assert not decision.is_open
    assert decision.message.startswith("GPU A is unhealthy: XID 79. The container starts when")


def test_an_unknown_device_holds_the_container_back() -> None:
    assert "GPU Z is not there any more" in gate("Z", held(a="Z")).message


def test_two_living_pods_with_one_device_are_both_held_back() -> None:
    decision = gate("A", held(a="A", b="A B"), pod("a"), pod("b", 2))
    assert decision.gate is StartVerdict.TWO_PODS
    assert "more than one pod (default/pod-a, default/pod-b)" in decision.message


def test_devices_that_match_no_checkpoint_entry_exactly_hold_the_container_back() -> None:
    assert gate("A", held(a="A B"), pod("a", 2)).gate is StartVerdict.UNKNOWN_POD


def test_an_empty_checkpoint_does_not_keep_a_container_from_starting() -> None:
    assert gate("A", PodDevices()).gate is StartVerdict.UNCHECKED
    foreign = PodDevices(others={"nvidia.com/other": {("a", "main"): frozenset({"B"})}})
    assert gate("A", foreign).gate is StartVerdict.UNKNOWN_POD


def test_a_model_that_the_pod_does_not_accept_holds_it_back() -> None:
    decision = gate("A", held(a="A"), pod("a", assignment=["B"], model="NVIDIA RTX A6000"))
    assert decision.gate is StartVerdict.WRONG_MODEL
    requested, given = (
        "asks for a GPU of model NVIDIA-RTX-A6000",
        "but the kubelet gave it GPU A, a NVIDIA-A100",
    )
    assert f"{requested}, {given}" in decision.message
    assert gate("A", held(a="A"), pod("a", assignment=["A"], model="NVIDIA A100")).is_open


def test_a_request_that_is_changed_later_does_not_hold_back_what_was_assigned() -> None:
    assert (
        gate("A", held(a="A"), pod("a", assignment=["A"], model="NVIDIA RTX A6000")).gate
        is StartVerdict.AS_ASSIGNED
    )


def test_an_assignment_of_two_resources_is_checked_resource_by_resource() -> None:
    known = {**KNOWN, "MIG-1": Device(uuid="MIG-1", index=0, model="NVIDIA-A100-MIG-1g.10gb", parent="D")}
    holdings = PodDevices({("a", "main"): frozenset({"A"})}, {"mig": {("a", "main"): frozenset({"MIG-1"})}})
    shape = pod("a", assignment=["A", "MIG-1"])
    decision = decide(frozenset("A"), holdings, {"a": shape}, known, other_resources=frozenset({"MIG-1"}))
    assert decision == StartDecision(StartVerdict.AS_ASSIGNED, "a")
    other = decide(frozenset("B"), held(a="B"), {"a": shape}, known, other_resources=frozenset({"MIG-1"}))
    assert other.gate is StartVerdict.OTHER_DEVICES


def test_a_device_that_two_pods_have_under_different_names_is_in_two_pods() -> None:
    holdings = PodDevices({("a", "main"): frozenset({"A"})}, {"mig": {("b", "main"): frozenset({"A"})}})
    pods = {"a": pod("a"), "b": pod("b")}
    assert decide(frozenset("A"), holdings, pods, KNOWN).gate is StartVerdict.TWO_PODS


# --- the message, and the container that it is about -------------------------------------------------

MANY = {f"GPU-{i}": Device(uuid=f"GPU-{i}", index=i, model="NVIDIA-A100", memory=40_960) for i in range(8)}
HOLDS_ALL = held(a=" ".join(MANY))


@pytest.mark.parametrize(
    ("reason", "reported"),
    [
        ("XID 79: the GPU has fallen off the bus.", "XID 79: the GPU has fallen off the bus"),
        ("too hot", "too hot"),
        (None, "no reason given"),
    ],
)
def test_the_first_of_many_unhealthy_devices_is_named_with_its_reason(
    reason: str | None, reported: str
) -> None:
    unhealthy = {
        uuid: msgspec.structs.replace(one, health="unhealthy", reason=reason) for uuid, one in MANY.items()
    }
    decision = gate(" ".join(MANY), HOLDS_ALL, pod("a", 8), known=unhealthy)
    assert decision == StartDecision(
        StartVerdict.UNHEALTHY,
        message=f"GPU GPU-0 is unhealthy: {reported}. The container starts when the GPU is healthy again;"
        " delete the pod to get another one.",
    )


def test_health_is_checked_before_the_checkpoint() -> None:
    """Where both are wrong, the reason that lasts is given."""
    assert gate("Z", None).gate is StartVerdict.UNHEALTHY


@pytest.mark.parametrize(
    ("key", "wanted", "criterion", "accepts"),
    [
        (names.MODEL, "NVIDIA A100", "", True),
        (names.MODEL, "NVIDIA H200", " of model NVIDIA-H200", False),
        (names.NOT_MODEL, "NVIDIA A100", " other than model NVIDIA-A100", False),
        (names.NOT_MODEL, "NVIDIA H200", "", True),
        (names.MIN_MEMORY, "40960", "", True),
        (names.MIN_MEMORY, "40961", " with at least 40961 MiB", False),
        (names.UUID, ", ".join(MANY), "", True),
        (names.UUID, "GPU-9", " among GPU-9", False),
        (names.NOT_UUID, "GPU-0", " not among GPU-0", False),
    ],
)
def test_other_devices_than_assigned_must_be_those_that_the_pod_accepts(
    key: str, wanted: str, criterion: str, *, accepts: bool
) -> None:
    picky = pod("a", 8, assignment=["GPU-9"])
    assert picky.metadata.annotations is not None
    picky.metadata.annotations[key] = wanted
    decision = gate(" ".join(MANY), HOLDS_ALL, picky, known=MANY)
    if accepts:
        assert decision.gate is StartVerdict.OTHER_DEVICES
    else:
        assert decision == StartDecision(
            StartVerdict.WRONG_MODEL,
            "a",
            f"Pod default/pod-a asks for a GPU{criterion}, but the kubelet gave it GPU GPU-0, a NVIDIA-A100. "
            "Delete the pod, so that it gets what it asks for.",
        )


def test_a_container_that_reuses_its_pod_s_assigned_devices_has_what_was_assigned() -> None:
    shape = pod("a", assignment={"setup": ["A"]}, init=(container("setup", 1),))
    holdings = PodDevices({("a", "setup"): frozenset("A"), ("a", "main"): frozenset("A")})
    assert gate("A", holdings, shape) == StartDecision(StartVerdict.AS_ASSIGNED, "a")


def test_neither_containers_nor_assignment_of_an_ended_pod_count() -> None:
    ended = pod("a", assignment={"old": ["A"]}, app=(container("old", 1),), phase="Failed")
    holdings = PodDevices({("a", "old"): frozenset("A"), ("b", "main"): frozenset("A")})
    decision = gate("A", holdings, ended, pod("b", assignment=["B"]))
    assert (decision.gate, decision.uid) == (StartVerdict.OTHER_DEVICES, "b")
    assert decision.message == "Container main of pod default/pod-b was assigned B and got A."


def test_a_container_is_reported_as_unassigned_if_only_another_has_an_assignment() -> None:
    shape = pod("a", assignment={"side": ["B"]}, app=(container("main", 1), container("side", 1)))
    decision = gate("A", held(a="A"), shape)
    assert decision.message == "Container main of pod default/pod-a was assigned nothing and got A."


@pytest.mark.parametrize(
    ("pods", "who"),
    [
        ((pod("a"), pod("b"), pod("c", phase="Succeeded")), "default/pod-a, default/pod-b"),
        ((pod("a"), pod("b"), pod("c")), "default/pod-a, default/pod-b, default/pod-c"),
        (None, "uid a, uid b, uid c"),
    ],
    ids=["one has ended", "all are alive", "none can be seen"],
)
def test_only_holders_that_may_be_alive_are_named(pods: tuple[Pod, ...] | None, who: str) -> None:
    decision = gate("A", held(a="A", b="A", c="A"), *(pods or ()), unseen=pods is None)
    assert decision.message == (
        f"The kubelet has given A to more than one pod ({who})."
        " A GPU belongs to one pod at a time: delete one of them."
    )


def test_a_container_waits_for_its_own_checkpoint_entry_where_every_holder_has_ended() -> None:
    """The kubelet writes the entry of the pod that starts before it asks."""
    ended = (pod("a", phase="Failed"), pod("b", phase="Succeeded"))
    decision = gate("A", held(a="A", b="A"), *ended)
    assert decision == StartDecision(
        StartVerdict.UNKNOWN_POD,
        message="No pod has exactly A in the kubelet's checkpoint."
        " The container starts as soon as its devices are recorded.",
    )


@pytest.mark.parametrize(
    ("verdict", "opens"),
    [
        (StartVerdict.AS_ASSIGNED, True),
        (StartVerdict.OTHER_DEVICES, True),
        (StartVerdict.UNASSIGNED, True),
        (StartVerdict.UNCHECKED, True),
        (StartVerdict.UNHEALTHY, False),
        (StartVerdict.TWO_PODS, False),
        (StartVerdict.UNKNOWN_POD, False),
        (StartVerdict.WRONG_MODEL, False),
    ],
)
def test_only_certain_verdicts_close_the_gate(verdict: StartVerdict, *, opens: bool) -> None:
    assert StartDecision(verdict).is_open is opens
