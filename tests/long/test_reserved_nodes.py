"""A node that is planned whole for somebody is left alone by pods of other bookings, on a whole cluster."""

from datetime import timedelta

import pytest

from cluster.decide import predicates
from cluster.kube.resources import BOOKINGS
from cluster.process.clock import SystemClock
from tests.e2e.persons import A100, Person
from tests.e2e.playground import Playground
from tests.long.workloads import a100

pytestmark = pytest.mark.e2e


def test_a_booked_pod_is_steered_away_from_a_node_that_another_booking_needs_whole(
    alice: Person, bob: Person, playground: Playground
) -> None:
    tomorrow = (SystemClock().now() + timedelta(days=1)).isoformat()
    answer = bob.ask(model=A100, count=2, start=tomorrow, duration="P1D", topology="single-node")
    assert answer.status == 201, answer
    his = answer.body["id"]
    try:
        planned = playground.kube.get(BOOKINGS, his).spec.node
        assert planned in {"node-a", "node-b"}
        # Packing alone would put her pod where somebody is already.
        playground.create(a100("there-already", node=planned))
        playground.await_phase(["there-already"])
        hers = playground.kube.get(BOOKINGS, alice.book(1, duration="P3D"))
        assert hers.spec.node not in {planned, None}
        alice.create(a100("booked"))
        assert playground.await_bound("booked") == hers.spec.node
        playground.await_phase(["booked"])
        assert playground.kube.get(BOOKINGS, his).spec.node == planned
    finally:
        assert bob.rest.ask("DELETE", f"/bookings/{his}").status in {200, 204}


def test_a_booked_pod_that_would_take_the_place_of_another_booking_waits_and_shows_why(
    alice: Person, bob: Person, playground: Playground
) -> None:
    tomorrow = (SystemClock().now() + timedelta(days=1)).isoformat()
    answer = bob.ask(model=A100, count=2, start=tomorrow, duration="P1D", topology="single-node")
    assert answer.status == 201, answer
    his = answer.body["id"]
    try:
        planned = playground.kube.get(BOOKINGS, his).spec.node
        alice.book(2, duration="P3D", topology="any")
        alice.create(a100("content"))
        assert playground.await_bound("content") != planned
        # With one of hers on each node none would be left whole for bob.
        alice.create(a100("stubborn", node=planned))
        assert predicates.BOOKED_BY_OTHERS in playground.await_waiting("stubborn")
    finally:
        assert bob.rest.ask("DELETE", f"/bookings/{his}").status in {200, 204}
    assert playground.await_bound("stubborn") == planned
