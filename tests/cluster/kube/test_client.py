import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from cluster.fake.clock import FakeClock, eventually
from cluster.kube.client import LONGEST_PAUSE, READ_ATTEMPTS, KubeClient
from cluster.kube.connection import Connection
from cluster.kube.errors import (
    BadRequest,
    Conflict,
    Gone,
    Malformed,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unprocessable,
    Unreachable,
    Unsent,
)
from cluster.kube.interface import INITIAL_EVENTS_END, Selection, WatchOptions
from cluster.kube.resources import LEASES, NODES, PODS
from cluster.kube.transport import Timeouts
from tests.fakes.apiserver import Answer, ScriptedServer, scripted_server

FIXTURES = Path(__file__).parents[2] / "fixtures" / "kube"
POD = b'{"metadata": {"name": "a", "namespace": "team", "uid": "u1", "resourceVersion": "7"}}'
BROKEN = Answer(cut=True)


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


class Tokens:
    """Credentials that are notified when the server refuses them."""

    def __init__(self) -> None:
        self.current = "old"

    def token(self) -> str | None:
        return self.current

    def invalidate(self) -> None:
        self.current = "new"


class SlowTokens(Tokens):
    """Credentials that take some time to be renewed."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds

    def invalidate(self) -> None:
        self._clock.advance(self._seconds)


def client(server: ScriptedServer, *, clock: FakeClock | None = None) -> KubeClient:
    connection = Connection(server=server.url, credentials=Tokens())
    timeouts = Timeouts(connect=5, read=5)
    return KubeClient(
        connection, clock or FakeClock(self_advancing=True), user_agent="tester/1", timeouts=timeouts
    )


class TestReading:
    def test_an_object_is_read_into_its_struct(self, server: ScriptedServer) -> None:
        server.answers(Answer(body=POD))
        pod = client(server).get(PODS, "a", namespace="team")
        assert pod.key == "team/a"
        assert server.received[0].target == "/api/v1/namespaces/team/pods/a"

    def test_every_request_has_the_user_agent_and_the_token(self, server: ScriptedServer) -> None:
        server.answers(Answer(body=POD))
        client(server).get(PODS, "a", namespace="team")
        headers = server.received[0].headers
        assert (headers["User-Agent"], headers["Authorization"]) == ("tester/1", "Bearer old")

    def test_a_list_is_read_in_pages(self, server: ScriptedServer) -> None:
        body = b'{"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [' + POD + b"]}"
        server.answers(Answer(body=body))
        selection = Selection(namespace="team", field_selector="spec.nodeName=n0", label_selector="x=y")
        page = client(server).list(PODS, selection, limit=500)
        assert (len(page.items), page.resource_version, page.continue_) == (1, "9", "t")
        assert server.received[0].target == (
            "/api/v1/namespaces/team/pods?fieldSelector=spec.nodeName%3Dn0&labelSelector=x%3Dy&limit=500"
        )

    def test_the_last_page_has_no_token_and_may_have_null_items(self, server: ScriptedServer) -> None:
        server.answers(Answer(body=b'{"metadata": {"resourceVersion": "9"}, "items": null}'))
        page = client(server).list(NODES, continue_="t")
        assert (page.items, page.continue_) == ((), None)
        assert server.received[0].target == "/api/v1/nodes?continue=t"

    @pytest.mark.parametrize("problem", [BROKEN, Answer(status=503, body=b""), Answer(status=429)])
    def test_a_read_is_tried_again_when_the_server_is_in_trouble(
        self, server: ScriptedServer, problem: Answer
    ) -> None:
        server.answers(problem, problem, Answer(body=POD))
        assert client(server).get(PODS, "a", namespace="team").metadata.uid == "u1"

    def test_a_read_gives_up_after_some_attempts(self, server: ScriptedServer) -> None:
        server.answers(*[BROKEN] * (READ_ATTEMPTS + 1))
        clock = FakeClock(self_advancing=True)
        with pytest.raises(Unreachable):
            client(server, clock=clock).get(NODES, "n0")
        assert len(server.received) == READ_ATTEMPTS
        assert len(clock.waits) == READ_ATTEMPTS - 1

    @pytest.mark.parametrize(("retry_after", "waited"), [("3", 3.0), ("3600", LONGEST_PAUSE)])
    def test_an_overloaded_server_decides_how_long_to_wait_before_the_next_attempt(
        self, server: ScriptedServer, retry_after: str, waited: float
    ) -> None:
        server.answers(Answer(status=429, headers={"Retry-After": retry_after}), Answer(body=POD))
        clock = FakeClock(self_advancing=True)
        assert client(server, clock=clock).get(PODS, "a", namespace="team").metadata.uid == "u1"
        assert clock.waits == [waited]

    def test_no_attempt_begins_when_the_time_for_a_read_is_over(self, server: ScriptedServer) -> None:
        busy = Answer(status=429, headers={"Retry-After": "4"})
        server.answers(busy, busy, busy, busy)
        clock = FakeClock(self_advancing=True)
        with pytest.raises(TooManyRequests):
            client(server, clock=clock).get(NODES, "n0")
        assert clock.waits == [4.0, 4.0]
        assert len(server.received) == 3

    def test_a_read_that_waits_ends_when_the_client_is_closed(self, server: ScriptedServer) -> None:
        server.answers(BROKEN, Answer(body=POD))
        clock = FakeClock()
        made = client(server, clock=clock)
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(made.get, PODS, "a", namespace="team")
            clock.until_waiting()
            made.close()
            with pytest.raises(Unreachable):
                answer.result(10)
        assert len(server.received) == 1

    def test_a_refused_read_is_not_tried_again(self, server: ScriptedServer) -> None:
        server.answers(
            Answer(status=404, body=b'{"message": "pods \\"a\\" not found", "reason": "NotFound"}')
        )
        with pytest.raises(
            NotFound, match=r'GET /api/v1/namespaces/team/pods/a .*404 NotFound.*"a" not found'
        ):
            client(server).get(PODS, "a", namespace="team")
        assert len(server.received) == 1

    def test_an_answer_of_another_shape_is_malformed(self, server: ScriptedServer) -> None:
        server.answers(Answer(body=b'{"metadata": []}'))
        with pytest.raises(Malformed, match=r"GET /api/v1/nodes/n0 .*metadata"):
            client(server).get(NODES, "n0")

    def test_a_redirect_is_not_followed(self, server: ScriptedServer) -> None:
        server.answers(Answer(status=302, headers={"Location": "http://127.0.0.1:1/"}))
        with pytest.raises(Malformed, match="redirect"):
            client(server).get(NODES, "n0")

    def test_a_server_that_does_not_listen_is_unreachable(self) -> None:
        connection = Connection(server="http://127.0.0.1:1")
        with pytest.raises(Unreachable, match=r"GET /api/v1/nodes/n0 was not sent.*refused"):
            KubeClient(connection, FakeClock(self_advancing=True), user_agent="t").get(NODES, "n0")


class TestWriting:
    def test_a_write_is_never_sent_twice(self, server: ScriptedServer) -> None:
        server.answers(BROKEN)
        with pytest.raises(Unreachable):
            client(server).patch(NODES, "n0", {"metadata": {"annotations": {"a": "b"}}})
        assert len(server.received) == 1

    def test_a_client_with_one_read_attempt_reads_once(self, server: ScriptedServer) -> None:
        server.answers(Answer(status=500))
        connection = Connection(server=server.url, credentials=Tokens())
        hasty = KubeClient(connection, FakeClock(), user_agent="test/1", read_attempts=1)
        with pytest.raises(ServerError):
            hasty.get(PODS, "a", namespace="team")
        assert len(server.received) == 1

    def test_a_failed_write_is_a_server_error_and_not_tried_again(self, server: ScriptedServer) -> None:
        server.answers(Answer(status=500, body=b"upstream fell over"))
        with pytest.raises(ServerError, match=r"POST /api/v1/namespaces/team/pods.*500.*upstream fell over"):
            client(server).create(PODS, {"metadata": {"name": "a"}}, namespace="team")
        assert len(server.received) == 1

    def test_a_created_object_carries_its_kind(self, server: ScriptedServer) -> None:
        server.answers(Answer(status=201, body=b'{"metadata": {"name": "l"}}'))
        client(server).create(LEASES, {"metadata": {"name": "l"}}, namespace="gpu-booking")
        sent = server.received[0]
        assert sent.target == "/apis/coordination.k8s.io/v1/namespaces/gpu-booking/leases"
        assert msgspec.json.decode(sent.body) == {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "l"},
        }

    def test_a_patch_is_a_merge_patch(self, server: ScriptedServer) -> None:
        server.answers(Answer(body=POD))
        client(server).patch(PODS, "a", {"status": {}}, namespace="team", subresource="status")
        sent = server.received[0]
        assert (sent.verb, sent.target) == ("PATCH", "/api/v1/namespaces/team/pods/a/status")
        assert sent.headers["Content-Type"] == "application/merge-patch+json"

    def test_a_dry_run_of_a_patch_is_sent_as_one(self, server: ScriptedServer) -> None:
        server.answers(Answer(body=POD))
        client(server).patch(PODS, "a", {"metadata": {}}, namespace="team", dry_run=True)
        assert server.received[0].target == "/api/v1/namespaces/team/pods/a?dryRun=All"

    def test_a_patch_for_another_uid_is_a_conflict_though_the_server_calls_it_invalid(
        self, server: ScriptedServer
    ) -> None:
        body = b'{"reason": "Invalid", "details": {"causes": [{"field": "metadata.uid"}]}}'
        server.answers(Answer(status=422, body=body))
        with pytest.raises(Conflict):
            client(server).patch(PODS, "a", {"metadata": {"uid": "u2"}}, namespace="team")

    def test_a_patch_that_is_invalid_otherwise_stays_so(self, server: ScriptedServer) -> None:
        body = b'{"reason": "Invalid", "details": {"causes": [{"field": "spec"}]}}'
        server.answers(Answer(status=422, body=body))
        with pytest.raises(Unprocessable):
            client(server).patch(PODS, "a", {"spec": {}}, namespace="team")

    def test_a_binding_that_comes_too_late_is_a_conflict_in_the_servers_words(
        self, server: ScriptedServer
    ) -> None:
        server.answers(Answer(status=409, body=(FIXTURES / "binding_conflict_409.json").read_bytes()))
        with pytest.raises(Conflict, match='already assigned to node "n0"') as caught:
            client(server).create_subresource(
                PODS, "binding", {"target": {"name": "n1"}}, name="bb", namespace="default"
            )
        assert (caught.value.code, caught.value.reason) == (409, "Conflict")

    @pytest.mark.parametrize(("seconds", "sent"), [(1.9, 2), (2.1, 1)])
    def test_a_request_with_a_deadline_is_not_sent_again_after_it(
        self, server: ScriptedServer, seconds: float, sent: int
    ) -> None:
        clock = FakeClock()
        connection = Connection(server=server.url, credentials=SlowTokens(clock, seconds))
        kube = KubeClient(connection, clock, user_agent="tester/1", timeouts=Timeouts(connect=5, read=5))
        server.answers(Answer(status=401), Answer(status=401))
        with pytest.raises(Unauthorized if sent == 2 else Unsent):
            kube.create_subresource(PODS, "binding", {}, name="a", namespace="team", within=2.0)
        assert len(server.received) == sent

    def test_a_read_with_a_deadline_is_sent_once(self, server: ScriptedServer) -> None:
        server.answers(Answer(status=503), Answer(status=503))
        with pytest.raises(ServerError):
            client(server).get(PODS, "a", namespace="team", within=4.0)
        assert len(server.received) == 1

    def test_an_answer_is_awaited_for_as_long_as_there_is_time(self, server: ScriptedServer) -> None:
        server.answers(Answer(chunks=(None,)), Answer(chunks=(None,)))
        kube = client(server)
        with pytest.raises(Unreachable, match="timed out"):
            kube.get(PODS, "a", namespace="team", within=0.2)
        with pytest.raises(Unreachable, match="timed out"):
            kube.create_subresource(PODS, "binding", {}, name="a", namespace="team", answered=0.2)
        assert len(server.received) == 2

    def test_an_eviction_that_a_budget_forbids_is_an_error_with_the_reason(
        self, server: ScriptedServer
    ) -> None:
        body = (FIXTURES / "eviction_pdb_429.json").read_bytes()
        server.answers(Answer(status=429, body=body, headers={"Retry-After": "10"}))
        with pytest.raises(TooManyRequests, match="disruption budget") as caught:
            client(server).create_subresource(PODS, "eviction", {}, name="a", namespace="team")
        assert caught.value.retry_after == 10.0

    def test_a_deletion_is_sent_with_its_preconditions_and_grace_period(self, server: ScriptedServer) -> None:
        server.answers(Answer())
        client(server).delete(PODS, "a", namespace="team", uid="u1", resource_version="7", grace_seconds=0)
        assert msgspec.json.decode(server.received[0].body) == {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": "u1", "resourceVersion": "7"},
            "gracePeriodSeconds": 0,
        }


class JumpingClock(FakeClock):
    """A clock whose wall time is set by a test; its monotonic time continues."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


