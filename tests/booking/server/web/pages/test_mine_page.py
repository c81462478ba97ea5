"""*My bookings*, requested without a browser."""

import re
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec
import pytest

from booking.eviction.settings import EndAction, EvictionSettings
from booking.server.capacity.capacity import Capacity
from booking.server.records import Place
from booking.server.store_records import Block
from cluster import names
from tests.booking.server.web.pages.site import DAY, Site, page_text, token
from tests.fakes.objects import A100, A6000


def test_a_card_shows_the_booking_the_time_left_the_node_and_the_pods(site: Site) -> None:
    now = site.clock.now()
    record = site.add(
        now - DAY, now + 26 * DAY / 24, user="alice", count=2, node="node-a", namespace="vision"
    )
    site.pods = {record.id: ("vision/train",)}
    text = page_text(site.see("/mine"))
    for expected in (
        "running",
        "Ends in 1 day 2 h",
        "node-a (planned)",
        "vision/train",
        "Tue 3 Mar 12:00",
        record.id,
    ):
        assert expected in text


def test_the_hint_is_a_pod_that_this_booking_covers(site: Site) -> None:
    now = site.clock.now()
    site.add(now, now + DAY, user="alice", count=2, node="node-a", namespace="vision")
    text = site.see("/mine").text
    assert "kubectl create --namespace vision" in text
    assert f"{names.MODEL}: {A100}" in text
    assert f"{names.GPU_RESOURCE}: 2" in text


def test_the_hint_for_a_booking_over_several_nodes_is_a_pod_that_fits_and_says_that_several_share_it(
    site: Site,
) -> None:
    now = site.clock.now()
    record = site.add(now, now + DAY, user="alice", count=8)
    spread = (Place("node-b", 2), Place("node-a", 4), Place("node-c", 2))
    site.store.write(
        lambda writing: writing.replace(msgspec.structs.replace(record, topology="any", plan=spread))
    )
    page = site.see("/mine")
    assert f"{names.GPU_RESOURCE}: 4\n" in page.text
    assert (
        "A pod runs on one node, and these 8 GPUs are planned on 3: let several pods share the booking, for"
        " example of 4, 2 and 2 GPUs. This one asks for 4." in page_text(page)
    )


def test_the_hint_for_a_booking_on_one_node_does_not_mention_several_pods(site: Site) -> None:
    now = site.clock.now()
    site.add(now, now + DAY, user="alice", count=2, node="node-a")
    assert "several pods" not in page_text(site.see("/mine"))


def test_only_the_buttons_that_end_a_booking_look_dangerous(site: Site) -> None:
    now = site.clock.now()
    site.add(now - DAY, now + DAY, user="alice", node="node-a")
    site.add(now + 2 * DAY, now + 3 * DAY, user="alice", node="node-a")
    text = site.see("/mine").text
    openers = re.findall(r'<summary class="button small danger">([^<]+)', text)
    assert openers == ["Release", "Cancel"]
    senders = re.findall(r'<button class="button danger" type="submit">([^<]+)', text)
    assert senders == ["Release now", "Cancel this booking"]


STAY: Final = "stay, but must leave whenever a booked pod needs their GPUs."


@pytest.mark.parametrize(
    ("bare", "owned", "before", "after"),
    [
        (
            "recreate-without-gpu",
            "demote",
            "come back without a GPU: save your work first. Its pods of controllers, such as Jobs, " + STAY,
            "Its bare pods end now and come back without a GPU. Its pods of controllers, such as Jobs, "
            + STAY,
        ),
        ("demote", "demote", f"Its pods {STAY}", f"Its pods {STAY}"),
        (
            "delete",
            "delete",
            "Its bare pods end with it and do not come back: save your work first.",
            "Its bare pods end now and do not come back. Its pods of controllers, such as Jobs, end now, and",
        ),
    ],
)
def test_the_page_says_what_happens_to_the_pods_before_and_after_a_release(
    tmp_path: Path, bare: EndAction, owned: EndAction, before: str, after: str
) -> None:
    site = Site(
        tmp_path, terms=EvictionSettings(end_action_without_controller=bare, end_action_with_controller=owned)
    )
    with closing(site.store):
        now = site.clock.now()
        record = site.add(now - DAY, now + DAY, user="alice", node="node-a")
        page = site.see("/mine")
        assert before in page_text(page)
        form = {"csrf": token(page), "version": record.version}
        done = site.send("POST", f"/mine/{record.id}/release", data=form)
        assert after in page_text(site.see(done.headers["Location"]))


