"""*Now* on a large site: filters, pages of nodes, and the sections that have changed since the last poll."""

import re
from datetime import timedelta
from typing import Final

import pytest

from booking.server.capacity.capacity import Capacity
from cluster.kube.resources import BOOKINGS, LEASES, NODES, PODS
from tests.booking.server.web.pages.site import Site, page_text
from tests.fakes.objects import A100, A6000, a100, a6000, a_booking, a_lease, a_node, a_pod

HTMX: Final = {"HX-Request": "true"}
HOUR: Final = timedelta(hours=1)


def cluster(site: Site, nodes: int = 30) -> None:
    """Nodes with two A100; alice's pod has one on n00, and bob's one on n01."""
    now = site.clock.now()
    for name in (f"n{number:02}" for number in range(nodes)):
        site.cache.of(NODES).upsert(a_node(name, a100(0, name), a100(1, name)))
        site.cache.of(LEASES).upsert(a_lease(name, renewed=now))
    site.capacity = Capacity({A100: {f"n{number:02}": 2 for number in range(nodes)}})
    run(site, "alice", "n00")
    run(site, "bob", "n01")


def run(site: Site, user: str, node: str) -> None:
    pod = a_pod(f"{user}-{node}").of(user).asks(1).on(node, {"main": (f"GPU-{node}-0",)})
    site.cache.of(PODS).upsert(pod.created(site.clock.now()).obj)


def cards(text: str) -> list[str]:
    return re.findall(r'<h2 id="node-\d+">([^<]+)</h2>', text)


def version(text: str) -> str:
    (found,) = re.findall(r'name="version" value="([^"]+)"', text)
    return found


def test_availability_and_now_say_the_same_of_gpus_that_are_booked_and_unused(site: Site) -> None:
    now = site.clock.now()
    site.cache.of(NODES).upsert(a_node("n0", *(a6000(index) for index in range(3))))
    site.cache.of(LEASES).upsert(a_lease("n0", renewed=now))
    site.capacity = Capacity({A6000: {"n0": 3}})
    site.add(now - HOUR, now + HOUR, model=A6000, count=3, node="n0")
    places = [{"node": "n0", "count": 3}]
    site.cache.of(BOOKINGS).upsert(
        a_booking(user="carol", model=A6000, count=3, start=now - HOUR, end=now + HOUR, places=places)
    )
    assert "0 of 3 bookable now · 0 lent, 0 in use · 3 idle though booked" in page_text(site.see("/"))
    text = page_text(site.see("/now"))
    assert "0 bookable 0 lent 3 idle though booked 0 in use" in text
    assert text.count("idle though booked") > 3
    (model,) = site.client.get("/api/v1/now", headers={"Authorization": "Bearer alice-token"}).json["models"]
    assert model == {
        "model": A6000,
        "gpus": 3,
        "bookable": 0,
        "lent": 0,
        "idle_though_booked": 3,
        "in_use": 0,
    }


def test_every_node_is_on_the_map_and_a_page_of_them_has_details(site: Site) -> None:
    cluster(site)
    text = site.see("/now").text
    assert len(re.findall(r"<b>n\d+</b>", text)) == 30
    assert cards(text) == [f"n{number:02}" for number in range(12)]
    assert "page=2" in text
    assert cards(site.see("/now?page=3").text) == [f"n{number:02}" for number in range(24, 30)]
    assert cards(site.see("/now?page=99").text) == [f"n{number:02}" for number in range(24, 30)]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("node=N2", [f"n{number}" for number in range(20, 30)]),
        ("standing=lent", ["n00", "n01"]),
        ("mine=1", ["n00"]),
        ("mine=1&standing=bookable", []),
        ("model=none", []),
        ("node=n03&model=" + A100, ["n03"]),
    ],
)
def test_a_filter_leaves_only_nodes_with_such_gpus(site: Site, query: str, shown: list[str]) -> None:
    cluster(site)
    text = site.see(f"/now?{query}").text
    assert cards(text) == shown
    assert ("No GPU is as you ask" in text) == (not shown)


def test_a_poll_gets_only_the_sections_that_have_changed(site: Site) -> None:
    cluster(site)
    first = site.see("/now").text
    again = site.see(f"/now?version={version(first)}", headers=HTMX)
    assert (again.status_code, again.text) == (204, "")
    run(site, "bob", "n05")
    changed = site.see(f"/now?version={version(first)}", headers=HTMX).text
    assert set(re.findall(r'hx-target="#([^"]+)"', changed)) == {
        "now-models",
        "now-map-0",
        "now-node-5",
        "now-next",
        "now-version",
    }
    assert version(changed) != version(first)
    assert len(changed) < len(first) / 2
    assert site.see(f"/now?version={version(changed)}", headers=HTMX).status_code == 204


def test_a_poll_gets_everything_if_what_it_has_is_unknown_or_other_nodes_are_there(site: Site) -> None:
    cluster(site, nodes=3)
    first = site.see("/now").text
    assert cards(site.see("/now?version=nothing", headers=HTMX).text) == ["n00", "n01", "n02"]
    site.cache.of(NODES).remove(site.cache.nodes["n02"])
    assert cards(site.see(f"/now?version={version(first)}", headers=HTMX).text) == ["n00", "n01"]
