"""The proxy between a client and a real HTTPS server; the client is our own, which the parts use."""

import queue
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from cluster.fake.clock import eventually
from cluster.kube.client import KubeClient
from cluster.kube.connection import Connection
from cluster.kube.errors import Conflict, Gone, ServerError, TooManyRequests, Unreachable
from cluster.kube.interface import WatchOptions
from cluster.kube.resources import NODES, PODS
from cluster.kube.transport import Timeouts
from cluster.process.clock import SystemClock
from devcluster.faultproxy import Call, FaultAnswer, FaultProxy, Lose, Match, Refuse, Rule, Slow, Stall
from tests.devcluster.faultproxy.upstream import Upstream, upstream

BODY = {"metadata": {"uid": "1"}}
WATCH = Match(watch=True)


class Token:
    def token(self) -> str:
        return "secret"

    def invalidate(self) -> None:
        """Do nothing: there is no other token."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Upstream]:
    with upstream(tmp_path / "upstream") as running:
        yield running


@pytest.fixture
def proxy(server: Upstream, tmp_path: Path) -> Iterator[FaultProxy]:
    with FaultProxy(server.url, server.ca_file, tmp_path / "proxy") as running:
        yield running


@pytest.fixture
def kube(proxy: FaultProxy) -> Iterator[KubeClient]:
    connection = Connection(server=proxy.url, ca_file=proxy.ca_file, credentials=Token())
    client = KubeClient(connection, SystemClock(), user_agent="part/1", timeouts=Timeouts(read=1.0))
    yield client
    client.close()


def patch(kube: KubeClient, name: str = "n0") -> str:
    return kube.patch(NODES, name, BODY).metadata.name


def test_requests_and_answers_pass_with_token_and_date(
    kube: KubeClient, proxy: FaultProxy, server: Upstream
) -> None:
    assert patch(kube) == "PATCH /api/v1/nodes/n0"
    verb, path, headers, body = server.requests[0]
    assert (verb, path, body) == ("PATCH", "/api/v1/nodes/n0", b'{"metadata":{"uid":"1"}}')
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/merge-patch+json"
    skew = kube.skew()
    assert skew is not None
    assert abs(skew) > timedelta(hours=1), "the date is the server's, not the proxy's"
    (record,) = proxy.rules.records
    assert (str(record.call), record.status) == ("part: PATCH nodes of n0", 200)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (FaultAnswer(code=409, reason="Conflict"), Conflict),
        (FaultAnswer(code=410, reason="Expired"), Gone),
        (FaultAnswer(code=429, reason="TooManyRequests", retry_after=3), TooManyRequests),
        (FaultAnswer(code=500, reason="InternalError"), ServerError),
    ],
)
def test_a_call_with_a_made_up_answer_does_not_reach_the_server(
    kube: KubeClient, proxy: FaultProxy, server: Upstream, answer: FaultAnswer, error: type[Exception]
) -> None:
    proxy.rules.set(Rule(match=Match(verbs=frozenset({"PATCH"})), action=answer))
    with pytest.raises(error) as caught:
        patch(kube)
    assert caught.value.reason == answer.reason
    assert caught.value.refusal.retry_after == answer.retry_after
    assert not server.requests
    assert patch(kube), "the next one passes, on the same connection"
    assert [record.status for record in proxy.rules.records] == [answer.code, 200]


@pytest.mark.parametrize(("action", "arrived"), [(Refuse, 0), (Lose, 1)])
def test_a_connection_ends_before_or_after_the_server_has_acted(
    kube: KubeClient,
    proxy: FaultProxy,
    server: Upstream,
    action: Callable[..., Refuse | Lose],
    arrived: int,
) -> None:
    seen: list[tuple[str, int]] = []

    def meanwhile(call: Call) -> None:
        seen.append((call.step, len(server.requests)))

    proxy.rules.set(Rule(match=Match(), action=action(meanwhile=meanwhile)))
    with pytest.raises(Unreachable):
        patch(kube)
    assert seen == [("PATCH nodes", arrived)]
    assert patch(kube), "the next one passes, on another connection"
    assert len(server.requests) == arrived + 1


@pytest.mark.parametrize("late", [False, True])
def test_a_slow_call_that_the_client_gives_up_still_reaches_the_server(
    kube: KubeClient, proxy: FaultProxy, server: Upstream, *, late: bool
) -> None:
    proxy.rules.set(Rule(match=Match(), action=Slow(seconds=2.0, forwarded_late=late)))
    with pytest.raises(Unreachable):
        patch(kube)
    assert len(server.requests) == (0 if late else 1)
    eventually(lambda: len(server.requests) == 1)


# --- watches -------------------------------------------------------------------------------------------
def event(number: int) -> bytes:
    return b'{"type":"ADDED","object":{"metadata":{"name":"p%d"}}}\n' % number


class Watcher:
    """Follows pods in its own thread."""

    def __init__(self, kube: KubeClient) -> None:
        self.seen: list[str] = []
        self.error: Exception | None = None
        self.watch = kube.watch(PODS, options=WatchOptions(silence_seconds=20.0))
        self.thread = threading.Thread(target=self._follow, daemon=True)
        self.thread.start()

    def _follow(self) -> None:
        try:
            for one in self.watch:
                self.seen.append(one.object.metadata.name)
        except (Unreachable, Gone) as error:
            self.error = error

    def ended(self) -> Exception | None:
        self.thread.join(20)
        assert not self.thread.is_alive()
        return self.error


def test_events_pass_one_by_one_and_a_watch_ends_cleanly(
    kube: KubeClient, proxy: FaultProxy, server: Upstream
) -> None:
    watcher = Watcher(kube)
    for number in range(3):
        server.events.put(event(number))
        eventually(lambda seen=number + 1: len(watcher.seen) == seen)
    assert proxy.watches() == 1
    server.events.put(None)
    assert watcher.ended() is None
    eventually(lambda: proxy.watches() == 0)


def test_a_running_watch_is_cut_from_outside(kube: KubeClient, proxy: FaultProxy, server: Upstream) -> None:
    watcher = Watcher(kube)
    server.events.put(event(0))
    eventually(lambda: watcher.seen == ["p0"])
    assert proxy.cut_watches(lambda call: call.place.resource == "nodes") == 0
    assert proxy.cut_watches(lambda call: call.place.resource == "pods") == 1
    assert isinstance(watcher.ended(), Unreachable)


@pytest.mark.parametrize(
    ("action", "error", "arrived"),
    [
        (FaultAnswer(code=429, reason="TooManyRequests", retry_after=1), TooManyRequests, 0),
        (FaultAnswer(code=500, reason="InternalError"), ServerError, 0),
        (Refuse(), Unreachable, 0),
        (Lose(), Unreachable, 1),
    ],
)
def test_a_watch_does_not_open_and_the_next_one_does(
    kube: KubeClient,
    proxy: FaultProxy,
    server: Upstream,
    action: FaultAnswer | Refuse | Lose,
    error: type[Exception],
    arrived: int,
) -> None:
    proxy.rules.set(Rule(match=WATCH, action=action))
    with pytest.raises(error):
        kube.watch(PODS, options=WatchOptions(silence_seconds=20.0))
    assert (len(server.requests), proxy.watches()) == (arrived, 0)
    # The server learns that the watch whose answer was lost is over when it can send no more events.
    if arrived:
        eventually(lambda: server.events.put(event(0)) or server.watch_broke.wait(0.01))
    server.events = queue.SimpleQueue()
    watcher = Watcher(kube)
    server.events.put(event(1))
    eventually(lambda: watcher.seen == ["p1"])


def test_events_of_a_stalled_watch_come_late_and_complete(
    kube: KubeClient, proxy: FaultProxy, server: Upstream
) -> None:
    proxy.rules.set(Rule(match=WATCH, action=Stall(seconds=1.0, events=1)))
    watcher = Watcher(kube)
    clock = SystemClock()
    begin = clock.monotonic()
    for number in range(4):
        server.events.put(event(number))
    eventually(lambda: len(watcher.seen) == 4)
    assert watcher.seen == ["p0", "p1", "p2", "p3"]
    assert clock.monotonic() - begin >= 1.0


def test_the_server_notices_at_once_that_a_client_has_gone(
    kube: KubeClient, proxy: FaultProxy, server: Upstream
) -> None:
    watcher = Watcher(kube)
    server.events.put(event(0))
    eventually(lambda: watcher.seen == ["p0"])
    watcher.watch.close()
    assert watcher.ended() is None
    eventually(lambda: proxy.watches() == 0)
    # The server also notices it when it can send no more events.
    eventually(lambda: server.events.put(event(1)) or server.watch_broke.wait(0.01))
