"""A corrected clock, ours or the API server's, is trusted again within some seconds."""

import threading
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.kube.client import KubeClient
from cluster.kube.clock_skew import clock_skew_reason
from cluster.kube.connection import Connection
from cluster.kube.resources import LEASES
from cluster.process.loops import Loops
from extender.clock_check import CALM, EVERY, WITHIN, ClockCheck
from tests.fakes.apiserver import Answer, ScriptedServer, scripted_server
from tests.threads import running

EMPTY = b'{"metadata": {"resourceVersion": "1"}, "items": []}'


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


class NoToken:
    """Credentials without a token."""

    def token(self) -> str | None:
        """None."""
        return None

    def invalidate(self) -> None:
        """Nothing to renew."""


def dated(at: datetime, *, status: int = 200) -> Answer:
    """An answer of an API server whose clock shows this."""
    return Answer(status=status, body=EMPTY, headers={"Date": f"{at:%a, %d %b %Y %H:%M:%S} GMT"})


@pytest.mark.parametrize("status", [200, 403])
def test_l6_the_api_servers_clock_is_asked_for_again_while_it_differs(
    server: ScriptedServer, status: int
) -> None:
    clock = FakeClock()
    connection = Connection(server=server.url, credentials=NoToken())
    kube = KubeClient(connection, clock, user_agent="tester/1")
    unready_reason = clock_skew_reason(kube.skew)
    remeasure = ClockCheck(kube, unready_reason, clock, namespace=names.NAMESPACE)
    remeasure.reconcile()
    assert server.received == []
    server.answers(dated(clock.now() + timedelta(hours=1)))
    kube.list(LEASES, limit=1)
    clock.advance(300)
    assert unready_reason()
    server.answers(dated(clock.now(), status=status))
    remeasure.reconcile()
    assert unready_reason() is None
    requests_before = len(server.received)
    remeasure.reconcile()
    assert len(server.received) == requests_before


def test_l6_an_answer_that_is_lost_is_asked_for_again_in_the_next_round(server: ScriptedServer) -> None:
    clock = FakeClock()
    kube = KubeClient(Connection(server=server.url, credentials=NoToken()), clock, user_agent="tester/1")
    unready_reason = clock_skew_reason(kube.skew)
    remeasure = ClockCheck(kube, unready_reason, clock, namespace=names.NAMESPACE)
    server.answers(dated(clock.now() + timedelta(hours=1)))
    kube.list(LEASES, limit=1)
    requests_before = len(server.received)
    server.answers(Answer(cut=True, chunks=()), dated(clock.now()))
    remeasure.reconcile()
    assert (len(server.received), bool(unready_reason())) == (requests_before + 1, True)
    remeasure.reconcile()
    assert unready_reason() is None


def test_l6_a_corrected_clock_is_trusted_within_fifteen_seconds() -> None:
    assert EVERY + WITHIN + EVERY <= 15.0, "also where one answer in between is lost"


def test_l6_a_clock_that_goes_wrong_is_noticed_without_any_other_request(server: ScriptedServer) -> None:
    clock = FakeClock()
    connection = Connection(server=server.url, credentials=NoToken())
    kube = KubeClient(connection, clock, user_agent="tester/1")
    unready_reason = clock_skew_reason(kube.skew)
    loop = Loops(clock, lambda _name: None).rounds(
        "clock", EVERY, ClockCheck(kube, unready_reason, clock, namespace=names.NAMESPACE).reconcile
    )
    stop = threading.Event()
    with running([lambda: loop(stop)], stop):

        def pass_time(seconds: float) -> None:
            for _ in range(int(seconds / EVERY)):
                clock.until_waiting()
                clock.advance(EVERY)
            clock.until_waiting()

        server.answers(dated(clock.now() + timedelta(hours=1)))
        pass_time(CALM)
        assert unready_reason()
        server.answers(dated(clock.now()))
        pass_time(EVERY)
        assert unready_reason() is None
