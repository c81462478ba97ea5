"""A refusal on the page is one sentence and what to press, with one earliest date."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from booking.policy.limits import Limits
from booking.server.records import Violation
from booking.server.web.pages.form_result import decisive
from tests.booking.server.web.pages.site import ZONE, Site, page_text, token
from tests.fakes.objects import A100

DAY = timedelta(days=1)
NOW = datetime(2026, 3, 2, tzinfo=UTC)


def answer_of(site: Site, **fields: str) -> str:
    form = {"csrf": token(site.see("/")), "model": A100, **fields}
    return page_text(site.send("POST", "/check", data=form, headers={"HX-Request": "true"}))


def test_of_the_rules_that_waiting_satisfies_only_the_longest_speaks() -> None:
    soon, late = (
        Violation(rule=f"r-{days}", message="wait", earliest_start=NOW + days * DAY) for days in (1, 9)
    )
    never = Violation(rule="never", message="less")
    assert decisive([soon, never, late]) == (never, late)
    assert decisive([never]) == (never,)


def test_a_running_booking_its_cooldown_and_a_full_calendar_are_one_sentence(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(zone=ZONE))
    now = site.clock.now()
    site.add(now, now + DAY, user="alice", node="node-a")
    for node in ("node-a", "node-b"):
        site.add(now, now + 9 * DAY, user="bob", count=4, node=node)
    text = answer_of(site)
    assert "Your last booking's end is" in text
    assert "can be had" not in text
    assert "nobody books while" not in text
    assert len(re.findall("Tue 17 Mar 10:00", text)) == 1
    site.store.close()


def test_a_full_calendar_has_its_sentence_and_one_earliest_date_to_press(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(zone=ZONE))
    now = site.clock.now()
    for node in ("node-a", "node-b"):
        site.add(now, now + 9 * DAY, user="bob", count=4, node=node)
    text = answer_of(site)
    assert "0 of the 8 GPUs of model" in text
    assert "earliest valid start" not in text
    assert "What would be accepted now" in text
    site.store.close()
