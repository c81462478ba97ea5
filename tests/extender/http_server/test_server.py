"""The extender's HTTP server, through a test client and the requests that a real scheduler sent."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs
from werkzeug.test import Client, TestResponse

from cluster import names
from cluster.kube.resources import PODS
from extender.binding.bind import TOO_MANY
from extender.http_server.server import Verbs, create_app
from extender.metrics import Metrics
from extender.state.cluster_state import Readiness
from extender.verbs.prioritize import Prioritize
from extender.wire import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
)
from tests.extender.cluster import Cluster
from tests.fakes.objects import a_pod

LIMIT = 100_000
FIXTURES = Path(__file__).parents[2] / "fixtures" / "scheduler"


def ready() -> str | None:
    return None


class Served:
    """A cluster and its extender's application."""

    def __init__(self, unready_reason: Readiness = ready, **verbs: Callable[..., Any]) -> None:
        self.cluster = Cluster()
        for node in ("n0", "n1", "n2"):
            self.cluster.add_node(node)
        self.registry = CollectorRegistry()
        served: dict[str, Any] = {
            "filter": self.cluster.filter.answer_logged,
            "prioritize": Prioritize(self.cluster.state, self.cluster.clock).answer_logged,
            "preempt": self.cluster.preempt,
            "bind": self.cluster.bind,
            "refuse_bind": self.cluster.bind.refuse,
            **verbs,
        }
        self.answering = 0
        self.app = create_app(
            Verbs(**served),
            unready_reason,
            self.cluster.clock,
            Metrics(self.registry),
            limit=LIMIT,
            binds_at_once=1,
            priority=self._priority,
        )
        self.client = Client(self.app)

    @contextmanager
    def _priority(self) -> Iterator[None]:
        self.answering += 1
        yield
        self.answering -= 1

    def post(self, path: str, body: bytes | str, **named: Any) -> TestResponse:
        """Post as kube-scheduler does."""
        return self.client.post(path, **{"data": body, "content_type": "application/json", **named})


def captured(name: str) -> bytes:
    return (FIXTURES / f"{name}.json").read_bytes()


def message(answer: TestResponse) -> str:
    assert answer.content_type == "application/json"
    (text,) = msgspec.json.decode(answer.data, type=dict[str, str]).values()
    return text


@pytest.fixture
def served() -> Served:
    return Served()


