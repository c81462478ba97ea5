"""*Availability* and *Book*, requested without a browser."""

import re
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.capacity.capacity import Capacity
from booking.server.store_records import Block
from booking.server.web.pages.layout import HEADERS
from cluster import names
from cluster.kube.resources import QUOTAS
from tests.booking.server.web.pages.site import DAY, ZONE, Site, page_text, token
from tests.fakes.objects import A100, A6000

HTMX = {"HX-Request": "true"}


def book(site: Site, address: str = "/", *, sender: str = "alice", **fields: Any) -> TestResponse:
    """The form, sent."""
    form = {"csrf": token(site.see("/", user=sender)), "model": A100, "amount": "2", **fields}
    return site.send("POST", address, user=sender, data=form)


def test_a_booking_is_answered_with_a_redirect_to_it(site: Site) -> None:
    answer = book(site, start="2026-03-03T00:00", namespace="vision")
    assert answer.status_code == 303
    page = site.see(answer.headers["Location"].partition("#")[0])
    assert "A100 SXM4 80GB" in page_text(page)
    assert "It is guaranteed from now on" in page_text(page)
    (record,) = site.service.list(site.who("alice")).entries
    assert (record.user, record.namespace, record.count) == ("alice", "vision", 1)
    assert record.end - record.start == 2 * DAY


def test_an_administrator_books_for_another_user_by_that_users_rules(site: Site) -> None:
    site.signing_in.administrators.add("bob")
    fields = {"start": "2026-03-03T00:00", "user": "carol"}
    answer = book(site, sender="bob", **fields)
    assert answer.headers["Location"].partition("#")[0] == "/admin/bookings?done=booked"
    page = page_text(site.see("/admin/bookings?done=booked", user="bob"))
    assert "its owner sees who has booked it" in page
    assert "carol" in page
    (record,) = site.service.list(site.who("carol")).entries
    assert (record.user, record.created_by) == ("carol", "bob")

    later = {"start": "2026-03-07T00:00"}
    assert "the next one starts at least 14 days after it" in page_text(
        book(site, "/check", sender="bob", **{**fields, **later})
    )
    assert "Can be booked" in page_text(book(site, "/check", sender="bob", **later))


def test_a_booking_for_another_user_not_in_the_cluster_yet_is_not_called_guaranteed(
    site: Site,
) -> None:
    site.signing_in.administrators.add("bob")
    site.mirror.writes = False
    answer = book(site, sender="bob", user="carol")
    page = site.see(answer.headers["Location"].partition("#")[0], user="bob")
    assert "The booking is stored, but not written to the cluster yet" in page_text(page)
    assert "guaranteed from now on" not in page_text(page)
    assert 'class="note bad"' in page.text


def test_the_alternatives_are_for_the_same_user(site: Site) -> None:
    site.signing_in.administrators.add("bob")
    answer = book(site, "/check", sender="bob", user="carol", count="9")
    offers = [unescape(found) for found in re.findall(r'class="button slot" href="([^"]+)"', answer.text)]
    assert offers
    assert all("user=carol" in address for address in offers)


def test_only_administrators_book_for_another_user(site: Site) -> None:
    site.signing_in.administrators.add("bob")
    assert 'name="user"' in site.see("/", user="bob").text
    assert 'name="user"' not in site.see("/").text
    csrf = token(site.see("/"))
    for address in ("/", "/check"):
        sent = site.send("POST", address, data={"csrf": csrf, "model": A100, "user": "carol"})
        assert sent.status_code == 403
    assert site.stored == 0


def test_a_booking_for_an_impossible_user_is_refused_at_its_field(site: Site) -> None:
    site.signing_in.administrators.add("bob")
    csrf = token(site.see("/", user="bob"))
    for address in ("/", "/check"):
        form = {"csrf": csrf, "model": A100, "user": "a\u200bb"}
        answer = site.send(
            "POST", address, user="bob", data=form, headers=HTMX if address == "/check" else {}
        )
        assert "Nobody has the user id" in page_text(answer)
        assert 'id="error-user"' in answer.text
    assert site.stored == 0


def test_a_booking_that_is_not_in_the_cluster_yet_is_not_called_guaranteed(site: Site) -> None:
    site.mirror.writes = False
    answer = book(site)
    page = site.see(answer.headers["Location"].partition("#")[0])
    assert "it is not guaranteed" in page_text(page)
    assert "guaranteed from now on" not in page_text(page)


