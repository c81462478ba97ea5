from datetime import timedelta

import msgspec
import pytest

from cluster import names
from cluster.decide import predicates
from cluster.kube.resources import PODS
from extender.verbs.filter import ANSWERED
from extender.wire import WHOLE_NODES, ExtenderArgs
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, A6000, a_booking, a_pod


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.add_node("n0")
    made.add_node("n1")
    return made


def test_a_rejection_is_unresolvable_and_has_a_reason(cluster: Cluster) -> None:
    cluster.create(a_pod("q").asks(2).on("n0", {"main": ("GPU-n0-0", "GPU-n0-1")}))

    result = cluster.ask(cluster.create(a_pod().asks(1).wants(A100)), "n0", "n1", "unknown")

    assert result.node_names == ["n1"]
    assert result.failed_nodes == {}
    assert result.failed_and_unresolvable_nodes == {
        "n0": f"node(s) had too few free GPUs of model {A100} [in-use]",
        "unknown": "node(s) had not published their GPUs [not-published]",
    }


def test_the_same_request_has_the_same_answer_until_something_changes(cluster: Cluster) -> None:
    pod = cluster.create(a_pod().asks(9))

    first = cluster.ask(pod, "n0", "n1")
    cluster.clock.advance(30)

    assert cluster.ask(pod, "n0", "n1") == first


def test_whole_nodes_are_refused_with_the_name_of_the_setting(cluster: Cluster) -> None:
    arguments = msgspec.json.decode(
        b'{"Pod": {}, "Nodes": {"items": []}, "NodeNames": null}', type=ExtenderArgs
    )

    assert cluster.filter(arguments).error == WHOLE_NODES
    assert "nodeCacheCapable: true" in WHOLE_NODES


def test_an_unreadable_amount_is_an_error(cluster: Cluster) -> None:
    pod = msgspec.json.decode(
        b'{"spec": {"containers": [{"name": "m", "resources": {"limits": {"nvidia.com/gpu": "x"}}}]}}',
        type=type(a_pod().obj),
    )

    assert cluster.filter(ExtenderArgs(pod=pod, node_names=("n0",))).error == (
        "'x' is not a Kubernetes quantity."
    )


def test_nodes_that_are_not_offered_are_not_answered_even_where_the_pod_is_to_go_there(
    cluster: Cluster,
) -> None:
    kept = cluster.create(a_pod("kept").asks(1).kept("n0", "GPU-n0-1"))
    nominated = cluster.create(a_pod("nominated").asks(1).nominated_to("n0"))

    assert cluster.ask(kept, "n1").node_names == []
    assert cluster.ask(kept, "n1").failed_and_unresolvable_nodes == {
        "n1": "node(s) were not n0, whose GPUs are kept for this pod [hold-elsewhere]"
    }
    assert cluster.ask(nominated, "n1").node_names == ["n1"]
    assert cluster.ask(nominated, "n1").failed_and_unresolvable_nodes == {}


def test_the_devices_for_which_a_pod_is_nominated_are_reserved_against_others_and_not_against_it(
    cluster: Cluster,
) -> None:
    nominated = cluster.create(a_pod("nominated").asks(2).wants(A100).nominated_to("n0"))
    alike = cluster.create(a_pod("alike").asks(2).wants(A100))

    assert sorted(cluster.ask(nominated, "n0", "n1").node_names) == ["n0", "n1"]
    assert cluster.ask(alike, "n0", "n1").node_names == ["n1"]


def test_l5_a_hold_gives_a_pod_that_stays_indefinitely_nothing_that_is_planned(cluster: Cluster) -> None:
    pod = a_pod().asks(1).wants(A100).of_a_daemon_set().kept("n0", "GPU-n0-0")
    assert cluster.ask(cluster.create(pod), "n0", "n1").node_names == ["n0"]

    start = cluster.clock.now() + timedelta(hours=1)
    cluster.book(a_booking(count=4, start=start, end=start + timedelta(hours=1)))

    found = cluster.ask(pod.obj, "n0", "n1").failed_and_unresolvable_nodes
    assert found["n0"] == predicates.BOOKED_BY_OTHERS.with_code


