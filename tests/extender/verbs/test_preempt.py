"""The verb preempt, from what the extender knows of the cluster to what kube-scheduler is answered."""

from datetime import timedelta

import msgspec
import pytest
from structlog.testing import capture_logs

from cluster import names
from cluster.decide.protection import HANGS_AFTER
from cluster.kube.resources import NAMESPACES, NODES, PODS
from cluster.objects.namespaces import Namespace
from cluster.objects.pods import Pod
from cluster.objects.quantity import QuantityError
from extender.verbs.preempt import Preempt, Terms
from extender.wire import ExtenderPreemptionArgs, MetaPod, MetaVictims
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, EPOCH, PodBuilder, a100, a6000, a_booking, a_pod


def offer(*uids: str, violations: int = 0) -> MetaVictims:
    return MetaVictims(pods=tuple(MetaPod(uid=uid) for uid in uids), num_pdb_violations=violations)


def preempts(name: str = "p") -> PodBuilder:
    return a_pod(name).asks(1).wants(A100).of_priority(1000)


def answered(
    cluster: Cluster, pod: PodBuilder, verb: Preempt | None = None, **offers: MetaVictims
) -> dict[str, MetaVictims]:
    arguments = ExtenderPreemptionArgs(pod=pod.obj, node_name_to_meta_victims=offers)
    return (verb or cluster.preempt)(arguments).node_name_to_meta_victims


@pytest.fixture
def cluster() -> Cluster:
    """Two nodes of an A100 and an A6000 each, all of them in use; alice's A100 on n0 is booked."""
    made = Cluster()
    for node in ("n0", "n1"):
        made.add_node(node, a100(0, node), a6000(1, node))
        for index, model in enumerate(("a100", "a6000")):
            pod = a_pod(f"{node}-{model}").asks(1).of_priority(0)
            user = "alice" if (node, index) == ("n0", 0) else "bob"
            made.create(pod.of(user).on(node, {"main": (f"GPU-{node}-{index}",)}))
    made.book()
    return made


def test_the_right_victim_stays_the_wrong_one_is_replaced_and_a_booked_one_is_spared(
    cluster: Cluster,
) -> None:
    offers = {"n0": offer("uid-n0-a100"), "n1": offer("uid-n1-a6000", violations=1)}

    assert answered(cluster, preempts(), **offers) == {"n1": offer("uid-n1-a100", violations=1)}
    assert answered(cluster, preempts(), n1=offer("uid-n1-a100")) == {"n1": offer("uid-n1-a100")}


def test_l2_a_pod_that_a_booking_adopts_is_spared_whatever_its_priority_class(cluster: Cluster) -> None:
    assert answered(cluster, preempts(), n1=offer("uid-n1-a100")) != {}
    now = cluster.clock.now()
    cluster.book(a_booking("b-bob", user="bob", start=now, end=now + timedelta(hours=1)))

    assert answered(cluster, preempts(), n1=offer("uid-n1-a100")) == {}

    cluster.clock.advance(3600)
    cluster.renew("n1")
    assert answered(cluster, preempts(), n1=offer("uid-n1-a100")) != {}


def test_l2_a_grant_of_maia_counts_where_the_settings_allow_it(cluster: Cluster) -> None:
    later = cluster.clock.now() + timedelta(hours=1)
    cluster.change("n1-a100", names.TERMINATE_AT, later.strftime("%Y-%m-%dT%H:%M:%SZ"))
    honours = Preempt(cluster.state, cluster.clock, Terms(home=names.NAMESPACE, maia=True))

    assert answered(cluster, preempts(), honours, n1=offer("uid-n1-a100")) == {}
    assert answered(cluster, preempts(), n1=offer("uid-n1-a100")) != {}


def elsewhere(namespace: str, uid: str = "uid-elsewhere") -> Pod:
    """A pod of another namespace on a node of its own, n2, on whose only GPU it works."""
    pod = a_pod("elsewhere").asks(1).of_priority(0).on("n2", {"main": ("GPU-n2-0",)}).obj
    meta = msgspec.structs.replace(pod.metadata, namespace=namespace, uid=uid)
    return msgspec.structs.replace(pod, metadata=meta)