def test_a_refused_booking_comes_back_with_every_reason_and_what_was_typed(site: Site) -> None:
    answer = book(site, count="9", amount="20", namespace="Not A Namespace", start="2026-03-05T10:00")
    assert answer.status_code == 422
    text = page_text(answer)
    for reason in ("14 days", "9", "Not A Namespace"):
        assert reason in text
    assert 'value="2026-03-05T10:00"' in answer.text
    assert site.stored == 0


def test_a_malformed_field_is_reported_next_to_it(site: Site) -> None:
    answer = book(site, start="2026-03-29T02:30", count="many")
    assert answer.status_code == 422
    assert "the clocks of Europe/Stockholm skip it" in page_text(answer)
    assert "Say how many GPUs" in page_text(answer)
    assert site.stored == 0


def test_a_check_stores_nothing_and_offers_what_would_be_accepted(site: Site) -> None:
    now = site.clock.now()
    for node in ("node-a", "node-b"):
        site.add(now, now + 3 * DAY, count=4, node=node)
    before = site.stored
    answer = book(site, "/check", count="2")
    assert answer.status_code == 200
    addresses = [unescape(found) for found in re.findall(r'class="button slot" href="([^"]+)"', answer.text)]
    assert 3 <= len(addresses) <= 5
    for address in addresses:
        assert "Can be booked" in page_text(site.see(address.partition("#")[0]))
    assert site.stored == before


def test_htmx_gets_only_the_answer_and_the_messages_of_the_fields(site: Site) -> None:
    form = {"csrf": token(site.see("/")), "model": A100, "count": "0"}
    answer = site.send("POST", "/check", data=form, headers=HTMX)
    assert "<html" not in answer.text
    assert 'id="error-count" hx-swap-oob="true">Say how many' in answer.text


@pytest.mark.parametrize("address", ["/", "/check", "/mine/b-x/release", "/mine/b-x/length"])
@pytest.mark.parametrize("brought", [{}, {"csrf": "x"}, {"csrf": "bob's"}])
def test_a_form_that_is_not_ours_changes_nothing(site: Site, address: str, brought: dict[str, str]) -> None:
    if brought.get("csrf") == "bob's":
        brought = {"csrf": token(site.see("/", user="bob"))}
    answer = site.send("POST", address, data={"model": A100, **brought})
    assert answer.status_code == 403
    assert "the form was too old" in page_text(answer)
    assert site.stored == 0


@pytest.mark.parametrize(
    "address", ["/", "/mine", "/mine?past=1", "/static/page.css", "/mine?booked=nothing"]
)
def test_every_answer_forbids_content_from_elsewhere(site: Site, address: str) -> None:
    answer = site.see(address)
    for name, value in HEADERS.items():
        if name != "Cache-Control":
            assert answer.headers[name] == value
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", answer.text)


def test_files_are_cached_by_browsers_and_pages_are_not(site: Site) -> None:
    page = site.see("/")
    assert page.headers["Cache-Control"] == "no-store"
    files = re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text)
    assert len(files) == 4
    for address in files:
        answer = site.browser.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["Cache-Control"]


@pytest.mark.parametrize(
    "name", ["vendor/SHA256SUMS", "vendor/htmx-4.0.1.LICENSE", "../app.py", "nothing.js"]
)
def test_nothing_else_is_served_as_a_file(site: Site, name: str) -> None:
    assert site.browser.get(f"/static/{name}").status_code == 404


def test_html_in_any_text_is_escaped(site: Site) -> None:
    evil = '"><script>alert(1)</script>'
    for answer in (
        site.see(
            "/", query_string={"model": evil, "start": evil, "namespace": evil, "open": evil, "check": "1"}
        ),
        book(site, model=evil, namespace=evil, count=evil),
        site.see("/mine", query_string={"booked": evil}),
        site.see("/inside", query_string={"model": evil}, headers=HTMX),
    ):
        assert "<script>alert" not in answer.text


def test_nobody_sees_a_page_without_signing_in(site: Site) -> None:
    answer = site.browser.get("/?from=2026-03-09")
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/login?next=%2F%3Ffrom%3D2026-03-09"
    assert answer.text == ""

    answer = site.browser.post("/", data={"model": A100})
    assert answer.status_code == 401
    assert A100 not in answer.text
    assert "<h1>" in answer.text


def test_a_fragment_without_a_session_redirects_the_whole_page_to_the_login(site: Site) -> None:
    answer = site.browser.post("/check", data={"model": A100}, headers=HTMX)
    assert answer.headers["HX-Redirect"] == "/login"
    assert answer.text == ""


