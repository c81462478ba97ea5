"""*Now*, *Why* and *Admin* in a browser: with and without JavaScript."""

from typing import Final

import pytest
from playwright.sync_api import expect

from cluster.kube.resources import NODES
from tests.booking.server.web.pages.site import Site
from tests.browser.sample_data import add_bookings, add_cluster
from tests.browser.visitor import DESK, PATIENCE, PHONE, Screen, Visitors

pytestmark = pytest.mark.component

expect.set_options(timeout=PATIENCE)
REASON: Final = "The power supply is replaced."


@pytest.fixture(autouse=True)
def story(site: Site) -> None:
    add_bookings(site)
    add_cluster(site)


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_gpu_leads_to_the_explanation_of_its_pod(visitors: Visitors, *, scripts: bool) -> None:
    page = visitors.page(scripts=scripts, screen=PHONE)
    page.goto("/now")
    expect(page.get_by_role("table", name="GPUs of gpu-a2")).to_contain_text("fallen off the bus")
    page.get_by_role("table", name="A100").get_by_role("link", name="vision/sweep-7").click()
    expect(page.get_by_role("heading", name="vision/sweep-7")).to_be_visible()
    expect(page.locator(".because")).to_contain_text("may take its GPUs at any time")
    page.locator("#pod").fill("notebook")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator(".explanation .state")).to_have_text("running, booked")
    expect(page.locator(".because")).to_contain_text("until Wed 4 Mar 10:00")
    assert visitors.errors() == []


def test_changes_are_shown_without_reloading_the_page(site: Site, visitors: Visitors) -> None:
    page = visitors.page()
    page.clock.install()
    page.goto("/now")
    expect(page.locator(".counts")).to_contain_text("1 unhealthy")
    link = page.get_by_role("table", name="GPUs of gpu-a1").get_by_role("link", name="vision/notebook")
    link.focus()
    site.cache.of(NODES).remove(site.cache.nodes["gpu-a2"])
    page.clock.fast_forward("00:16")
    expect(page.locator(".counts")).not_to_contain_text("unhealthy")
    expect(link).to_be_focused()
    assert visitors.errors() == []


@pytest.mark.parametrize("screen", [PHONE, DESK], ids=["phone", "desk"])
def test_the_use_of_gpus_and_squatters_are_shown(site: Site, visitors: Visitors, screen: Screen) -> None:
    page = visitors.page(screen=screen)
    page.goto("/now")
    table = page.get_by_role("table", name="GPUs of gpu-a1")
    busy = table.get_by_role("row", name="vision/train-resnet")
    expect(busy).to_contain_text("96 %")
    expect(busy).to_contain_text("61.0 of 80.0 GiB")
    expect(busy).to_contain_text("66 °C · 350 W")
    strangers = page.get_by_role("table", name="GPUs of gpu-h1").locator("tr.squatter")
    expect(strangers.first).to_contain_text("A process of no pod runs on it, with 18.0 GiB.")
    expect(strangers.last).to_contain_text("A process of a pod that does not hold it runs on it.")
    expect(page.get_by_role("table", name="GPUs of gpu-b1")).not_to_contain_text("GiB")
    site.signing_in.administrators.add("alice")
    page.reload()
    expect(strangers.first).to_contain_text("Process 48113 (python3) of no pod")
    expect(strangers.last).to_contain_text("Process 48200 (jupyter) of vision/lab")
    assert visitors.errors() == []


def test_the_nodes_are_shown_again_after_a_failed_refresh(visitors: Visitors) -> None:
    page = visitors.page()
    page.clock.install()
    page.goto("/now")
    expect(page.locator(".counts")).to_be_visible()
    page.route("**/now*", lambda route: route.fulfill(status=503, body="<p>It is down.</p>"))
    page.clock.fast_forward("00:16")
    expect(page.locator("#now")).to_contain_text("It is down.")
    page.unroute("**/now*")
    page.clock.fast_forward("00:16")
    expect(page.locator(".counts")).to_be_visible()


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_an_administrator_plans_maintenance_and_ends_a_booking(
    site: Site, visitors: Visitors, *, scripts: bool
) -> None:
    site.signing_in.administrators.add("bob")
    page = visitors.page("bob", scripts=scripts)
    page.goto("/")
    page.get_by_role("link", name="Admin").click()
    page.locator("#node").select_option("gpu-b1")
    page.locator("#end").fill("2026-03-01T10:00")
    page.locator("#reason").fill(REASON)
    page.get_by_role("button", name="Plan").click()
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.locator("#reason")).to_have_value(REASON)
    page.locator("#end").fill("2026-03-05T10:00")
    page.get_by_role("button", name="Plan").click()
    expect(page.locator(".note.good")).to_contain_text("planned")
    expect(page.get_by_role("row", name="gpu-b1")).to_contain_text(REASON)
    page.get_by_role("link", name="Bookings and pods").click()
    row = page.get_by_role("row", name="b-k7w2m9qx4t")
    row.locator("summary").click()
    row.get_by_label("Reason").fill("The node burns.")
    row.get_by_role("button", name="End now").click()
    expect(page.locator(".note.good")).to_contain_text("has ended")
    page.get_by_role("link", name="Audit").click()
    expect(page.locator("tbody tr").first).to_contain_text("The node burns.")
    assert [error for error in visitors.errors() if "422" not in error] == []
