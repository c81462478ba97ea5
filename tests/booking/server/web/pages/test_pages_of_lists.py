"""Lists that come a page at a time: *My bookings*; maintenance, exemptions and everybody's bookings."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Final

import pytest

from booking.server.records import Record
from booking.server.store_records import Block, Exemption
from tests.booking.server.web.pages.site import DAY, Site, page_text, token

PAGE: Final = 200
"""Entries of a page."""
LEFT: Final = "Nothing is left on this page."


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Bob is an administrator."""
    made = Site(tmp_path)
    made.signing_in.administrators.add("bob")
    yield made
    made.store.close()


def blocks(site: Site, number: int) -> list[str]:
    now = site.clock.now()
    for each in range(number):
        block = Block(
            id=f"k-{each:03}",
            node="node-a",
            start=now + (each // 2) * timedelta(hours=1),
            end=now + 30 * DAY,
            reason=f"<fan {each:03}>",
            created_by="bob",
            created=now,
        )
        site.block(block)
    return [f"k-{each:03}" for each in range(number)]


def exemptions(site: Site, number: int) -> list[str]:
    now = site.clock.now()
    for each in range(number):
        exemption = Exemption(
            id=f"e-{each:03}",
            user="carol",
            limits={"longest": "P21D"},
            start=now + (each // 2) * timedelta(hours=1),
            end=now + 30 * DAY,
            reason="A paper.",
            created_by="bob",
            created=now,
        )
        site.store.write(lambda writing, one=exemption: writing.exemption_add(one))
    return [f"e-{each:03}" for each in range(number)]


def bookings(site: Site, number: int, user: str = "bob") -> list[str]:
    now = site.clock.now()
    return [
        site.add(now + each * DAY, now + (each + 1) * DAY, id=f"b-{each:03}", user=user).id
        for each in range(number)
    ]


LISTS: Final[dict[str, tuple[Callable[[Site, int], list[str]], str]]] = {
    "/admin": (blocks, r'action="/admin/blocks/(k-\d+)/remove'),
    "/admin/exemptions": (exemptions, r'action="/admin/exemptions/(e-\d+)/remove'),
    "/admin/bookings": (bookings, r'<tr id="(b-\d+)">'),
    "/mine": (bookings, r'<article class="booking card" id="(b-\d+)"'),
}
"""Address -> the function that fills its list, and the pattern of an entry of it."""


def later(site: Site, address: str) -> str:
    """Where the page's link to the next one leads."""
    found = re.search(rf'href="({address}[?]continue=[^"]+)">Later', site.see(address, user="bob").text)
    assert found
    return unescape(found[1])


@pytest.mark.parametrize("address", LISTS)
def test_the_next_page_shows_the_remaining_entries(site: Site, address: str) -> None:
    fill, shown = LISTS[address]
    made = fill(site, PAGE + 2)
    first, second = site.see(address, user="bob"), site.see(later(site, address), user="bob")
    assert re.findall(shown, first.text) == made[:PAGE]
    assert re.findall(shown, second.text) == made[PAGE:]
    assert ">Later" not in second.text


@pytest.mark.parametrize("address", LISTS)
def test_a_list_of_one_page_has_no_link_to_a_next_one(site: Site, address: str) -> None:
    LISTS[address][0](site, PAGE)
    assert ">Later" not in site.see(address, user="bob").text


@pytest.mark.parametrize("mark", ["", "nonsense", "5.", "<b>", "9" * 5000])
@pytest.mark.parametrize("address", LISTS)
def test_an_invalid_page_address_is_answered_with_an_explanation(site: Site, address: str, mark: str) -> None:
    answer = site.see(address, user="bob", query_string={"continue": mark})
    assert answer.status_code == 422
    assert answer.content_type.startswith("text/html")
    text = page_text(answer)
    assert "No list goes on at" in text
    assert "begin with its first page." in text
    assert "<b>" not in answer.text


@pytest.mark.parametrize("address", LISTS)
def test_a_page_whose_entries_are_gone_links_to_the_first_page_and_reports_no_empty_list(
    site: Site, address: str
) -> None:
    LISTS[address][0](site, 1)
    answer = site.see(f"{address}?continue=99999999999.x", user="bob")
    assert answer.status_code == 200
    assert LEFT in page_text(answer)
    assert f'<a href="{address}">Show the first page</a>' in answer.text
    assert LEFT not in page_text(site.see(address, user="bob"))


def a_form(site: Site, address: str, action: str) -> str:
    """Where a form on the second page of a list leads, found by the beginning of its address."""
    text = site.see(later(site, address), user="bob").text
    found = re.search(rf'action="({action}[^"]*)"', text)
    assert found
    return unescape(found[1])


@pytest.mark.parametrize(
    ("address", "action"),
    [
        ("/mine", f"/mine/b-{PAGE:03}/move/check"),
        ("/mine", f"/mine/b-{PAGE:03}/move"),
        ("/admin/bookings", f"/admin/bookings/b-{PAGE:03}/end"),
    ],
)
def test_the_answer_to_a_form_is_shown_on_the_page_that_the_form_was_on(
    site: Site, address: str, action: str
) -> None:
    fill, shown = LISTS[address]
    made = fill(site, PAGE + 2)
    csrf = token(site.see(address, user="bob"))
    answer = site.send(
        "POST", a_form(site, address, action), user="bob", data={"csrf": csrf, "start": "2020-01-01T00:00"}
    )
    assert re.findall(shown, answer.text) == made[PAGE:]
    assert ">Later" not in answer.text
    if address == "/mine":
        (card,) = re.findall(rf'id="answer-{made[PAGE]}-move".*?</div>', answer.text, re.DOTALL)
        assert "already" in card


def test_after_a_change_the_same_page_is_shown(site: Site) -> None:
    made = bookings(site, PAGE + 2)
    csrf = token(site.see("/mine", user="bob"))
    answer = site.send(
        "POST", a_form(site, "/mine", f"/mine/{made[PAGE]}/cancel"), user="bob", data={"csrf": csrf}
    )
    assert answer.status_code == 303
    page = site.see(answer.headers["Location"], user="bob")
    assert "Cancelled: " in page_text(page)
    assert re.findall(LISTS["/mine"][1], page.text) == made[PAGE + 1 :]


@pytest.mark.parametrize(
    ("address", "action", "word"),
    [
        ("/admin", f"/admin/blocks/k-{PAGE:03}/remove", "The maintenance is removed."),
        ("/admin/exemptions", f"/admin/exemptions/e-{PAGE:03}/remove", "The exemption has ended."),
    ],
)
def test_cancelling_the_last_entry_of_a_page_is_confirmed_there(
    site: Site, address: str, action: str, word: str
) -> None:
    LISTS[address][0](site, PAGE + 1)
    csrf = token(site.see(address, user="bob"))
    answer = site.send("POST", a_form(site, address, action), user="bob", data={"csrf": csrf})
    assert answer.status_code == 303
    text = page_text(site.see(answer.headers["Location"], user="bob"))
    assert word in text
    assert LEFT in text


@pytest.mark.parametrize(
    ("address", "fields"),
    [("/admin", {"node": "nowhere"}), ("/admin/exemptions", {"user": "carol", "limits": "longest: ages"})],
)
def test_a_refused_form_shows_the_list_with_its_link_to_the_next_page(
    site: Site, address: str, fields: dict[str, str]
) -> None:
    fill, shown = LISTS[address]
    made = fill(site, PAGE + 1)
    form = {"csrf": token(site.see(address, user="bob")), "end": "2026-03-09T10:00", "reason": "r", **fields}
    answer = site.send("POST", address, user="bob", data=form)
    assert answer.status_code == 422
    assert re.findall(shown, answer.text) == made[:PAGE]
    assert f'href="{later(site, address)}"' in unescape(answer.text)


def test_a_risk_is_shown_on_the_page_of_its_booking(site: Site) -> None:
    made = bookings(site, PAGE + 1)
    record: Record = site.service.show(site.who("bob"), made[-1])
    for node in ("node-a", "node-b"):
        site.block(
            Block(
                id=f"k-{node}",
                node=node,
                start=record.start,
                end=record.end,
                reason="fans",
                created_by="bob",
                created=site.clock.now(),
            )
        )
    assert "At risk" not in page_text(site.see("/mine", user="bob"))
    assert "At risk" in page_text(site.see(later(site, "/mine"), user="bob"))
