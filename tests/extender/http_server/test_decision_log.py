"""The last decisions are at hand, newest first, whatever the level of the log."""

import io
import logging

import msgspec
import pytest
import structlog
from werkzeug.test import Client

from cluster.fake.clock import FakeClock
from cluster.process import logs
from extender.http_server.decision_log import PATH, DecisionLog, with_decision_log
from tests.extender.http_server.test_server import Served, captured


def lines(client: Client) -> list[dict[str, object]]:
    found: list[dict[str, object]] = msgspec.json.decode(client.get(PATH).data)
    return found


@pytest.fixture
def decision_log() -> DecisionLog:
    return DecisionLog(FakeClock(), size=2)


@pytest.fixture
def _logged(decision_log: DecisionLog) -> object:
    """The process's logs as an extender has them, and as they were afterwards."""
    before, handlers = structlog.get_config(), logging.root.handlers[:]
    level = logging.root.level
    logs.configure(level="error", stream=io.StringIO(), keep=decision_log.keep)
    yield
    structlog.configure(**before)
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)


@pytest.mark.usefixtures("_logged")
def test_the_last_decisions_are_kept_newest_first(decision_log: DecisionLog) -> None:
    served = Served()
    client = Client(with_decision_log(served.app, decision_log))
    for verb in ("bind", "filter", "prioritize", "preempt"):
        client.post(f"/{verb}", data=captured(verb), content_type="application/json", buffered=True)
    assert [line["event"] for line in lines(client)] == ["preempt answered", "prioritize answered"]
    assert lines(client)[1]["pod"] == "default/a"


def test_other_paths_of_the_server_answer_as_without_the_decision_log(decision_log: DecisionLog) -> None:
    served = Served()
    client = Client(with_decision_log(served.app, decision_log))
    assert client.post(PATH, data=b"").status_code == 404
    assert client.get("/filter").status_code == 405