def test_a_schedulers_filter_request_is_answered_in_its_own_words(served: Served) -> None:
    answer = served.post("/filter", captured("filter"))

    assert answer.status_code == 200
    assert msgspec.json.decode(answer.data) == {
        "NodeNames": ["n0", "n1", "n2"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


def test_a_schedulers_prioritize_request_is_answered_in_its_own_words(served: Served) -> None:
    answer = served.post("/prioritize", captured("prioritize"))

    assert msgspec.json.decode(answer.data) == [], "all are alike"

    served.cluster.create(a_pod("q").asks(2).on("n1", {"main": ("GPU-n1-0", "GPU-n1-1")}).ended("Running"))

    answer = served.post("/prioritize", captured("prioritize"))
    assert msgspec.json.decode(answer.data) == [{"Host": "n1", "Score": 5}]


def test_a_schedulers_bind_request_is_answered_in_its_own_words(served: Served) -> None:
    pod = msgspec.json.decode(captured("filter"))["Pod"]
    arguments = msgspec.json.decode(captured("filter"), type=ExtenderArgs)
    stored = served.cluster.kube.put(PODS, pod)
    served.cluster.filter(msgspec.structs.replace(arguments, pod=stored))

    answer = served.post("/bind", captured("bind"))

    assert answer.status_code == 200
    assert msgspec.json.decode(answer.data) == {"Error": ""}
    assert served.cluster.given("a") == {"main": ("GPU-n2-0",)}


def test_a_schedulers_preempt_request_is_answered_in_its_own_words(served: Served) -> None:
    offers = msgspec.json.decode(captured("preempt"))["NodeNameToMetaVictims"]
    for node, victims in offers.items():
        (victim,) = victims["Pods"]
        devices = {"main": tuple(f"GPU-{node}-{index}" for index in range(4))}
        pod = replace(a_pod(f"on-{node}").asks(4), uid=victim["UID"])
        served.cluster.create(pod.on(node, devices))

    answer = served.post("/preempt", captured("preempt"))

    assert answer.status_code == 200
    assert msgspec.json.decode(answer.data) == {"NodeNameToMetaVictims": offers}


def test_answers_have_a_length_and_are_not_chunked(served: Served) -> None:
    answer = served.post("/filter", captured("filter"))

    assert answer.headers["Content-Length"] == str(len(answer.data))
    assert "Transfer-Encoding" not in answer.headers


VERBS = ("filter", "prioritize", "preempt", "bind")


def status_of(verb: str, status: int) -> int:
    """What is sent: kube-scheduler reads the reason in an answer of 200 only, where there is room for one."""
    return 200 if verb in {"filter", "bind"} else status


def counted(served: Served, verb: str, status: int) -> float | None:
    return served.registry.get_sample_value(
        "gpu_booking_extender_requests_total", {"verb": verb, "status": str(status)}
    )


@pytest.mark.parametrize("verb", VERBS)
def test_l6_every_verb_gives_the_reason_until_the_cache_is_trusted(verb: str) -> None:
    served = Served(unready_reason=lambda: "The pods of the cluster have not been read yet.")

    answer = served.post(f"/{verb}", captured(verb))

    assert answer.status_code == status_of(verb, 503)
    assert message(answer) == "The pods of the cluster have not been read yet."
    assert counted(served, verb, 503) == 1.0
    assert served.cluster.bindings() == []


@pytest.mark.parametrize("verb", ["filter", "bind"])
def test_the_reason_is_where_kube_scheduler_reads_it(verb: str) -> None:
    served = Served(unready_reason=lambda: names.NOT_NOW)

    answer = served.post(f"/{verb}", captured(verb))

    assert msgspec.json.decode(answer.data) == {"Error": names.NOT_NOW}


@pytest.mark.parametrize(
    ("verb", "goes_first"), [("filter", True), ("prioritize", True), ("preempt", True), ("bind", False)]
)
def test_verbs_that_kube_scheduler_waits_for_go_before_events_but_binds_do_not(
    verb: str, *, goes_first: bool
) -> None:
    seen: list[int] = []

    def answered(_arguments: object) -> list[object]:
        seen.append(served.answering)
        return []

    served = Served(**{verb: answered})
    served.post(f"/{verb}", captured(verb))
    assert (seen, served.answering) == ([int(goes_first)], 0)


def test_an_internal_error_is_one_message_and_no_traceback() -> None:
    def broken(_: ExtenderArgs) -> ExtenderFilterResult:
        raise ZeroDivisionError("secret detail")

    served = Served(filter=broken, prioritize=broken)

    for verb in ("filter", "prioritize"):
        answer = served.post(f"/{verb}", captured(verb))

        assert answer.status_code == status_of(verb, 500)
        assert message(answer).startswith("The extender failed to answer; its log says why")
        assert counted(served, verb, 500) == 1.0
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text


def test_an_unreadable_quantity_is_refused_by_prioritize(served: Served) -> None:
    pod = a_pod().asks(1).raw
    body = msgspec.json.encode({"Pod": pod, "NodeNames": ["n0"]}).replace(b'"1"', b'"1.5"')

    assert served.post("/prioritize", body).status_code == 400


def test_requests_are_counted_by_verb_and_status(served: Served) -> None:
    served.post("/filter", captured("filter"))
    served.post("/filter", b"{")

    assert (counted(served, "filter", 200), counted(served, "filter", 400)) == (1.0, 1.0)


def test_nodes_that_are_rejected_are_counted_by_reason(served: Served) -> None:
    body = msgspec.json.encode({"Pod": a_pod().asks(9).raw, "NodeNames": ["n0", "n1", "elsewhere"]})

    served.post("/filter", body, buffered=True)

    def count(reason: str) -> float | None:
        return served.registry.get_sample_value("gpu_booking_extender_rejections_total", {"reason": reason})

    assert (count("too-many"), count("not-published")) == (2.0, 1.0)


def test_a_filter_is_logged_in_one_short_line_after_its_answer_is_sent(served: Served) -> None:
    with capture_logs() as lines:
        served.post("/filter", captured("filter"), buffered=True)

    (line,) = lines
    assert line["event"] == "filter answered"
    assert (line["nodes"], line["fitting"], line["reasons"]) == (3, 3, {})
    assert len(msgspec.json.encode(line)) < 1024


def test_binds_take_a_bounded_number_of_threads_and_further_ones_are_refused_at_once() -> None:
    inner: list[str] = []

    def bind(_arguments: ExtenderBindingArgs) -> ExtenderBindingResult:
        """While it is in progress another one comes."""
        if not inner:
            inner.append("asked")
            inner.append(served.post("/bind", captured("bind")).get_json()["Error"])
        return ExtenderBindingResult()

    served = Served(bind=bind)
    assert served.post("/bind", captured("bind")).get_json()["Error"] == ""
    assert inner[1] == TOO_MANY
    assert served.post("/bind", captured("bind")).get_json()["Error"] == ""
