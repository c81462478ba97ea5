"""L8: all explanations of a waiting pod use the same words: extender, its Events, and the booking server."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from booking.eviction.settings import EvictionSettings
from booking.server.cluster_status import about, take
from cluster import names
from cluster.cache import BookingPlans
from cluster.decide.explain import explain_pod
from cluster.decide.predicates import BOOKED_BY_OTHERS
from cluster.decide.reasons import ALL
from cluster.objects.pods import Pod
from extender.pending.pending_reasons import PendingReasons
from extender.state.soft_reservations import SECONDS
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, A6000, PodBuilder, a100, a6000, a_booking, a_pod

NODES = ("n0", "n1", "n2")
HOUR = timedelta(hours=1)


def _as_explained(reason: str) -> str:
    """What ``why`` says of a node for which the scheduler is given this reason."""
    (cause,) = (cause for cause in ALL if reason.endswith(f" [{cause.code}]"))
    before, placeholder, after = cause.counted.partition("{}")
    detail = reason.removeprefix(before).removesuffix(f"{after} [{cause.code}]") if placeholder else ""
    assert cause.reason(detail).with_code == reason
    return str(cause.reason(detail))


def because(cluster: Cluster, pod: Pod) -> tuple[str, ...]:
    """As the booking server explains it."""
    booking_plans = BookingPlans(cluster.state)
    snapshot = about(
        pod, take(cluster.state, cluster.clock, EvictionSettings(), booking_plans), booking_plans
    )
    return explain_pod(pod, snapshot.explanation, may_name=lambda _pod: True).because


def events(cluster: Cluster, pod: Pod) -> list[str]:
    """What the extender writes on the pod."""
    recorded: list[tuple[str, str]] = []

    def note(one: Pod, _reason: str, message: str) -> bool:
        recorded.append((one.metadata.uid, message))
        return True

    PendingReasons(cluster.state, cluster.clock, note, lambda: None).reconcile()
    return [message for uid, message in recorded if uid == pod.metadata.uid]


def a_cluster() -> Cluster:
    made = Cluster()
    made.add_node("n0", a100(0, "n0"), a100(1, "n0"))
    made.add_node("n1", a100(0, "n1"), a6000(1, "n1"))
    made.add_node("n2", a6000(0, "n2"), a6000(1, "n2", health="unhealthy"))
    return made


def test_l8_a_node_planned_for_another_booking_is_named_with_the_time_of_that_booking() -> None:
    cluster = Cluster()
    cluster.add_node("n0", a100(0, "n0"), a100(1, "n0"))
    now = cluster.clock.now()
    plan = {"start": now + 2 * HOUR, "end": now + 9 * HOUR, "places": [{"node": "n0", "count": 2}]}
    cluster.add_node("n1", a6000(0, "n1"))
    cluster.book(a_booking("b-alice", start=now, end=now + 9 * HOUR, places=[]))
    cluster.book(a_booking("b-bob", user="bob", count=2, topology="single-node", **plan))
    pod = cluster.create(a_pod().of("alice").asks(1))

    assert cluster.ask(pod, "n0").failed_and_unresolvable_nodes == {"n0": BOOKED_BY_OTHERS.with_code}
    explained = because(cluster, pod)
    assert f"n0: {BOOKED_BY_OTHERS}." in explained
    assert any(one.startswith("n0 is planned for 1 other booking, from ") for one in explained)


@st.composite
def pods(draw: st.DrawFn) -> list[PodBuilder]:
    """Some that hold devices, with and without saying which, then some that wait."""
    made = []
    for node, index in (("n0", 0), ("n0", 1), ("n1", 0), ("n1", 1), ("n2", 0)):
        held = draw(st.sampled_from((None, None, {"main": (f"GPU-{node}-{index}",)}, {})))
        if held is not None:
            made.append(a_pod(f"q-{node}-{index}").of("bob").asks(1).on(node, held))
    for number in range(draw(st.integers(1, 3))):
        pod = a_pod(f"p{number}").asks(draw(st.integers(1, 3))).unschedulable()
        pod = pod.of("alice") if draw(st.booleans()) else pod
        pod = pod.wants(draw(st.sampled_from((A100, A6000, "B300")))) if draw(st.booleans()) else pod
        pod = pod.with_annotation(names.MIN_MEMORY, "60Gi") if draw(st.booleans()) else pod
        pod = pod.kept("n0", "GPU-n0-0") if draw(st.integers(0, 3)) == 0 else pod
        pod = pod.of_a_daemon_set() if draw(st.integers(0, 3)) == 0 else pod
        made.append(pod)
    return made


@given(builders=pods(), is_booked=st.booleans(), is_planned_for_others=st.booleans())
def test_l8_extender_events_and_booking_server_say_the_same(
    *, builders: list[PodBuilder], is_booked: bool, is_planned_for_others: bool
) -> None:
    cluster = a_cluster()
    now = cluster.clock.now()
    if is_booked:
        cluster.book(a_booking("b-alice", count=2, start=now, end=now + 9 * HOUR))
    if is_planned_for_others:
        place = [{"node": "n0", "count": 2}]
        more = {"start": now + HOUR, "end": now + 2 * HOUR, "topology": "single-node", "places": place}
        cluster.book(a_booking("b-bob", user="bob", count=2, **more))
    for builder in builders:
        cluster.create(builder)
    for pod in list(cluster.state.waiting.values()):
        explained = because(cluster, pod)
        messages = events(cluster, pod)
        assert set(messages) <= set(explained)
        answer = cluster.ask(pod, *NODES)
        cluster.clock.advance(SECONDS)  # what this one is about to get is not in the next one's way
        if messages:
            assert not answer.node_names
        elif not pod.metadata.annotation(names.HOLD):
            free = next((one for one in explained if one.startswith("There are free GPUs for it on ")), "")
            assert {node for node in NODES if node in free} == set(answer.node_names or ())
            for node, reason in (answer.failed_and_unresolvable_nodes or {}).items():
                message = _as_explained(reason)
                assert any(one.endswith(f": {message}.") and node in one for one in explained), (
                    reason,
                    explained,
                )