def test_bookings_of_others_are_shown_without_names(site: Site) -> None:
    now = site.clock.now()
    site.add(now, now + DAY, user="carol", count=2, node="node-a", namespace="secret-project")
    text = site.see(f"/?open={A100}").text
    assert "6</strong> of 8 bookable now" in text
    assert "carol" not in text
    assert "secret-project" not in text


def test_the_page_reports_that_the_cluster_is_unknown_and_nothing_is_booked(site: Site) -> None:
    form = {"csrf": token(site.see("/")), "model": A100, "amount": "1"}
    site.unknown_capacity = "The nodes have not been read yet."
    page = site.see("/")
    assert page.status_code == 200
    assert "have not been read yet" in page_text(page)
    answer = site.send("POST", "/", data=form)
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    assert site.stored == 0


def test_a_missing_database_is_reported_by_a_page(site: Site) -> None:
    site.file.unlink()
    for address in ("/", "/mine"):
        answer = site.see(address)
        assert answer.status_code == 503
        assert answer.headers["Retry-After"]
        assert "database cannot be used" in page_text(answer)


def test_the_weeks_can_be_paged_forward_and_back_to_today(site: Site) -> None:
    assert "Earlier" not in site.see("/").text
    later = site.see("/?from=2026-03-30")
    assert "Mon 30 Mar to Sun 26 Apr" in page_text(later)
    assert 'href="/?from=2026-04-27"' in later.text
    for other in ("/?from=2020-01-01", "/?from=never"):
        assert "Mon 2 Mar to Sun 29 Mar" in page_text(site.see(other))
    assert site.see("/?from=9990-12-31").status_code == 200


def test_a_model_without_healthy_gpus_is_shown_with_none(site: Site) -> None:
    site.capacity = type(site.capacity)({A6000: {"node-a": 0}})
    text = page_text(site.see(f"/?open={A6000}"))
    assert "0 of 0 bookable now" in text


def test_later_weeks_name_the_day_for_which_they_show_the_free_gpus(site: Site) -> None:
    now = site.clock.now()
    site.add(now, now + DAY, count=4, node="node-a")
    assert "4 of 8 bookable now" in page_text(site.see(f"/?open={A100}"))
    text = page_text(site.see(f"/?from=2026-05-01&open={A100}"))
    assert "8 of 8 bookable on Fri 1 May" in text
    assert "bookable now" not in text


def test_the_table_of_nodes_has_for_every_day_what_the_graphic_shows(site: Site) -> None:
    now = site.clock.now()
    site.add(now, now + DAY, count=3, node="node-a")
    site.add(now, now + DAY, user="alice", node="node-a")
    page = site.see(f"/?open={A100}")
    row = re.search(r'<tr><th scope="row">node-a</th>(.*?)</tr>', page.text, re.DOTALL)
    assert row
    gpus, first, *rest = re.findall(r"<td[^>]*>(.*?)</td>", row[1])
    assert re.sub(r"<[^>]+>", "", unescape(first)) == "0, 1 yours, 3 others'"
    assert len([first, *rest]) == 28
    assert (gpus, rest[-1]) == ("4", "4")


def test_the_tables_show_booked_and_unavailable_gpus_as_the_graphic_does(site: Site) -> None:
    now = site.clock.now()
    for node in ("node-a", "node-b"):
        site.add(now, now + DAY, count=4, node=node)
    assert "unavailable" not in page_text(site.see(f"/?open={A100}")).casefold()
    site.block(
        Block(
            id="m-1",
            node="node-a",
            model=A100,
            count=None,
            start=now,
            end=now + DAY,
            reason="fans",
            created=now,
            created_by="bob",
        )
    )
    page = site.see(f"/?open={A100}")
    days, nodes, *_ = re.findall(r"<table.*?</table>", page.text, re.DOTALL)
    assert re.findall(r'<th scope="col"[^>]*>(.*?)</th>', days)[6] == "Unavailable"
    first, _, last = re.findall(r'<tr><th scope="row">(.*?)</tr>', days, re.DOTALL)[:3]
    assert [re.findall(r'<td class="n">(.*?)</td>', row)[5] for row in (first, last)] == ["4", "0"]
    assert "4 that are unavailable" in unescape(nodes)
    assert "all A100 SXM4 80GB, " in page_text(page)


def test_a_form_sent_twice_books_once_and_a_new_form_books_again(tmp_path: Path) -> None:
    (tmp_path / "free").mkdir()
    site = Site(tmp_path / "free", Limits(zone=ZONE, max_active=9, max_planned=9, cooldown=Duration()))
    once = re.search(r'name="once" value="(\w+)"', site.see("/").text)
    assert once
    first, again, other = (book(site, once=once[1], amount=amount) for amount in ("2", "2", "3"))
    assert first.headers["Location"] == again.headers["Location"]
    assert first.headers["Location"] != other.headers["Location"]
    assert site.stored == 2
    site.store.close()


