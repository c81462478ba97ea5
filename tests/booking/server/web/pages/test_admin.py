"""The answers of *Admin*, *Now* and *Why*: who may see them, what is refused and what is shown."""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, get_args

import pytest
from werkzeug.test import TestResponse

from booking.eviction import end_effects
from booking.eviction.settings import EndAction, EvictionSettings
from booking.policy.reading import read_policy
from booking.principals import Principal
from booking.server.policy_history import PolicyHistory
from booking.server.web.pages.admin import limits_in
from booking.server.web.pages.csrf import FIELD
from tests.booking.server.web.pages.site import DAY, Site, page_text
from tests.browser.sample_data import add_cluster

ADDRESSES: Final = (
    "/admin",
    "/admin/exemptions",
    "/admin/bookings",
    "/admin/policy",
    "/admin/audit",
    "/admin/denied",
)
END: Final = "2026-03-09T10:00"
ADMIN: Final = Principal(user="bob", name="bob", is_administrator=True)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    made.signing_in.administrators.add("bob")
    yield made
    made.store.close()


def post(site: Site, address: str, *, sender: str = "bob", **fields: str) -> TestResponse:
    """A user's form, as our pages send it."""
    return site.send("POST", address, user=sender, data={FIELD: token_on(site, sender), **fields})


def token_on(site: Site, sender: str) -> str:
    """The CSRF token in the forms of a page that the sender sees."""
    found = re.search(rf'name="{FIELD}" value="([^"]+)"', site.see("/", user=sender).text)
    assert found
    return found[1]


def done(answer: TestResponse, what: str) -> None:
    assert answer.status_code == 303, answer.text
    assert answer.headers["Location"].endswith(f"?done={what}")


@pytest.mark.parametrize("address", ADDRESSES)
def test_only_administrators_see_administration(site: Site, address: str) -> None:
    assert site.see(address).status_code == 403
    assert site.see(address, user="bob").status_code == 200
    assert 'href="/admin"' not in site.see("/now").text


@pytest.mark.parametrize(
    "address",
    [
        "/admin",
        "/admin/exemptions",
        "/admin/pods/evict",
        "/admin/blocks/x/remove",
        "/admin/exemptions/x/remove",
        "/admin/bookings/x/end",
    ],
)
def test_forms_are_for_administrators_and_from_our_pages(site: Site, address: str) -> None:
    assert post(site, address, sender="alice").status_code == 403
    assert site.send("POST", address, user="bob", data={}).status_code == 403
    assert site.stored == 0


def test_maintenance_is_planned_and_cancelled(site: Site) -> None:
    done(post(site, "/admin", node="node-a", end=END, reason="A <b>fan</b> is replaced."), "blocked")
    assert "A &lt;b&gt;fan&lt;/b&gt; is replaced." in site.see("/admin", user="bob").text
    (block,) = site.service.blocks(ADMIN)
    assert (block.count, block.start) == (None, site.clock.now())
    done(post(site, f"/admin/blocks/{block.id}/remove"), "unblocked")
    assert site.service.blocks(ADMIN) == ()
    again = post(site, f"/admin/blocks/{block.id}/remove")
    assert (again.status_code, "no maintenance block" in again.text) == (422, True)


@pytest.mark.parametrize(
    "wrong",
    [{"end": "soon"}, {"count": "many"}, {"node": "nowhere"}, {"reason": " "}, {"end": "2020-01-01T00:00"}],
)
def test_an_error_is_shown_and_the_input_is_kept(site: Site, wrong: dict[str, str]) -> None:
    fields = {"node": "node-a", "end": END, "reason": "A fan is replaced.", "count": "1", **wrong}
    answer = post(site, "/admin", **fields)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text
    assert f'value="{fields["end"]}"' in answer.text
    assert site.stored == 0


def test_an_exemption_is_granted_and_ended(site: Site) -> None:
    form = {"limits": "longest: P21D\nmax_active: 2", "end": END, "reason": "A paper."}
    assert post(site, "/admin/exemptions", **form).status_code == 422
    assert (
        post(site, "/admin/exemptions", user="carol", **form | {"limits": "longest: ages"}).status_code == 422
    )
    done(post(site, "/admin/exemptions", user="carol", **form), "exempted")
    (exemption,) = site.service.exemptions(ADMIN).entries
    assert dict(exemption.limits) == {"longest": "P21D", "max_active": 2}
    done(post(site, f"/admin/exemptions/{exemption.id}/remove"), "unexempted")


@pytest.mark.parametrize(
    ("address", "filled", "heading"),
    [
        ("/admin", {"node": "node-a", "end": END}, "maintenance"),
        (
            "/admin/exemptions",
            {"user": "alice", "limits": "longest: P30D", "end": END},
            "exemption",
        ),
    ],
)
def test_a_form_sent_twice_acts_once_and_a_new_form_acts_again(
    site: Site, address: str, filled: dict[str, str], heading: str
) -> None:
    once = re.search(r'name="once" value="(\w+)"', site.see(address, user="bob").text)
    assert once
    for reason in ("first", "first", "second"):
        answer = post(site, address, **{**filled, "once": once[1], "reason": reason})
        assert answer.status_code == 303, answer.text
    page = site.see(address, user="bob").text
    assert [page.count(f">{reason}</td>") for reason in ("first", "second")] == [1, 1], heading


def test_a_second_click_on_evict_does_not_hit_a_new_pod_of_the_same_name(site: Site) -> None:
    once = re.search(r'name="once" value="(\w+)"', site.see("/admin/bookings", user="bob").text)
    assert once
    for _ in range(2):
        form = {"namespace": "research", "pod": "train-0", "reason": "It hangs.", "once": once[1]}
        done(post(site, "/admin/pods/evict", **form), "evicted")
    assert site.evictions.orders == [("research", "train-0", "bob", "It hangs.")]