def test_the_nodes_that_rejected_a_pod_are_recorded_and_whether_bookings_were_the_reason(
    cluster: Cluster,
) -> None:
    cluster.create(a_pod("q").asks(2).on("n0", {"main": ("GPU-n0-0", "GPU-n0-1")}))
    pod = cluster.create(a_pod().asks(1).wants(A100).of_a_daemon_set())

    cluster.ask(pod, "n0", "n1")
    rejection = cluster.state.rejections["uid-p"]
    assert (rejection.nodes, rejection.is_booked_by_others) == ({"n0"}, False)
    assert cluster.state.remembered("uid-p") is pod

    start = cluster.clock.now() + timedelta(hours=1)
    cluster.book(a_booking(count=4, start=start, end=start + timedelta(hours=1)))
    cluster.ask(pod, "n0", "n1")
    rejection = cluster.state.rejections["uid-p"]
    assert (rejection.nodes, rejection.is_booked_by_others) == ({"n0", "n1"}, True)


def test_the_log_line_counts_the_nodes_that_were_offered_that_fit_and_that_did_not(cluster: Cluster) -> None:
    cluster.create(a_pod("q").asks(2).on("n0", {"main": ("GPU-n0-0", "GPU-n0-1")}))
    pod = cluster.create(a_pod().asks(1).wants(A100))

    answer = cluster.filter.answer_logged(ExtenderArgs(pod=pod, node_names=("n0", "n1", "unknown")))

    reasons = {"in-use": 1, "not-published": 1}
    assert answer.line == {
        "pod": "default/p",
        "uid": "uid-p",
        "nodes": 3,
        "fitting": 1,
        "reasons": reasons,
    }
    assert (answer.event, answer.reasons) == (ANSWERED, reasons)


def test_the_log_line_of_an_error_has_the_error_instead_of_numbers(cluster: Cluster) -> None:
    arguments = msgspec.json.decode(
        b'{"Pod": {"metadata": {"name": "p", "namespace": "lab", "uid": "u"}}, "Nodes": {"items": []}}',
        type=ExtenderArgs,
    )

    line = cluster.filter.answer_logged(arguments).line

    assert line == {"pod": "lab/p", "uid": "u", "error": WHOLE_NODES}


def test_a_hold_that_the_scheduler_has_seen_first_counts(cluster: Cluster) -> None:
    cluster.create(a_pod().asks(1))

    assert cluster.ask(a_pod().asks(1).kept("n1", "GPU-n1-0").at(999).obj, "n0", "n1").node_names == ["n1"]


def test_a_nominated_pod_reserves_the_model_of_its_booking_while_that_runs(cluster: Cluster) -> None:
    cluster.create(a_pod("q").asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    cluster.create(a_pod("first").of("alice").asks(1).nominated_to("n0"))
    pod = cluster.create(a_pod().asks(1).wants(A100))
    assert cluster.ask(pod).node_names == ["n0"]

    cluster.book(days=1)
    assert cluster.ask(pod).failed_and_unresolvable_nodes == {"n0": predicates.NOMINATED.with_code}
    more = cluster.create(a_pod("r").asks(3).wants(A100, A6000))
    assert "nominated" in cluster.ask(more).failed_and_unresolvable_nodes["n0"]
    assert cluster.ask(cluster.create(a_pod("s").asks(2))).node_names == ["n0"]
    assert cluster.bind_to(pod) == f"The pod no longer fits on node n0: {predicates.NOMINATED}."

    cluster.clock.advance(24 * 3600)
    cluster.renew()
    assert cluster.ask(pod).node_names == ["n0"]
    assert cluster.bind_to(pod) == ""


def test_a_pod_that_asks_for_0_gpus_may_go_anywhere_and_is_bound_without_any(cluster: Cluster) -> None:
    raw = a_pod("p").asks(1).raw
    none = {names.GPU_RESOURCE: "0"}
    raw["spec"]["containers"][0]["resources"] = {"limits": none, "requests": none}
    pod = cluster.kube.put(PODS, raw)
    cluster.pods.upsert(pod)
    assert cluster.ask(pod, "n0", "unknown").node_names == ["n0", "unknown"]
    assert cluster.bind_to(pod, "unknown") == ""
    assert cluster.given("p") is None