@pytest.mark.parametrize("late", ["not_guaranteed_reason", "unknown_capacity"])
def test_a_form_sent_again_while_nothing_can_be_booked_gets_its_booking(site: Site, late: str) -> None:
    crumb, once = token(site.see("/")), re.search(r'name="once" value="(\w+)"', site.see("/").text)
    assert once

    def sent(**fields: str) -> TestResponse:
        form = {"csrf": crumb, "model": A100, "amount": "2", "once": once[1], **fields}
        return site.send("POST", "/", data=form)

    first, stored = sent(), site.stored
    setattr(site, late, "The mirror is late.")
    site.mirror.writes = False
    again = sent()
    assert (first.status_code, again.status_code, site.stored) == (303, 303, stored)
    assert again.headers["Location"] == first.headers["Location"].replace("booked=", "stored=")
    for another in ({"amount": "3"}, {"once": "0" * 64}, {"once": ""}):
        refused = sent(**another)
        assert refused.status_code == 503
        assert "The mirror is late." in page_text(refused)
    assert site.stored == stored


def test_an_error_next_to_a_field_is_repeated_in_the_answer(site: Site) -> None:
    form = {"csrf": token(site.see("/")), "model": A100, "amount": "20"}
    checked = site.send("POST", "/check", data=form, headers=HTMX).text
    answer, _, fields = checked.partition('<p class="error"')
    assert "A booking lasts at most 14 days" in answer
    assert "A booking lasts at most 14 days" in fields


def test_the_page_reports_when_nothing_would_be_accepted(site: Site) -> None:
    now = site.clock.now()
    site.add(now, now + 3 * DAY, user="alice", node="node-a")
    site.add(now + 5 * DAY, now + 6 * DAY, user="alice", node="node-a")
    form = {"csrf": token(site.see("/")), "model": A100}
    text = page_text(site.send("POST", "/check", data=form))
    assert "Nothing like it would be accepted now." in text
    assert text.count("Sun 22 Mar 10:00") == 1
    assert "Nothing like it" not in page_text(
        site.send(
            "POST",
            "/check",
            user="bob",
            data={"csrf": token(site.see("/", user="bob")), "model": A100, "count": "9"},
        )
    )


@pytest.mark.parametrize("slip", [{"namespace": "No"}, {"count": "0"}], ids=["namespace", "count"])
def test_a_malformed_request_is_not_called_impossible(site: Site, slip: dict[str, str]) -> None:
    assert "Nothing like it would be accepted" not in page_text(book(site, "/check", **slip))


def test_more_gpus_than_exist_are_offered_as_the_most_that_are_available(site: Site) -> None:
    """Even if all of them are booked for days."""
    now = site.clock.now()
    total = site.capacity.total(A100)
    for node, count in site.capacity.devices[A100].items():
        site.add(now, now + timedelta(days=9), node=node, count=count)
    page = book(site, "/check", count=str(total + 1), topology="any")
    slots = re.findall(r'<a class="button slot"[^>]*><strong>(.*?)</strong><span>(.*?)</span>', page.text)
    assert len(slots) == 3
    assert all(f"{total} \N{MULTIPLICATION SIGN}" in what for _, what in slots), slots
    assert len({when for when, _ in slots}) == 3
    assert "Nothing like it" not in page_text(page)


def test_when_only_a_limit_is_broken_the_earliest_slots_within_it_are_offered(site: Site) -> None:
    """Three slots of fourteen days, and the other offers, each once."""
    page = book(site, "/check", amount="20")
    slots = re.findall(r'<a class="button slot"[^>]*><strong>(.*?)</strong><span>(.*?)</span>', page.text)
    earliest = [unescape(when) for when, what in slots if not what.endswith(")")]
    assert [when.partition(" \N{EN DASH} ")[0] for when in earliest] == [
        "Now",
        "Tue 3 Mar 00:00",
        "Wed 4 Mar 00:00",
    ]
    assert all("14 days" in what for _, what in slots[:3])
    assert len(slots) <= 6
    assert "earliest valid start" not in page_text(page)


