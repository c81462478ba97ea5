"""What filter leaves out could not have been chosen."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.decide.ledger.amounts import Holding
from cluster.decide.predicates import NOT_PUBLISHED
from cluster.decide.request import GpuRequest
from cluster.kube.resources import NODES
from cluster.objects.nodes import Taint
from cluster.objects.pods import Pod
from extender.verbs.contenders import OTHERS, Contenders
from extender.verbs.filter import Filter
from extender.verbs.prioritize import Prioritize
from extender.wire import MAX_SCORE, ExtenderArgs, ExtenderFilterResult
from tests.extender.cluster import Cluster
from tests.fakes.objects import PodBuilder, a100, a6000, a_node, a_pod

NAMES = tuple(f"n{number}" for number in range(6))


@given(
    ours=st.lists(st.integers(0, MAX_SCORE), min_size=6, max_size=6),
    plugins=st.lists(st.integers(0, OTHERS - 1), min_size=6, max_size=6),
    weight=st.integers(1, 100),
)
def test_no_node_is_left_out_that_the_scheduler_could_have_chosen(
    ours: list[int], plugins: list[int], weight: int
) -> None:
    cluster = Cluster()
    for name in NAMES:
        cluster.nodes.upsert(a_node(name))

    def scores(_pod: Pod, _request: GpuRequest, names: Sequence[str]) -> list[int]:
        return [ours[NAMES.index(name)] for name in names]

    pod = a_pod().asks(1).obj
    found = Contenders(cluster.state, scores, placement="binpack", weight=weight)(
        pod, cluster.state.request(pod), NAMES
    )
    totals = [plugin + 10 * weight * score for plugin, score in zip(plugins, ours, strict=True)]
    assert {name for name, total in zip(NAMES, totals, strict=True) if total == max(totals)} <= set(found)


def half_used() -> Cluster:
    """A node of which three of four GPUs are in use, and an empty one."""
    cluster = Cluster()
    cluster.add_node("n0")
    cluster.add_node("n1")
    cluster.create(
        a_pod("q").asks(3).on("n1", {"main": ("GPU-n1-0", "GPU-n1-1", "GPU-n1-2")}).ended("Running")
    )
    return cluster


def named(cluster: Cluster, pod: Pod, placement: str = "binpack") -> list[str]:
    scores = Prioritize(cluster.state, cluster.clock, placement).scores
    narrowed = Contenders(cluster.state, scores, placement=placement, weight=10)
    answer = Filter(cluster.state, narrowed)(ExtenderArgs(pod=pod, node_names=("n0", "n1", "unknown")))
    if answer.node_names == ["n1"]:
        assert not answer.failed_and_unresolvable_nodes  # nobody reads why the others do not fit
    return sorted(answer.node_names)


@pytest.mark.parametrize(
    ("devices", "fits", "rejected"), [(1, {"n1"}, set()), (2, {"n0"}, {"n1"}), (4, set(), {"n0", "n1"})]
)
def test_the_answer_does_not_depend_on_whether_filter_is_asked_about_all_nodes(
    devices: int, fits: set[str], rejected: set[str]
) -> None:
    cluster = half_used()
    scores = Prioritize(cluster.state, cluster.clock).scores
    verb = Filter(cluster.state, Contenders(cluster.state, scores, placement="binpack", weight=10))
    pod = a_pod("p").asks(devices).obj
    for others in ((), ("unknown",)):
        answer = verb(ExtenderArgs(pod=pod, node_names=("n1", "n0", *others)))
        noted = cluster.state.rejections.get("uid-p")
        assert set(answer.node_names) == fits
        assert set(answer.failed_and_unresolvable_nodes) == (set() if fits else {*rejected, *others})
        assert (noted.nodes if noted else set()) == {*rejected, *others}


@given(
    used=st.lists(st.integers(0, 4), min_size=6, max_size=6),
    reserved=st.sets(st.sampled_from(NAMES)),
    asked=st.lists(st.sampled_from(NAMES), unique=True),
    devices=st.integers(1, 4),
    is_nominated=st.booleans(),
)
def test_the_answer_about_some_nodes_is_the_same_as_beside_a_node_that_nobody_knows(
    *, used: list[int], reserved: set[str], asked: list[str], devices: int, is_nominated: bool
) -> None:
    """With it, each node is looked at; without it, what is known of all nodes is used."""
    cluster = Cluster()
    for node, count in zip(NAMES, used, strict=True):
        cluster.add_node(node, *(a100(index, node) for index in range(4)))
        uuids = tuple(f"GPU-{node}-{index}" for index in range(count))
        cluster.create(a_pod(f"on-{node}").asks(count).on(node, {"main": uuids}).ended("Running"))
        if node in reserved and count < 4:
            cluster.state.soft.reserve(f"to-{node}", node, (Holding(f"GPU-{node}-{count}"),))
    scores = Prioritize(cluster.state, cluster.clock).scores
    verb = Filter(cluster.state, Contenders(cluster.state, scores, placement="binpack", weight=10))
    pod = cluster.create(
        a_pod("p").asks(devices).nominated_to("n0") if is_nominated else a_pod("p").asks(devices)
    )

    def said(*unknown: str) -> tuple[object, ...]:
        answer = verb.answer_logged(ExtenderArgs(pod=pod, node_names=(*asked, *unknown)))
        found = msgspec.json.decode(answer.text, type=ExtenderFilterResult)
        noted = cluster.state.rejections.get("uid-p")
        return (
            sorted(found.node_names),
            found.failed_and_unresolvable_nodes.keys() - {"unknown"},
            (noted.nodes if noted else frozenset()) - {"unknown"},
            {**answer.line, "nodes": 0, "reasons": 0},
            {code: count for code, count in answer.reasons.items() if code != NOT_PUBLISHED.code},
        )

    assert said() == said("unknown")


@pytest.mark.parametrize("asked", [("n0", "n1"), ("n0", "n1", "unknown")], ids=["all nodes", "others"])
def test_a_node_that_other_pods_are_about_to_fill_is_as_good_as_filled(asked: tuple[str, ...]) -> None:
    cluster = Cluster()
    cluster.add_node("n0")
    cluster.add_node("n1")
    scores = Prioritize(cluster.state, cluster.clock).scores
    verb = Filter(cluster.state, Contenders(cluster.state, scores, placement="binpack", weight=10))
    question = ExtenderArgs(pod=a_pod("p").asks(1).obj, node_names=asked)

    assert sorted(verb(question).node_names) == ["n0", "n1"]
    cluster.state.soft.reserve("other", "n0", tuple(Holding(f"GPU-n0-{number}") for number in range(3)))
    assert verb(question).node_names == ["n0"]


def test_binpack_does_not_queue_behind_a_node_while_another_is_nearly_as_good() -> None:
    cluster = Cluster()
    for node in ("n0", "n1"):
        cluster.add_node(node, *(a100(index, node) for index in range(8)))
    first, second = (cluster.create(a_pod(name).asks(1)) for name in ("first", "second"))
    ranked = Prioritize(cluster.state, cluster.clock)
    narrowed = Contenders(cluster.state, ranked.scores, placement="binpack", weight=OTHERS)
    verb, question = Filter(cluster.state, narrowed), ExtenderArgs(pod=second, node_names=("n0", "n1"))
    cluster.ask(first, "n0", "n1")
    assert not cluster.bind_to(first, "n0")

    assert cluster.state.awaiting_nodes() == {"n0"}
    assert sorted(verb(question).node_names) == ["n0", "n1"]
    assert len({one.score for one in ranked(question)}) <= 1
    cluster.take("first")
    assert verb(question).node_names == ["n0"]
    assert max(ranked(question), key=lambda one: one.score).host == "n0"


def test_the_only_node_that_is_named_gets_a_soft_reservation_as_prioritize_is_not_asked() -> None:
    cluster = half_used()
    pod = cluster.create(a_pod().asks(1))

    assert named(cluster, pod) == ["n1"]
    assert set(cluster.state.soft.of_others("another")) == {"n1"}
    assert named(cluster, cluster.create(a_pod("r").asks(1))) == ["n0"]
    assert cluster.state.rejections[pod.metadata.uid].nodes == {"unknown"}


def preferring(**spec: object) -> Pod:
    raw = a_pod().asks(1).raw
    return msgspec.convert({**raw, "spec": {**raw["spec"], **spec}}, Pod)  # type: ignore[dict-item]


def replica(builder: PodBuilder, kind: str) -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "a", "uid": "u", "controller": True}
    raw = builder.raw
    return msgspec.convert({**raw, "metadata": {**raw["metadata"], "ownerReferences": [owner]}}, Pod)  # type: ignore[dict-item]


PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}


@pytest.mark.parametrize(
    "pod",
    [
        preferring(affinity={"nodeAffinity": PREFERRED}),
        preferring(affinity={"podAffinity": PREFERRED}),
        preferring(affinity={"podAntiAffinity": PREFERRED}),
        preferring(topologySpreadConstraints=[{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]),
        preferring(resourceClaims=[{"name": "a"}]),
        replica(a_pod().asks(1), "ReplicaSet"),
        a_pod().asks(1).with_annotation(names.PLACEMENT, "spread").obj,
    ],
)
def test_a_pod_for_which_the_scheduler_prefers_nodes_gets_all_that_fit(pod: Pod) -> None:
    assert named(half_used(), pod) == ["n0", "n1"]


def test_pods_of_jobs_required_terms_and_other_resources_prefer_nothing() -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}

    assert named(half_used(), preferring(affinity={"podAntiAffinity": required})) == ["n1"]
    assert named(half_used(), replica(a_pod().asks(1), "Job")) == ["n1"]
    other = {"limits": {names.GPU_RESOURCE: "1", "rdma/hca": "1"}}
    assert named(half_used(), preferring(containers=[{"name": "main", "resources": other}])) == ["n1"]


def test_a_node_that_is_to_be_avoided_does_not_keep_others_from_being_chosen() -> None:
    cluster = half_used()
    node = a_node("n1", a100(0, "n1"), a100(1, "n1"), a6000(2, "n1"), a6000(3, "n1"))
    tainted = msgspec.structs.replace(node.spec, taints=(Taint(key="a", effect="PreferNoSchedule"),))
    meta = msgspec.structs.replace(node.metadata, resource_version="99")
    cluster.state.of(NODES).upsert(msgspec.structs.replace(node, spec=tainted, metadata=meta))

    assert named(cluster, cluster.create(a_pod().asks(1))) == ["n0", "n1"]


def test_the_policy_of_the_settings_counts_for_pods_that_request_none() -> None:
    assert named(half_used(), a_pod().asks(1).obj, "spread") == ["n0", "n1"]
