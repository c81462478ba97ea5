"""The state of the cache, as metrics."""

import pytest
from prometheus_client import CollectorRegistry

from cluster.kube.errors import Request, Unreachable
from extender.gauges import Sources, show
from tests.extender.cluster import Cluster
from tests.fakes.objects import A100, A6000, a_pod


class Scraped:
    """A cluster, and what a scrape of its extender says."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.add_node("n0")
        self.registry = CollectorRegistry()
        sources = Sources(staleness=lambda: 1.5, lists=lambda: {"pods": 2, "nodes": 1}, rejecting=lambda: 0.0)
        show(self.registry, self.cluster.state, sources)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"gpu_booking_extender_{name}", labels)


@pytest.fixture
def scraped() -> Scraped:
    return Scraped()


def test_devices_are_counted_by_model_free_and_held(scraped: Scraped) -> None:
    scraped.cluster.create(a_pod("a").asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    scraped.cluster.create(a_pod("kept").asks(1).kept("n0", "GPU-n0-2"))

    assert (scraped.value("devices_free", model=A100), scraped.value("devices_held", model=A100)) == (1, 1)
    assert scraped.value("devices_free", model=A6000) == 1
    assert scraped.value("devices_held", model=A6000) is None


def test_devices_that_a_pod_names_and_the_node_lacks_are_not_counted_as_held(scraped: Scraped) -> None:
    scraped.cluster.create(a_pod("a").asks(1).on("n0", {"main": ("GPU-elsewhere",)}))

    assert scraped.value("devices_held", model=A100) is None


def test_binds_without_an_answer_are_counted(scraped: Scraped) -> None:
    assert scraped.value("assumed_binds") == 0
    pod = scraped.cluster.create(a_pod().asks(1))
    scraped.cluster.ask(pod)
    scraped.cluster.kube.fail("POST", Unreachable(Request("POST", "/binding"), "timed out"))
    scraped.cluster.bind_to(pod)
    assert scraped.value("assumed_binds") == 1


def test_every_conflict_is_counted_when_first_seen(scraped: Scraped) -> None:
    assert scraped.value("device_conflicts_total", node="n0") is None
    for name in "ab":
        scraped.cluster.create(a_pod(name).asks(1).on("n0", {"main": ("GPU-n0-0",)}))
    scraped.cluster.view()
    scraped.cluster.create(a_pod("c").asks(1).on("n0", {"main": ("GPU-n0-1",)}))
    scraped.cluster.view()
    assert scraped.value("device_conflicts_total", node="n0") == 1
    scraped.cluster.create(a_pod("d").asks(1).on("n0", {"main": ("GPU-n0-1",)}))
    scraped.cluster.view()
    assert scraped.value("device_conflicts_total", node="n0") == 2


def test_metrics_of_the_cache_and_of_rejecting_nodes_are_shown(scraped: Scraped) -> None:
    assert scraped.value("cache_staleness_seconds") == 1.5
    assert scraped.value("lists_total", kind="pods") == 2
    assert scraped.value("rejecting_nodes") == 0