class TestCredentialsAndTime:
    def test_a_rotated_token_is_read_again_when_the_server_refuses_it(self, server: ScriptedServer) -> None:
        server.answers(Answer(status=401), Answer(status=201, body=POD))
        client(server).create(PODS, {}, namespace="team")
        tokens = [received.headers["Authorization"] for received in server.received]
        assert tokens == ["Bearer old", "Bearer new"]

    def test_a_token_that_stays_refused_is_an_error(self, server: ScriptedServer) -> None:
        server.answers(Answer(status=401), Answer(status=401))
        with pytest.raises(Unauthorized):
            client(server).get(NODES, "n0")

    def test_the_servers_clock_is_compared_with_ours(self, server: ScriptedServer) -> None:
        clock = FakeClock()
        kube = client(server, clock=clock)
        assert kube.skew() is None
        ours = clock.now()
        server.answers(Answer(headers={"Date": f"{ours + timedelta(seconds=90):%a, %d %b %Y %H:%M:%S} GMT"}))
        kube.get(NODES, "n0")
        assert kube.skew() == timedelta(seconds=90)

    def test_a_clock_that_jumps_is_noticed_before_the_next_answer(self, server: ScriptedServer) -> None:
        clock = JumpingClock()
        kube = client(server, clock=clock)
        server.answers(Answer(headers={"Date": f"{clock.now():%a, %d %b %Y %H:%M:%S} GMT"}))
        kube.get(NODES, "n0")
        clock.advance(300)
        assert kube.skew() == timedelta()
        clock.ahead = timedelta(hours=1)
        assert kube.skew() == timedelta(hours=-1)
        clock.ahead = timedelta()
        assert kube.skew() == timedelta()

    @pytest.mark.parametrize("headers", [{}, {"Date": "yesterday"}])
    def test_an_answer_without_a_readable_date_gives_no_skew(
        self, server: ScriptedServer, headers: dict[str, str]
    ) -> None:
        server.answers(Answer(headers=headers))
        kube = client(server)
        kube.get(NODES, "n0")
        assert kube.skew() is None