@pytest.mark.parametrize(
    ("namespace", "is_evicted"),
    [("team", True), ("lab", False), ("kube-system", False), (names.NAMESPACE, False)],
    ids=["any", "protected", "Kubernetes' own", "the product's own"],
)
def test_pods_of_protected_namespaces_are_not_evicted(
    cluster: Cluster, namespace: str, *, is_evicted: bool
) -> None:
    protected = {"metadata": {"name": "lab", "annotations": {names.NEVER_EVICT: "true"}}}
    cluster.state.of(NAMESPACES).replace([msgspec.convert(protected, Namespace)])
    cluster.add_node("n2", a100(0, "n2"))
    cluster.pods.upsert(elsewhere(namespace))
    offers = {"n2": offer("uid-elsewhere")}

    assert answered(cluster, preempts(), **offers) == (offers if is_evicted else {})


def test_a_pod_that_is_never_evicted_itself_takes_nothing_that_is_planned(cluster: Cluster) -> None:
    protected = {"metadata": {"name": "default", "annotations": {names.NEVER_EVICT: "true"}}}
    cluster.add_node("n2", a100(0, "n2"))
    cluster.pods.upsert(elsewhere("team"))
    offers = {"n2": offer("uid-elsewhere")}
    assert answered(cluster, preempts(), **offers) == offers

    cluster.state.of(NAMESPACES).replace([msgspec.convert(protected, Namespace)])
    now = cluster.clock.now()
    planned = {"start": now + timedelta(hours=1), "end": now + timedelta(hours=9), "count": 3}
    cluster.book(a_booking("b-dora", user="dora", **planned))

    assert answered(cluster, preempts(), **offers) == {}


def test_l6_no_pod_is_evicted_beside_a_pod_that_we_have_not_seen(cluster: Cluster) -> None:
    assert answered(cluster, preempts(), n1=offer("uid-n1-a100", "uid-news")) == {}


def test_l2_no_pod_is_evicted_from_a_node_on_which_we_have_not_seen_it(cluster: Cluster) -> None:
    cluster.book(a_booking("b-dora", user="dora"))
    cluster.create(a_pod("hers").asks(1).of("dora"))

    assert answered(cluster, preempts(), n1=offer("uid-n1-a100", "uid-hers")) == {}
    assert answered(cluster, preempts(), n1=offer("uid-n0-a100", "uid-n1-a100")) == {}


def test_l6_an_unresponsive_agent_takes_its_node_out(cluster: Cluster) -> None:
    cluster.clock.advance(80)

    assert answered(cluster, preempts(), n1=offer("uid-n1-a100")) == {}


def test_nodes_that_are_planned_for_other_bookings_are_left_out_for_a_booked_pod(cluster: Cluster) -> None:
    now, hour = cluster.clock.now(), timedelta(hours=1)
    cluster.book(a_booking("b-carol", user="carol", start=now, end=now + 9 * hour))
    offers = {"n1": offer("uid-n1-a100")}
    assert answered(cluster, preempts().of("carol"), **offers) == offers

    soon = {"start": now + hour, "end": now + 9 * hour, "count": 2, "topology": "single-node"}
    cluster.add_node("n2", a100(0, "n2"), a100(1, "n2"))
    cluster.book(a_booking("b-dora", user="dora", places=[{"node": "n2", "count": 2}], **soon))
    cluster.create(a_pod("n2-a100").asks(2).of("bob").on("n2", {"main": ("GPU-n2-0", "GPU-n2-1")}))

    assert answered(cluster, preempts().of("carol"), **offers, n2=offer("uid-n2-a100")) == offers


@pytest.mark.parametrize("offers", [None, {}])
def test_a_missing_or_empty_offer_has_an_empty_answer(
    cluster: Cluster, offers: dict[str, MetaVictims] | None
) -> None:
    arguments = ExtenderPreemptionArgs(pod=preempts().obj, node_name_to_meta_victims=offers)
    assert cluster.preempt(arguments).node_name_to_meta_victims == {}


def test_a_node_that_has_been_deleted_since_is_left_out(cluster: Cluster) -> None:
    cluster.state.of(NODES).remove(cluster.state.nodes["n1"])
    assert answered(cluster, preempts(), n1=offer("uid-n1-a100"), n9=offer()) == {}


