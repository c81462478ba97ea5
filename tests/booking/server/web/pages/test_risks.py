"""A booking at risk is shown with what its owner could have instead, each with a button."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from werkzeug.test import TestResponse

from booking.server.capacity.capacity import Capacity
from booking.server.records import BookingChange, Record
from booking.server.store_records import Block
from booking.server.web.pages.form_result import FormAnswer, gpus
from booking.server.web.pages.risks import taken
from tests.booking.server.web.pages.site import DAY, Site, page_text, token
from tests.fakes.objects import A100, A6000


def blocked(site: Site, start: timedelta, end: timedelta) -> None:
    """Put the only node of the model into maintenance."""
    now = site.clock.now()
    site.block(
        Block(
            id="k-1",
            node="node-a",
            start=now + start,
            end=now + end,
            reason="new fans",
            created_by="bob",
            created=now,
        )
    )


def planned(site: Site) -> Record:
    """A booking of alice's at risk."""
    now = site.clock.now()
    site.capacity = Capacity({A6000: {"node-a": 2}})
    record = site.add(now + DAY, now + 3 * DAY, user="alice", model=A6000, count=2, node="node-a")
    blocked(site, 2 * DAY, 4 * DAY)
    return record


def searched(site: Site) -> TestResponse:
    """The page with the alternatives of the only booking, behind its link."""
    (address,) = re.findall(r'href="(/mine\?instead=[^"]+)"', site.see("/mine").text)
    return site.see(address)


def forms(site: Site) -> list[dict[str, str]]:
    """The fields of every button that offers a replacement."""
    found = re.findall(
        r'<form method="post" action="/mine/[^/]+/take">(.*?)</form>', searched(site).text, re.DOTALL
    )
    return [dict(re.findall(r'name="(\w+)" value="([^"]*)"', form)) for form in found]


def test_every_offer_is_taken_with_one_click_and_the_risk_is_gone(site: Site) -> None:
    record = planned(site)
    offers = forms(site)
    assert len(offers) >= 2
    assert site.send("POST", f"/mine/{record.id}/take", data=offers[0]).status_code == 303
    changed = site.service.show(site.who("alice"), record.id)
    assert (changed.start, changed.end) != (record.start, record.end)
    assert "At risk" not in page_text(site.see("/mine"))


def test_an_offer_taken_by_another_user_is_refused_and_nothing_changes(site: Site) -> None:
    record = planned(site)
    later = next(each for each in forms(site) if each["start"] > record.start.isoformat())
    site.add(record.start, record.start + 30 * DAY, model=A6000, count=2, node="node-a")
    answer = site.send("POST", f"/mine/{record.id}/take", data=later)
    assert answer.status_code == 422
    assert "can be had all the time" in page_text(answer)
    assert site.service.show(site.who("alice"), record.id) == record


def test_a_running_booking_keeps_its_start(site: Site) -> None:
    now = site.clock.now()
    site.capacity = Capacity({A6000: {"node-a": 2}})
    record = site.add(now - DAY, now + 3 * DAY, user="alice", model=A6000, count=2, node="node-a")
    blocked(site, 2 * DAY, 4 * DAY)
    (offer, *_) = forms(site)
    assert offer["start"] == ""
    assert site.send("POST", f"/mine/{record.id}/take", data=offer).status_code == 303
    changed = site.service.show(site.who("alice"), record.id)
    assert changed.start == record.start
    assert changed.end < record.end


def test_another_model_is_named_without_a_button_since_a_booking_cannot_change_its_model(site: Site) -> None:
    planned(site)
    site.capacity = Capacity({A6000: {"node-a": 0}, A100: {"node-b": 4}})
    assert forms(site) == []
    assert f"Once it is cancelled, you could book: {gpus(2, A100)}" in page_text(searched(site))


def test_a_page_without_offers_says_what_can_be_done(site: Site) -> None:
    planned(site)
    site.capacity = Capacity({A6000: {"node-a": 0}})
    text = page_text(searched(site))
    assert "At risk. " in text
    assert "At present no change would make it possible to keep it" in text


@pytest.mark.parametrize(
    ("start", "end", "count"),
    [
        ("never", "2026-03-05T10:00:00Z", "1"),
        ("", "", "1"),
        ("", "2026-03-05T10:00:00", "1"),
        ("2026-03-04T10:00:00", "2026-03-05T10:00:00Z", "1"),
        ("", "2026-03-05T10:00:00Z", "many"),
        ("", "2026-03-05T10:00:00Z", "9" * 20),
    ],
)
def test_a_forged_form_changes_nothing(start: str, end: str, count: str) -> None:
    assert isinstance(taken(start, end, count), FormAnswer)


def test_an_offer_is_read_as_it_was_written() -> None:
    end = datetime(2026, 3, 5, 10, tzinfo=UTC)
    assert taken("", "2026-03-05T10:00:00Z", "2") == BookingChange(end=end, count=2)
    assert taken("2026-03-04T10:00:00Z", "2026-03-05T10:00:00Z", "2") == BookingChange(
        start=end - DAY, end=end, count=2
    )


def test_another_users_form_is_answered_with_404(site: Site) -> None:
    record = planned(site)
    offer = forms(site)[0] | {"csrf": token(site.see("/", user="bob"))}
    assert site.send("POST", f"/mine/{record.id}/take", user="bob", data=offer).status_code == 404
    assert site.service.show(site.who("alice"), record.id) == record


def test_the_page_searches_nothing_and_htmx_asks_for_it_afterwards(site: Site) -> None:
    record = planned(site)
    page = site.see("/mine").text
    assert "At risk" in page
    assert "/take" not in page
    (address,) = re.findall(r'hx-get="(/mine/[^"]+/instead)"', page)
    fragment = site.see(address, headers={"HX-Request": "true"}).text
    assert f"/mine/{record.id}/take" in fragment
    assert "<html" not in fragment
    assert site.see(address).headers["Location"] == f"/mine?instead={record.id}#{record.id}"
    assert site.see(address, user="bob", headers={"HX-Request": "true"}).status_code == 404