class TestWatching:
    def test_a_streamed_list_ends_with_its_bookmark_though_its_containers_are_null(
        self, server: ScriptedServer
    ) -> None:
        server.answers(Answer(chunks=[(FIXTURES / "watchlist_stream.jsonl").read_bytes()]))
        watch = client(server).watch(PODS, options=WatchOptions(initial_events=True, timeout_seconds=300))
        first, last = list(watch)
        assert (first.type, first.object.key) == ("ADDED", "default/jj-pbj6s")
        assert (last.type, last.object.metadata.annotation(INITIAL_EVENTS_END)) == ("BOOKMARK", "true")
        assert server.received[0].target == (
            "/api/v1/pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
            "&resourceVersionMatch=NotOlderThan&timeoutSeconds=300"
        )

    def test_events_cut_anywhere_by_the_network_are_put_together(self, server: ScriptedServer) -> None:
        text = (FIXTURES / "watchlist_stream.jsonl").read_bytes()
        server.answers(Answer(chunks=[text[i : i + 7] for i in range(0, len(text), 7)]))
        events = list(client(server).watch(PODS, options=WatchOptions(resource_version="1")))
        assert [event.type for event in events] == ["ADDED", "BOOKMARK"]

    def test_expired_history_arrives_as_an_event(self, server: ScriptedServer) -> None:
        server.answers(Answer(chunks=[(FIXTURES / "watch_410.jsonl").read_bytes()]))
        watch = client(server).watch(PODS, options=WatchOptions(resource_version="1"))
        with pytest.raises(Gone, match=r"too old resource version: 1 \(35518\)"):
            list(watch)

    def test_a_refused_watch_is_not_tried_again(self, server: ScriptedServer) -> None:
        server.answers(Answer(status=400, body=b'{"message": "no"}'))
        with pytest.raises(BadRequest):
            client(server).watch(PODS)

    def test_an_event_of_an_unknown_type_is_malformed(self, server: ScriptedServer) -> None:
        server.answers(Answer(chunks=[b'{"type": "RENAMED", "object": {}}\n']))
        with pytest.raises(Malformed, match="RENAMED"):
            list(client(server).watch(PODS))

    def test_a_broken_connection_is_unreachable(self, server: ScriptedServer) -> None:
        server.answers(Answer(chunks=[b'{"type": "BOOKMARK", "object": {}}\n'], cut=True))
        with pytest.raises(Unreachable):
            list(client(server).watch(PODS))

    def test_a_silent_watch_is_unreachable(self, server: ScriptedServer) -> None:
        server.answers(Answer(chunks=[None]))
        with pytest.raises(Unreachable, match="timed out"):
            list(client(server).watch(PODS, options=WatchOptions(silence_seconds=0.05)))

    def test_an_idle_watch_is_ended_from_another_thread(self, server: ScriptedServer) -> None:
        server.answers(Answer(chunks=[b'{"type": "BOOKMARK", "object": {}}\n', None]))
        watch = client(server).watch(PODS)
        seen: list[str] = []
        thread = threading.Thread(target=lambda: seen.extend(event.type for event in watch))
        thread.start()
        eventually(lambda: server.received)
        watch.close()
        thread.join(10)
        assert not thread.is_alive()

    def test_an_unread_watch_can_be_closed_twice(self, server: ScriptedServer) -> None:
        server.answers(Answer(chunks=[None]))
        watch = client(server).watch(PODS)
        watch.close()
        watch.close()
        assert list(watch) == []
