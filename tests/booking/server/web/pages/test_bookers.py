"""Who has booked GPUs, on *Availability*: shown where the policy shows names."""

from tests.booking.server.web.pages.site import DAY, Site, page_text
from tests.fakes.objects import A100

OPENED = f"/?open={A100}"


def test_names_of_others_are_shown_where_the_policy_shows_them(site: Site) -> None:
    now = site.clock.now()
    site.add(now + DAY, now + 3 * DAY, user="bob", count=2, node="node-a")
    site.add(now, now + DAY, user="alice", node="node-a")
    site.add(now + 40 * DAY, now + 41 * DAY, user="bob-later", node="node-a")
    assert "by whom it is booked" not in page_text(site.see(OPENED))
    assert "bob" not in site.see(OPENED).text

    site.visibility = "names"
    page = page_text(site.see(OPENED))
    assert "A100 SXM4 80GB, by whom it is booked User GPUs From Until" in page
    assert "alice yours 1 Mon 2 Mar 10:00 Tue 3 Mar 10:00 bob 2 Tue 3 Mar 10:00 Thu 5 Mar 10:00" in page
    assert "bob-later" not in page


def test_an_administrator_always_sees_the_names(site: Site) -> None:
    now = site.clock.now()
    site.add(now, now + DAY, user="bob", node="node-a")
    site.signing_in.administrators.add("alice")
    assert "bob 1 Mon 2 Mar 10:00" in page_text(site.see(OPENED))


def test_a_user_who_is_the_only_booker_sees_no_table(site: Site) -> None:
    now = site.clock.now()
    site.add(now, now + DAY, user="alice", node="node-a")
    site.visibility = "names"
    assert "by whom it is booked" not in page_text(site.see(OPENED))


def test_a_name_does_no_harm(site: Site) -> None:
    now = site.clock.now()
    site.visibility = "names"
    site.add(now, now + DAY, user="<script>alert(1)</script>", node="node-a")
    assert "<script>alert" not in site.see(OPENED).text
