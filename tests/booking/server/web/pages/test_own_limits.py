"""One's own limits stand in the form, before one tries."""

from pathlib import Path

from booking.durations import Duration
from booking.policy.limits import Limits, limit_values
from booking.server.web.pages.own_limits import limits_text
from tests.booking.server.web.pages.site import ZONE, Site, page_text, token
from tests.fakes.objects import A100


def test_the_manuals_limits_are_said_in_a_sentence() -> None:
    assert limits_text(limit_values(Limits())) == (
        "Your limits: 1 day to 14 days; 1 planned, and no new one while one runs; 14 days between two"
        " bookings."
    )


def test_every_limit_that_a_request_may_break_is_said() -> None:
    limits = Limits(
        granularity=Duration(seconds=3600),
        max_gpus_per_booking=2,
        max_concurrent_gpus=4,
        spontaneous=Duration(seconds=7200),
        horizon=Duration(days=30),
        cooldown=Duration(),
        max_active=3,
    )
    assert limits_text(limit_values(limits)) == (
        "Your limits: 1 day to 14 days; in steps of 1 hour; at most 2 GPUs in a booking (more if it starts"
        " within 2 hours); at most 4 GPUs at a time (more if it starts within 2 hours); starting within 30"
        " days; 1 planned, and no new one while 3 run."
    )


def test_the_form_shows_the_limits_before_anything_is_tried_and_after_a_check(tmp_path: Path) -> None:
    site = Site(tmp_path, Limits(zone=ZONE, max_gpus_per_booking=2))
    page = site.see("/")
    assert "at most 2 GPUs in a booking" in page_text(page)
    form = {"csrf": token(page), "model": A100}
    checked = site.send("POST", "/check", data=form, headers={"HX-Request": "true"})
    assert "at most 2 GPUs in a booking" in page_text(checked)
    site.store.close()
