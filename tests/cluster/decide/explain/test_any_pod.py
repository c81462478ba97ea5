"""What is true of the explanation of every pod of any cluster."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from cluster.decide.explain import explain_pod
from cluster.objects.bookings import Booking
from tests.cluster.decide.explain.snapshots import DAY, NOW, snapshot
from tests.fakes.objects import A100, A6000, EPOCH, PodBuilder, a_booking, a_pod


@st.composite
def clusters(draw: st.DrawFn) -> tuple[tuple[PodBuilder, ...], tuple[Booking, ...]]:
    pods = []
    for number in range(draw(st.integers(1, 5))):
        pod = a_pod(f"p{number}").created(EPOCH + timedelta(minutes=number)).asks(draw(st.integers(0, 3)))
        pod = pod.of(draw(st.sampled_from(("alice", "bob")))) if draw(st.booleans()) else pod
        pod = pod.wants(draw(st.sampled_from((A100, A6000)))) if draw(st.booleans()) else pod
        node = draw(st.sampled_from((None, "n0", "n1", "gone")))
        device = f"GPU-n0-{draw(st.integers(0, 4))}"
        pod = pod.on(node, {"main": (device,)} if draw(st.booleans()) else None) if node else pod
        pod = draw(st.sampled_from((pod, pod.terminating(), pod.ended(), pod.unschedulable())))
        pods.append(pod)
    bookings = tuple(
        a_booking(
            f"b-{number}",
            user=draw(st.sampled_from(("alice", "bob"))),
            model=draw(st.sampled_from((A100, A6000))),
            count=draw(st.integers(1, 3)),
            start=NOW + draw(st.integers(-3, 2)) * DAY,
            end=NOW + 3 * DAY - draw(st.sampled_from((0, 4))) * DAY,
        )
        for number in range(draw(st.integers(0, 3)))
    )
    return tuple(pods), bookings


@given(clusters())
def test_every_pod_has_an_explanation_and_nothing_contradicts_itself(
    cluster: tuple[tuple[PodBuilder, ...], tuple[Booking, ...]],
) -> None:
    pods, bookings = cluster
    seen = snapshot(*pods, bookings=bookings)
    for builder in pods:
        pod = builder.obj
        found = explain_pod(pod, seen)
        assert found == explain_pod(pod, seen)
        text = " ".join(found.because)
        assert found.because
        assert all(message.endswith(".") for message in (*found.because, *found.would_change))
        is_covered = pod.metadata.uid in seen.cover
        if is_covered:
            assert "covers it until" in text
        assert ("covers it until" in text) == found.state.endswith(", booked") == is_covered
        assert not ("covers it until" in text and "belongs to nobody" in text)
        assert found.state.startswith("running") == bool(
            pod.spec.node_name and pod.metadata.uid in seen.pods and not pod.metadata.deletion_timestamp
        )