def test_a_start_beyond_the_horizon_has_the_three_earliest_slots_as_buttons(tmp_path: Path) -> None:
    (tmp_path / "near").mkdir()
    site = Site(tmp_path / "near", Limits(zone=ZONE, horizon=Duration(days=30)))
    page = book(site, "/check", start="2026-05-10T09:00")
    slots = re.findall(r'<a class="button slot"[^>]*><strong>(.*?)</strong><span>(.*?)</span>', page.text)
    earliest = [unescape(when) for when, what in slots if not what.endswith(")")]
    assert [when.partition(" \N{EN DASH} ")[0] for when in earliest] == [
        "Now",
        "Tue 3 Mar 00:00",
        "Wed 4 Mar 00:00",
    ]
    assert len(slots) <= 6
    site.store.close()


def test_if_too_few_slots_begin_as_late_as_requested_the_earliest_of_all_follow(tmp_path: Path) -> None:
    """All GPUs are booked at the requested start; a day before the horizon some are free again."""
    (tmp_path / "near").mkdir()
    site = Site(tmp_path / "near", Limits(zone=ZONE, horizon=Duration(days=20)))
    now = site.clock.now()
    for node in ("node-a", "node-b"):
        site.add(now + 15 * DAY, now + 20 * DAY, count=4, node=node)
    page = book(site, "/check", start="2026-03-19T10:00")
    slots = re.findall(r'<a class="button slot"[^>]*><strong>(.*?)</strong><span>(.*?)</span>', page.text)
    earliest = [unescape(when) for when, what in slots if not what.endswith(")")]
    assert [when.partition(" \N{EN DASH} ")[0] for when in earliest] == [
        "Sun 22 Mar 10:00",
        "Now",
        "Tue 3 Mar 00:00",
    ]
    site.store.close()


@pytest.mark.parametrize("address", ["/nowhere", "/check", "/mine/b-1/length/check", "/maia"])
def test_a_wrong_address_is_a_page_in_a_browser_and_a_problem_for_programs(site: Site, address: str) -> None:
    kinds = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"
    browser = {"Accept": f"{kinds},application/signed-exchange;v=b3;q=0.7"}
    page = site.see(address, headers=browser)
    assert page.status_code == 404
    assert page.content_type.startswith("text/html")
    assert "There is no such page" in page_text(page)
    assert page.headers["Content-Security-Policy"] == HEADERS["Content-Security-Policy"]
    for headers in ({}, {"Accept": "application/json"}, {"Accept": "*/*"}):
        assert site.see(address, headers=headers).content_type == "application/problem+json"
    assert site.see(f"/api/v1{address}", headers=browser).content_type == "application/problem+json"


def test_a_quota_that_cannot_hold_the_booking_is_named_before_and_after_it_is_made(site: Site) -> None:
    body = {"metadata": {"name": "gpus"}, "status": {"hard": {names.GPU_QUOTA: "1"}}}
    site.kube.create(QUOTAS, body, namespace="research")
    fields = {"count": "2", "namespace": "research"}
    checked = page_text(book(site, "/check", **fields))
    assert "Can be booked" in checked
    assert "ResourceQuota gpus lets pods of the namespace research request 1 GPU in all" in checked
    booked = book(site, **fields).headers["Location"].partition("#")[0]
    assert "ResourceQuota gpus" in page_text(site.see(booked))


def test_a_link_may_spell_a_model_as_its_driver_does(site: Site) -> None:
    spelled = A6000.replace("-", " ")
    page = site.see("/", query_string={"model": spelled, "open": spelled}).text
    assert f'value="{A6000}" selected' in page
    assert site.see("/inside", query_string={"model": spelled}, headers=HTMX).status_code == 200
    assert page.count('<details class="more" open') == 1


def test_a_share_is_booked_and_shown_as_a_part_of_a_gpu(site: Site) -> None:
    site.capacity = Capacity({A100: {"node-a": 2}}, memories={A100: 81_000})
    assert "Can be booked: 1 \N{MULTIPLICATION SIGN} 19.8 GiB of A100 SXM4 80GB" in page_text(
        book(site, "/check", memory="25%")
    )
    assert "is no amount of memory" in page_text(book(site, "/check", memory="20GB"))
    answer = book(site, memory="20Gi")
    page = page_text(site.see(answer.headers["Location"].partition("#")[0]))
    assert "1 \N{MULTIPLICATION SIGN} 20 GiB of A100 SXM4 80GB" in page
    assert "nvidia.com/gpumem: 20480" in page
    site.visibility = "names"
    inside = page_text(site.see(f"/?open={A100}", user="bob"))
    assert "1 \N{MULTIPLICATION SIGN} 20 of 79.1 GiB" in inside
    assert "1 of 2 bookable" in inside