def test_a_new_end_in_the_past_is_a_release_and_is_shown_as_one(site: Site) -> None:
    now = site.clock.now()
    record = site.add(now - DAY, now + DAY, user="alice", node="node-a")
    form = {"csrf": token(site.see("/")), "end": "2026-03-02T09:00", "version": record.version}
    would = page_text(site.send("POST", f"/mine/{record.id}/length/check", data=form))
    assert "Possible: " in would
    assert "Its bare pods end with it and come back without a GPU: save your work first." in would
    done = site.send("POST", f"/mine/{record.id}/length", data=form)
    text = page_text(site.see(done.headers["Location"]))
    assert "Given back: " in text
    assert "Its bare pods end now and come back without a GPU." in text


def test_a_shortened_booking_continues_and_pods_that_end_now_are_not_mentioned(site: Site) -> None:
    now = site.clock.now()
    record = site.add(now - DAY, now + 3 * DAY, user="alice", node="node-a")
    form = {"csrf": token(site.see("/")), "end": "2026-03-04T09:00", "version": record.version}
    address = f"/mine/{record.id}/length"
    would = page_text(site.send("POST", f"{address}/check", data=form, headers={"HX-Request": "true"}))
    assert "Possible: " in would
    assert "end with it" not in would
    done = site.send("POST", address, data=form)
    assert "end now" not in page_text(site.see(done.headers["Location"]))


def test_pods_are_not_mentioned_while_they_are_unknown(site: Site) -> None:
    now = site.clock.now()
    site.add(now, now + DAY, user="alice", node="node-a")
    assert "none yet" in page_text(site.see("/mine"))
    site.pods = None
    assert "none yet" not in page_text(site.see("/mine"))


def test_another_users_booking_can_be_neither_seen_nor_ended(site: Site) -> None:
    now = site.clock.now()
    record = site.add(now - DAY, now + DAY, user="bob", node="node-a")
    assert record.id not in site.see("/mine").text
    assert site.see(f"/mine?booked={record.id}").status_code == 404
    form = {"csrf": token(site.see("/"))}
    before = site.stored
    for verb in ("release", "cancel", "length", "move", "length/check", "move/check"):
        fields = {**form, "end": "2026-03-03T12:00", "start": "2026-03-03T12:00"}
        assert site.send("POST", f"/mine/{record.id}/{verb}", data=fields).status_code == 404
    assert site.stored == before


@pytest.mark.parametrize("verb", ["release", "cancel", "length", "move"])
def test_a_booking_that_is_over_cannot_be_changed(site: Site, verb: str) -> None:
    now = site.clock.now()
    record = site.add(now - 3 * DAY, now - DAY, user="alice", node="node-a")
    form = {"csrf": token(site.see("/")), "end": "2026-03-05T10:00", "start": "2026-03-05T10:00"}
    answer = site.send("POST", f"/mine/{record.id}/{verb}", data=form)
    assert answer.status_code == 422
    assert "over" in page_text(answer)


def test_a_booking_whose_gpus_are_in_maintenance_is_shown_as_at_risk_with_the_cause(site: Site) -> None:
    now = site.clock.now()
    site.capacity = Capacity({A6000: {"node-a": 2}})
    record = site.add(now + DAY, now + 3 * DAY, user="alice", model=A6000, count=2, node="node-a")
    assert "At risk" not in page_text(site.see("/mine"))
    site.block(
        Block(
            id="k-1",
            node="node-a",
            start=now + 2 * DAY,
            end=now + 4 * DAY,
            reason="new fans",
            created_by="bob",
            created=now,
        )
    )
    page = site.see("/mine")
    assert "At risk. Maintenance on node-a from Wed 4 Mar 10:00" in page_text(page)
    assert "(new fans)" in page_text(page)
    assert record.id in page.text
    site.unknown_capacity = "Nothing is known."
    assert "At risk" not in page_text(site.see("/mine"))


