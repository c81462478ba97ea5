"""What a bind decides, what it counts in the ledger meanwhile, and when that is taken back."""

from collections.abc import Callable

import msgspec
import pytest

from cluster import names
from cluster.decide.ledger import WHOLE, AssumedBind, Holding
from cluster.decide.ledger.amounts import Uses
from cluster.kube.resources import NODES
from cluster.objects.claims import PodClaims
from cluster.objects.pods import ClaimReference, Pod
from extender.binding.bind_decision import AwaitsKubeletError, BindDecisions, BindError, Decision, binding
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a_lease, a_node, a_pod

HELD = {"GPU-n0-0": WHOLE}


class Deciding:
    """Two nodes of two A100 each, and decisions of which none is posted."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        for node in ("n0", "n1"):
            self.cluster.add_node(node, a100(0, node), a100(1, node))
        self.decisions = BindDecisions(self.cluster.state, self.cluster.clock)

    def pod(self, name: str = "p", gpus: int = 1) -> Pod:
        return self.cluster.create(a_pod(name).asks(gpus))

    def made(self, pod: Pod, node: str = "n0") -> Decision:
        return self.decisions.make(pod, node)

    def refused(self, pod: Pod, node: str = "n0") -> str:
        with pytest.raises(BindError) as refusal:
            self.made(pod, node)
        return str(refusal.value)

    def assumed(self, uid: str = "uid-p") -> AssumedBind | None:
        with self.cluster.state.locked() as ledger:
            return ledger.assumption(uid)

    @property
    def held(self) -> Uses:
        return self.cluster.view().held


@pytest.fixture
def deciding() -> Deciding:
    return Deciding()


# --- the body --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pod", "assignment", "annotations"),
    [
        (a_pod(), {}, None),
        (a_pod().asks(1), {"main": ("GPU-1",)}, {names.ASSIGNED: '{"main":["GPU-1"]}'}),
        (a_pod().kept("n0", "GPU-1"), {}, {names.HOLD: ""}),
        (
            a_pod().asks(1).with_annotation(names.BARRED, "n1").with_annotation(names.BUDGETS_SINCE, "x"),
            {"main": ("GPU-1",)},
            {names.BARRED: "", names.BUDGETS_SINCE: "", names.ASSIGNED: '{"main":["GPU-1"]}'},
        ),
        (a_pod().with_annotation(names.HOLD, ""), {}, None),
        (a_pod().with_annotation(names.MODEL, A100).of("alice"), {}, None),
    ],
    ids=["nothing", "devices", "a hold", "all that it waited with", "a hold that is empty", "the user's own"],
)
def test_a_binding_writes_the_devices_and_clears_the_annotations_of_the_pod_s_wait(
    pod: PodBuilder, assignment: dict[str, tuple[str, ...]], annotations: dict[str, str] | None
) -> None:
    body = binding(AssumedBind(pod=pod.obj, node="n0", assignment=assignment))
    assert body["metadata"].get("annotations") == annotations
    assert body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "n0"}


def test_a_binding_is_valid_only_for_the_pod_and_version_that_was_decided_on() -> None:
    pod = a_pod().at(41).obj
    body = binding(AssumedBind(pod=pod, node="n0", assignment={}))
    assert body["metadata"] == {
        "name": "p",
        "namespace": "default",
        "uid": "uid-p",
        "resourceVersion": "41",
    }


def test_of_a_pod_that_admission_did_not_know_to_be_for_gpus_the_binding_says_so() -> None:
    pod = a_pod().obj
    spec = msgspec.structs.replace(pod.spec, resource_claims=(ClaimReference(name="gpu"),))
    late = msgspec.structs.replace(pod, spec=spec, claims=PodClaims(count=1))
    body = binding(AssumedBind(pod=late, node="n0", assignment={}))
    assert body["metadata"]["annotations"] == {names.ASSIGNED: "{}"}
    others = msgspec.structs.replace(late, claims=None)
    assert "annotations" not in binding(AssumedBind(pod=others, node="n0", assignment={}))["metadata"]


# --- a decision ------------------------------------------------------------------------------------------


def test_a_decision_counts_before_anything_is_posted(deciding: Deciding) -> None:
    decision = deciding.made(deciding.pod())
    assert (decision.assumed.node, decision.assumed.assignment) == ("n0", {"main": ("GPU-n0-0",)})
    assert deciding.held == HELD
    assert not decision.was_posted
    assert deciding.cluster.kube.calls == []


def test_a_decision_counts_from_now_or_from_the_decision_that_it_repeats(deciding: Deciding) -> None:
    deciding.cluster.clock.advance(7)
    assert deciding.made(deciding.pod()).made_at == 7
    assert deciding.decisions.make(deciding.pod("q"), "n1", counts_from=5.5).made_at == 5.5


def test_a_decision_ends_the_soft_reservation_of_its_pod_and_of_no_other(deciding: Deciding) -> None:
    soft = deciding.cluster.state.soft
    pod = deciding.pod()
    for uid in ("uid-p", "uid-q"):
        soft.reserve(uid, "n1", (Holding(f"GPU-of-{uid}"),))
    deciding.made(pod)
    assert soft.of_others("uid-r") == {"n1": (Holding("GPU-of-uid-q"),)}


def test_l1_the_first_of_two_pods_has_the_last_device_until_its_decision_is_taken_back(
    deciding: Deciding,
) -> None:
    deciding.cluster.create(a_pod("there").asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    first, second = deciding.pod("first"), deciding.pod("second")
    deciding.cluster.take("there")
    assert deciding.made(first).assumed.assignment == {"main": ("GPU-n0-1",)}
    message = "The pod no longer fits on node n0: not enough GPUs on this node are free."
    assert deciding.refused(second) == message

    deciding.decisions.take_back("uid-first")

    assert deciding.made(second).assumed.assignment == {"main": ("GPU-n0-1",)}
    assert deciding.refused(first) == message


def test_l1_all_devices_of_a_pod_are_given_or_none(deciding: Deciding) -> None:
    deciding.cluster.create(a_pod("there").asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    before = deciding.held
    deciding.refused(deciding.pod(gpus=2))
    assert deciding.held == before
    assert deciding.assumed() is None


def _delete_the_node(cluster: Cluster) -> None:
    cluster.state.of(NODES).remove(cluster.state.nodes["n0"])


def _lose_the_lease(cluster: Cluster) -> None:
    cluster.leases.remove(a_lease("n0", version=99))


def _stop(cluster: Cluster) -> None:
    cluster.leases.upsert(a_lease("n0", renewed=cluster.clock.now(), version=99, stopping=True))


def _stop_renewing(cluster: Cluster) -> None:
    cluster.clock.advance(75)


def _become_unhealthy(cluster: Cluster) -> None:
    cluster.add_node("n0", *(a100(index, health="unhealthy") for index in range(2)))


def _be_cordoned(cluster: Cluster) -> None:
    node = a_node("n0", a100(0), a100(1))
    meta = msgspec.structs.replace(node.metadata, resource_version="99")
    spec = msgspec.structs.replace(node.spec, unschedulable=True)
    cluster.nodes.upsert(msgspec.structs.replace(node, metadata=meta, spec=spec))


def _report_fewer(cluster: Cluster) -> None:
    node = a_node("n0", a100(0), a100(1), version=99)
    status = msgspec.structs.replace(node.status, allocatable={names.GPU_RESOURCE: "1"})
    cluster.nodes.upsert(msgspec.structs.replace(node, status=status))


def _write_unreadable_drift(cluster: Cluster) -> None:
    cluster.nodes.upsert(a_node("n0", a100(0), version=99, drift="?"))


def _keep_for_another(cluster: Cluster) -> None:
    cluster.create(a_pod("booked").asks(2).kept("n0", "GPU-n0-0", "GPU-n0-1"))


HAPPENINGS = {
    "has not published its GPUs": _delete_the_node,
    "has not reported yet": _lose_the_lease,
    "is stopping": _stop,
    "is unresponsive": _stop_renewing,
    "are healthy": _become_unhealthy,
    "is cordoned": _be_cordoned,
    "reports fewer allocatable GPUs than its agent has": _report_fewer,
    "drift": _write_unreadable_drift,
    "are kept for another pod": _keep_for_another,
}


@pytest.mark.parametrize(
    ("reason", "happen"), HAPPENINGS.items(), ids=[h.__name__ for h in HAPPENINGS.values()]
)
def test_l6_a_change_of_the_node_after_filter_is_noticed_before_anything_is_counted(
    deciding: Deciding, reason: str, happen: Callable[[Cluster], None]
) -> None:
    pod = deciding.pod()
    assert deciding.cluster.ask(pod).node_names == ["n0"]
    happen(deciding.cluster)
    message = deciding.refused(pod)
    assert message.startswith("The pod no longer fits on node n0: ")
    assert reason in message
    assert deciding.assumed() is None
    assert not deciding.cluster.state.awaits_answer("n0")

    deciding.cluster.renew("n1")
    assert deciding.made(pod, "n1").assumed.node == "n1"


def test_an_unreadable_amount_is_a_refusal_and_not_a_failure(deciding: Deciding) -> None:
    raw = a_pod().asks(1).raw
    raw["spec"] = {"containers": [{"name": "m", "resources": {"limits": {names.GPU_RESOURCE: "x"}}}]}
    assert deciding.refused(msgspec.convert(raw, Pod)) == "'x' is not a Kubernetes quantity."
    assert deciding.held == {}


# --- the kubelet of the node -----------------------------------------------------------------------------


def test_a_pod_waits_for_the_kubelet_that_owes_an_answer_for_another(deciding: Deciding) -> None:
    deciding.made(deciding.pod("first"))
    with pytest.raises(AwaitsKubeletError, match="The kubelet of node n0 has not answered yet"):
        deciding.made(deciding.pod("second"))
    assert deciding.held == HELD
    assert deciding.made(deciding.pod("third"), "n1").assumed.node == "n1", "another node owes nothing"


def test_a_pod_that_would_not_fit_anyway_is_refused_without_waiting_for_the_kubelet(
    deciding: Deciding,
) -> None:
    deciding.made(deciding.pod("first"))
    with pytest.raises(BindError, match="not enough GPUs") as refusal:
        deciding.made(deciding.pod("large", gpus=2))
    assert not isinstance(refusal.value, AwaitsKubeletError)


def test_the_kubelet_owes_no_answer_for_a_decision_that_was_taken_back(deciding: Deciding) -> None:
    deciding.made(deciding.pod("first"))
    deciding.decisions.take_back("uid-first")
    assert deciding.made(deciding.pod("second")).assumed.assignment == {"main": ("GPU-n0-0",)}


# --- the same decision once more -------------------------------------------------------------------------


def test_a_decision_is_renewed_with_its_devices_and_a_new_age(deciding: Deciding) -> None:
    first, before = deciding.made(deciding.pod()), deciding.assumed()
    deciding.cluster.clock.advance(3)
    again = deciding.decisions.renew(first.assumed)
    assert (again.made_at, again.was_posted, again.body) == (3, True, first.body)
    assert again.assumed == first.assumed
    assert deciding.assumed() == again.assumed
    assert deciding.assumed() is not before, "assumed_binds tells it from the first by identity"
    assert deciding.held == HELD


def _lose_the_device(cluster: Cluster) -> None:
    cluster.add_node("n0", a100(1))


def _make_the_device_unhealthy(cluster: Cluster) -> None:
    cluster.add_node("n0", a100(0, health="unhealthy"), a100(1))


def _keep_the_device(cluster: Cluster) -> None:
    cluster.create(a_pod("booked").asks(1).kept("n0", "GPU-n0-0"))


@pytest.mark.parametrize(
    ("happen", "reason"),
    [
        (_stop_renewing, "the GPU agent of the node is unresponsive"),
        (_stop, "the GPU agent of the node is stopping, or its kubelet does not know it"),
        (_delete_the_node, "a GPU that was chosen is not healthy any more"),
        (_lose_the_device, "a GPU that was chosen is not healthy any more"),
        (_make_the_device_unhealthy, "a GPU that was chosen is not healthy any more"),
        (_keep_the_device, "GPUs of this node are kept for another pod"),
    ],
)
def test_l6_a_decision_that_would_no_longer_be_made_is_kept_and_not_renewed(
    deciding: Deciding, happen: Callable[[Cluster], None], reason: str
) -> None:
    first, before = deciding.made(deciding.pod()), deciding.assumed()
    happen(deciding.cluster)
    with pytest.raises(BindError) as refusal:
        deciding.decisions.renew(first.assumed)
    assert str(refusal.value) == f"The pod no longer fits on node n0: {reason}."
    assert deciding.assumed() is before, "the first Binding may yet arrive"


# --- taking back -----------------------------------------------------------------------------------------


def test_l1_a_decision_that_was_posted_before_is_not_taken_back_when_its_repeat_is_not_posted(
    deciding: Deciding,
) -> None:
    first = deciding.made(deciding.pod())
    deciding.decisions.not_posted(deciding.decisions.renew(first.assumed))
    assert deciding.held == HELD


# --- a pod that has changed since ------------------------------------------------------------------------
DECIDED = a_pod().asks(1).of("alice").wants(A100).at(3)


@pytest.mark.parametrize(
    ("pod", "rests"),
    [
        (DECIDED, True),
        (DECIDED.at(9), True),
        (DECIDED.at(9).nominated_to("n1"), True),
        (DECIDED.at(9).unschedulable(), True),
        (DECIDED.at(9).with_annotation("note", "x"), True),
        (DECIDED.at(9).with_annotation(names.PLACEMENT, "spread"), True),
        (DECIDED.at(9).terminating(), False),
        (DECIDED.at(9).on("n1"), False),
        (DECIDED.at(9).of_priority(5), False),
        (DECIDED.at(9).behind(), False),
        (DECIDED.at(9).wants(A6000), False),
        (DECIDED.at(9).wants(A100, A6000), False),
        (DECIDED.at(9).kept("n1", "GPU-n1-0"), False),
        (DECIDED.at(9).with_annotation(names.MIN_MEMORY, "40Gi"), False),
        (DECIDED.at(9).with_annotation(names.NOT_UUID, "GPU-n0-0"), False),
        (DECIDED.at(9).asks(1, container="more"), False),
    ],
)
def test_a_decision_depends_on_the_request_and_on_the_fields_that_kube_scheduler_reads(
    deciding: Deciding, pod: PodBuilder, *, rests: bool
) -> None:
    assert deciding.decisions.rests_on(DECIDED.obj, pod.obj) == rests


def test_labels_count_since_other_pods_are_placed_according_to_them(deciding: Deciding) -> None:
    pod = DECIDED.obj
    labelled = msgspec.structs.replace(
        pod, metadata=msgspec.structs.replace(pod.metadata, labels={"app": "a"})
    )
    assert not deciding.decisions.rests_on(pod, labelled)
    assert deciding.decisions.rests_on(labelled, labelled)


def test_a_pod_with_a_new_owner_is_decided_again_where_a_booking_requires_it(
    deciding: Deciding,
) -> None:
    """The request is the booking's: with another user it is another request."""
    pod = deciding.cluster.create(a_pod().asks(1).of("alice"))
    deciding.cluster.book()
    assert deciding.cluster.state.request(pod).models == {A100}
    assert not deciding.decisions.rests_on(pod, deciding.cluster.change("p", names.USER, None))