def test_a_victim_that_has_been_deleted_since_is_not_evicted(cluster: Cluster) -> None:
    cluster.pods.remove(a_pod("n1-a100").at(9999).obj)
    assert answered(cluster, preempts(), n1=offer("uid-n1-a100")) == {}


@pytest.mark.parametrize("violations", [0, 3])
def test_the_number_of_broken_budgets_is_that_of_the_offer(cluster: Cluster, violations: int) -> None:
    found = answered(cluster, preempts(), n1=offer("uid-n1-a6000", violations=violations))
    assert found == {"n1": offer("uid-n1-a100", violations=violations)}


def test_an_unreadable_amount_is_an_error(cluster: Cluster) -> None:
    raw = preempts().raw
    raw["spec"] = {"containers": [{"name": "m", "resources": {"limits": {names.GPU_RESOURCE: "x"}}}]}
    arguments = ExtenderPreemptionArgs(pod=msgspec.convert(raw, Pod), node_name_to_meta_victims={})
    with pytest.raises(QuantityError, match="'x' is not a Kubernetes quantity"):
        cluster.preempt(arguments)


def test_a_terminating_pod_may_be_evicted_again_and_no_longer_once_it_hangs(cluster: Cluster) -> None:
    cluster.add_node("n2", a100(0, "n2"))
    cluster.create(a_pod("n2-a100").asks(1).of_priority(0).on("n2", {"main": ("GPU-n2-0",)}).terminating())
    offers = {"n2": offer("uid-n2-a100")}
    assert answered(cluster, preempts(), **offers) == offers

    deleted = EPOCH - cluster.clock.now()
    cluster.clock.advance((deleted + HANGS_AFTER).total_seconds() - 1)
    cluster.renew("n2")
    assert answered(cluster, preempts(), **offers) == offers

    cluster.clock.advance(1)
    assert answered(cluster, preempts(), **offers) == {}


@pytest.mark.parametrize(("restart_seconds", "victim"), [(0, "pair"), (300, "single")])
def test_a_restart_costs_as_much_as_the_settings_say_for_each_gpu(
    cluster: Cluster, restart_seconds: float, victim: str
) -> None:
    cluster.add_node("n2", *(a100(index, "n2") for index in range(3)), a6000(3, "n2"))
    cluster.create(a_pod("wrong").asks(1).of_priority(0).on("n2", {"main": ("GPU-n2-3",)}))
    cluster.create(a_pod("single").asks(1).of_priority(0).on("n2", {"main": ("GPU-n2-0",)}))
    cluster.create(a_pod("pair").asks(2).of_priority(0).on("n2", {"main": ("GPU-n2-1", "GPU-n2-2")}))
    cluster.take("single")
    cluster.clock.advance(6 * 60)
    cluster.take("pair")
    cluster.clock.advance(4 * 60)
    cluster.renew("n2")
    terms = Terms(home=names.NAMESPACE, restart_seconds=restart_seconds)

    found = answered(cluster, preempts(), Preempt(cluster.state, cluster.clock, terms), n2=offer("uid-wrong"))

    assert found == {"n2": offer(f"uid-{victim}")}


def test_a_pod_that_was_bound_before_the_watch_has_shown_it_keeps_its_device_and_is_no_victim(
    cluster: Cluster,
) -> None:
    cluster.add_node("n2", a100(0, "n2"), a100(1, "n2"))
    unseen = cluster.kube.put(PODS, {**a_pod("unseen").asks(1).raw})
    assert cluster.ask(unseen, "n2").node_names == ["n2"]
    assert cluster.bind_to(unseen, "n2") == ""
    cluster.create(a_pod("n2-a100").asks(1).of_priority(0).on("n2", {"main": ("GPU-n2-1",)}))
    offers = {"n2": offer("uid-n2-a100")}

    assert answered(cluster, preempts(), **offers) == offers
    assert answered(cluster, a_pod("two").asks(2).wants(A100).of_priority(1000), **offers) == {}


def test_one_line_of_the_log_counts_the_offered_nodes_and_the_changes(cluster: Cluster) -> None:
    with capture_logs() as lines:
        answered(cluster, preempts(), n0=offer("uid-n0-a6000"), n1=offer("uid-n1-a6000"))
    (line,) = lines
    assert (line["pod"], line["uid"]) == ("default/p", "uid-p")
    assert (line["nodes"], line["fitting"], line["changed"]) == (2, 1, 1)
