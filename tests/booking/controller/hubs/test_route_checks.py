"""A hub is told that a notebook is back until its proxy leads there, and whatever it does delays nobody."""

import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from booking.controller.hubs.hub import Hub
from booking.controller.hubs.hub_api import HubError
from booking.controller.hubs.returned_notebooks import ReturnedNotebooks
from booking.controller.hubs.route_checks import EVERY, FOR, REST, RouteChecks
from cluster.fake.clock import FakeClock, eventually
from tests.booking.controller.hubs.test_returned_notebooks import a_notebook
from tests.booking.controller.reclaimer.evictions.comeback_rounds import Longest


class FakeHub:
    """It learns a notebook's address when it polls, and its proxy leads there once it is told to check."""

    def __init__(self) -> None:
        self.polled: set[str] = set()
        self.routes: frozenset[str] = frozenset({"10.0.0.1"})
        self.checks = 0
        self.fails: str | None = None

    def check_routes(self) -> None:
        self.checks += 1
        if self.fails:
            raise HubError(self.fails)
        self.routes = frozenset(self.polled)

    def hosts(self) -> frozenset[str]:
        return self.routes


class World:
    """Two hubs and the replica that tells them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.returned = ReturnedNotebooks(self.clock)
        self.registry = CollectorRegistry()
        self.hubs = {"hub": FakeHub(), "other": FakeHub()}
        self.leads = True
        token = Path("/none")
        hubs = tuple(
            (Hub(url="http://hub/hub/api", token_file=token, namespace=where), api)
            for where, api in self.hubs.items()
        )
        self.checks = RouteChecks(
            hubs,
            self.returned,
            self.clock,
            leads=lambda: self.leads,
            registry=self.registry,
            random=Longest(),
        )

    def pass_time(self, seconds: float) -> None:
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            self.clock.advance(min(self.checks.round(), end - self.clock.monotonic()))

    def counted(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"gpu_booking_{name}_total", labels)


@pytest.fixture
def world() -> World:
    return World()


def test_a_hub_that_has_polled_leads_to_the_notebook_after_one_check(world: World) -> None:
    world.hubs["hub"].polled.add("10.0.0.2")
    world.returned.upsert(a_notebook())
    assert world.checks.round() == REST
    assert (world.hubs["hub"].checks, world.hubs["other"].checks) == (1, 0)
    assert world.counted("controller_hub_notebooks", outcome="routed") == 1


def test_a_hub_that_has_not_polled_is_informed_again_until_it_has(world: World) -> None:
    world.returned.upsert(a_notebook())
    world.pass_time(5 * EVERY)
    assert world.hubs["hub"].checks == 5
    world.hubs["hub"].polled.add("10.0.0.2")
    world.pass_time(EVERY)
    assert (world.hubs["hub"].checks, world.returned.waiting) == (6, ())


def test_after_a_minute_a_route_is_left_to_the_hub(world: World) -> None:
    world.returned.upsert(a_notebook())
    world.pass_time(3 * FOR)
    assert world.hubs["hub"].checks <= FOR / EVERY + 1
    assert world.counted("controller_hub_notebooks", outcome="left") == 1


def test_a_hub_that_fails_is_asked_less_often_and_logged_once(world: World) -> None:
    world.hubs["hub"].fails = "It does not answer."
    world.returned.upsert(a_notebook())
    with capture_logs() as lines:
        world.pass_time(FOR)
    assert 5 <= world.hubs["hub"].checks < FOR / EVERY / 2
    assert world.counted("controller_hub_failures") == world.hubs["hub"].checks
    assert [line["error"] for line in lines if "error" in line] == ["It does not answer."]


def test_all_notebooks_of_a_hub_are_one_check(world: World) -> None:
    world.hubs["hub"].polled |= {f"10.0.0.{number}" for number in range(50)}
    for number in range(50):
        world.returned.upsert(a_notebook(f"n{number}", address=f"10.0.0.{number}"))
    world.checks.round()
    assert (world.hubs["hub"].checks, world.returned.waiting) == (1, ())


def test_a_replica_that_does_not_lead_asks_nobody_and_takes_over_what_is_new(world: World) -> None:
    world.leads = False
    world.returned.upsert(a_notebook("old"))
    world.pass_time(FOR + EVERY)
    world.returned.upsert(a_notebook("recent"))
    world.leads = True
    world.checks.round()
    assert [one.uid for one in world.returned.waiting] == ["recent"]
    assert world.hubs["hub"].checks == 1


def test_a_notebook_that_is_of_no_hub_is_nobodys_affair(world: World) -> None:
    notebook: Any = a_notebook()
    world.returned.upsert(type(notebook)(metadata=_elsewhere(notebook.metadata), status=notebook.status))
    assert (world.checks.round(), world.returned.waiting) == (REST, ())


def _elsewhere(meta: Any) -> Any:
    return type(meta)(name=meta.name, namespace="elsewhere", uid=meta.uid, annotations=meta.annotations)


def test_the_thread_wakes_when_a_notebook_is_back_and_ends_with_the_process(world: World) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=world.checks.run, args=(stop,))
    thread.start()
    world.clock.until_waiting()
    world.returned.upsert(a_notebook())
    eventually(lambda: world.hubs["hub"].checks)
    stop.set()
    thread.join(30)
    assert not thread.is_alive()


def test_an_address_that_is_none_is_refused_with_an_example() -> None:
    for url in ("hub:8081", "ftp://hub/hub/api", "http:///hub/api", "http://hub/hub/api?x=1"):
        with pytest.raises(ValueError, match="hub/api"):
            Hub(url=url, token_file=Path("/none"))