def test_a_moved_booking_has_as_many_days_as_before_where_clocks_change(site: Site) -> None:
    now = site.clock.now()
    record = site.add(now + DAY, now + 3 * DAY, user="alice", node="node-a")
    form = {"csrf": token(site.see("/")), "start": "2026-03-28T10:00", "version": record.version}
    assert site.send("POST", f"/mine/{record.id}/move", data=form).status_code == 303
    moved = site.service.show(site.who("alice"), record.id)
    assert moved.end - moved.start == timedelta(hours=47)


def test_a_form_of_a_booking_changed_in_the_meantime_is_refused_but_a_moved_plan_is_no_change(
    site: Site,
) -> None:
    now = site.clock.now()
    record = site.add(now + DAY, now + 3 * DAY, user="alice", node="node-a")
    assert f'name="version" value="{record.version}"' in site.see("/mine").text
    form = {"csrf": token(site.see("/")), "start": "2026-03-28T10:00", "version": record.version}
    site.store.write(lambda writing: writing.replan(record.id, (Place("node-b", 1),)))
    assert site.send("POST", f"/mine/{record.id}/move", data=form).status_code == 303
    moved = site.service.show(site.who("alice"), record.id)
    for version in (record.version, "nonsense"):
        stale = {**form, "start": "2026-03-29T10:00", "version": version}
        assert "has changed since you saw it" in page_text(
            site.send("POST", f"/mine/{record.id}/move", data=stale)
        )
    assert site.service.show(site.who("alice"), record.id) == moved


def test_an_impossible_change_is_refused_with_what_would_be_possible(site: Site) -> None:
    now = site.clock.now()
    record = site.add(now - DAY, now + DAY, user="alice", count=4, node="node-a")
    site.capacity = Capacity({A100: {"node-a": 4}})
    site.add(now + 3 * DAY, now + 9 * DAY, count=4, node="node-a")
    form = {"csrf": token(site.see("/")), "version": record.version}
    for verb in ("length", "length/check"):
        page = page_text(
            site.send("POST", f"/mine/{record.id}/{verb}", data={**form, "end": "2026-03-07T10:00"})
        )
        assert "can be had all the time" in page
        assert "It could become: 4 \N{MULTIPLICATION SIGN} A100 SXM4 80GB" in page
        assert "Thu 5 Mar 10:00 (shorter)" in page
    beyond = {**form, "end": "2026-02-01T10:00"}
    assert "which is not after its start" in page_text(
        site.send("POST", f"/mine/{record.id}/length/check", data=beyond)
    )


def test_a_booking_gets_more_gpus_or_fewer_where_enough_exist(site: Site) -> None:
    now = site.clock.now()
    record = site.add(now - DAY, now + DAY, user="alice", count=2, node="node-a")
    site.capacity = Capacity({A100: {"node-a": 4}})
    csrf = {"csrf": token(site.see("/"))}

    def resize(count: str, what: str = "") -> str:
        return page_text(site.send("POST", f"/mine/{record.id}/resize{what}", data={**csrf, "count": count}))

    assert "cannot be booked: there are 4" in resize("5")
    for nothing in ("", "0", "many", "-1", "9" * 20):
        assert "Say how many GPUs" in resize(nothing)
    assert "Possible: 4 \N{MULTIPLICATION SIGN} A100 SXM4 80GB" in resize("4", "/check")
    assert site.service.show(site.who("alice"), record.id).count == 2
    resize("3")
    assert site.service.show(site.who("alice"), record.id).count == 3


def test_past_bookings_come_in_pages_of_fifty_newest_first_with_who_ended_them(site: Site) -> None:
    now = site.clock.now()
    for number in range(51):
        site.add(now - (100 - number) * DAY, now - (99 - number) * DAY, user="alice", node="node-a")
    last = site.add(
        now - 2 * DAY,
        now - DAY,
        user="alice",
        released=now - DAY,
        ended_by="bob",
        reason="the node burns",
        waived=True,
    )
    page = site.see("/mine?past=1")
    assert page.text.count('<th scope="row">') == 50
    assert page.text.index(last.id) < page.text.index("b-0000000051")
    assert "by bob: the node burns" in page_text(page)
    assert site.see("/mine?past=1&skip=50").text.count('<th scope="row">') == 2
    assert site.see("/mine?past=1&skip=many").status_code == 200