def test_earlier_policies_are_shown_and_why_the_file_is_refused(site: Site) -> None:
    assert "refused" not in site.see("/admin/policy", user="bob").text
    text = "defaults: {cooldown: 3d}  # <b>"
    PolicyHistory(site.store, site.clock).keep(read_policy(text), text)
    site.policy_trouble = "Line 1, defaults.cooldown: It is <none>."

    page = site.see("/admin/policy", user="bob").text

    assert read_policy(text).version in page
    assert "defaults: {cooldown: 3d}  # &lt;b&gt;" in page
    assert "Line 1, defaults.cooldown: It is &lt;none&gt;." in page
    assert "the last good policy stays in force" in page


def test_limits_are_written_as_in_the_policy_file() -> None:
    text = " longest: P21D \n\nbuffer: 0\nmay_extend: false\nhorizon: none\nnonsense"
    assert limits_in(text) == {
        "longest": "P21D",
        "buffer": 0,
        "may_extend": False,
        "horizon": None,
        "nonsense": "",
    }


def test_bookings_of_other_users_are_ended_and_pods_evicted_with_a_reason(site: Site) -> None:
    now = site.clock.now()
    running, planned = site.add(now - DAY, now + DAY), site.add(now + 3 * DAY, now + 4 * DAY)
    assert post(site, f"/admin/bookings/{running.id}/end").status_code == 422
    for record, state in ((running, "ended"), (planned, "cancelled")):
        done(post(site, f"/admin/bookings/{record.id}/end", reason="The node burns."), state)
        seen = site.service.show(ADMIN, record.id)
        assert (seen.state(site.clock.now()), seen.reason) == (state, "The node burns.")
    done(post(site, "/admin/pods/evict", namespace="research", pod="train-0", reason="It hangs."), "evicted")
    assert site.evictions.orders == [("research", "train-0", "bob", "It hangs.")]
    assert post(site, "/admin/pods/evict", namespace="research", pod="x", reason="r").status_code == 422


@pytest.mark.parametrize("owned", get_args(EndAction))
@pytest.mark.parametrize("bare", get_args(EndAction))
def test_the_page_says_what_happens_to_the_pods_before_and_after_a_booking_is_ended(
    tmp_path: Path, bare: EndAction, owned: EndAction
) -> None:
    terms = EvictionSettings(end_action_without_controller=bare, end_action_with_controller=owned)
    site = Site(tmp_path, terms=terms)
    site.signing_in.administrators.add("bob")
    with closing(site.store):
        now = site.clock.now()
        running, planned = site.add(now - DAY, now + DAY), site.add(now + 3 * DAY, now + 4 * DAY)
        page = page_text(site.see("/admin/bookings", user="bob"))
        assert page.count(end_effects.before(terms)) == 1
        for record, are_pods_named in ((running, True), (planned, False)):
            answer = post(site, f"/admin/bookings/{record.id}/end", reason="The node burns.")
            page = page_text(site.see(answer.headers["Location"], user="bob"))
            assert "its owner sees your reason." in page
            assert (f"its owner sees your reason. {end_effects.after(terms)}" in page) is are_pods_named
        assert end_effects.before(terms) not in page


def test_an_end_that_is_not_in_the_cluster_yet_is_reported_without_claiming_that_pods_ended(
    site: Site,
) -> None:
    now = site.clock.now()
    site.mirror.writes = False
    for record in (site.add(now - DAY, now + DAY), site.add(now + 3 * DAY, now + 4 * DAY)):
        answer = post(site, f"/admin/bookings/{record.id}/end", reason="The node burns.")
        page = site.see(answer.headers["Location"], user="bob")
        assert "end is stored, but not written to the cluster yet" in page_text(page)
        assert end_effects.after(site.terms) not in page_text(page)
        assert 'class="note bad"' in page.text


def test_another_users_pod_is_as_unknown_as_one_that_does_not_exist(site: Site) -> None:
    add_cluster(site)
    assert not any("render" in site.see(page).text for page in ("/now", "/why"))
    assert site.see("/why/vision/render").status_code == 404
    assert site.see("/why/vision/nothing").status_code == 404
    assert "vision/render" in site.see("/now", user="bob").text
    assert site.see("/why/vision/render", user="bob").status_code == 200


def test_the_form_leads_to_the_address_of_the_pod(site: Site) -> None:
    answer = site.see("/why?namespace=vision&pod=pod/..%2Fadmin")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/why/vision/..%2Fadmin")
    assert site.see("/why").status_code == 200


def test_pages_report_that_the_cluster_is_unknown(site: Site) -> None:
    site.unknown_capacity = "The pods are not known."
    assert "The pods are not known." in site.see("/now").text
    assert site.see("/why/vision/render").status_code == 503


def test_htmx_is_answered_with_the_nodes_only(site: Site) -> None:
    add_cluster(site)
    answer = site.see("/now", headers={"HX-Request": "true"}).text
    assert answer.strip().startswith('<div id="now-models"')
    assert 'id="now"' in site.see("/now").text
    assert "<html" not in answer


def test_administrators_see_which_bookings_cannot_be_kept(site: Site) -> None:
    now = site.clock.now()
    site.add(now + DAY, now + 2 * DAY, count=4, node="node-a")
    assert "at risk" not in page_text(site.see("/admin/bookings", user="bob"))
    for node in ("node-a", "node-b"):
        post(site, "/admin", node=node, end=END, reason="New fans.")
    assert "planned at risk" in page_text(site.see("/admin/bookings", user="bob"))
    site.unknown_capacity = "Nothing is known."
    assert "at risk" not in page_text(site.see("/admin/bookings", user="bob"))
