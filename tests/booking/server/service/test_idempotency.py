"""The same request, sent again: the same answer, and nothing done twice."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from booking.durations import Duration
from booking.server.errors import KeyReusedError, NotAllowedError, RefusedError, StaleError, UnknownError
from booking.server.records import BookingChange, SlotRequest
from booking.server.service import BookingService, Key
from booking.server.store import Store
from booking.server.store_records import Block, Exemption
from cluster.fake.clock import FakeClock
from tests.fakes.objects import A100
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import a_request, day

ALICE, BOB = somebody("alice"), somebody("bob")
KEY = Key.of("k-1", b"POST /bookings", b"{}")
OTHER = Key.of("k-1", b"POST /bookings", b'{"count": 2}')


def test_a_key_of_another_request_is_refused_and_nothing_is_stored(
    service: BookingService, store: Store
) -> None:
    service.create(ALICE, a_request(day(1)), key=KEY)
    with pytest.raises(KeyReusedError):
        service.create(ALICE, a_request(day(1), count=2), key=OTHER)
    assert store.change() == 1


def test_the_same_key_of_two_users_is_two_keys(service: BookingService) -> None:
    first = service.create(ALICE, a_request(day(1)), key=KEY)
    assert service.create(BOB, a_request(day(1)), key=KEY).id != first.id


def test_a_refused_request_is_decided_again_when_it_is_repeated(service: BookingService) -> None:
    first = service.create(ALICE, a_request(day(1)))
    with pytest.raises(RefusedError):
        service.create(ALICE, a_request(day(5)), key=KEY)
    service.cancel(ALICE, first.id)
    assert service.create(ALICE, a_request(day(5)), key=KEY).start == day(5)


ROOT = an_administrator()
EVERY_VERB: dict[str, Callable[[BookingService, str, Key], Any]] = {
    "change": lambda service, booking, key: service.change(
        ALICE, booking, BookingChange(end=day(2)), key=key
    ),
    "cancel": lambda service, booking, key: service.cancel(ALICE, booking, key=key),
    "add a block": lambda service, _, key: service.add_block(
        ROOT, node="n0", start=day(1), end=day(2), reason="fans", key=key
    ),
    "remove a block": lambda service, _, key: service.remove_block(ROOT, "k-1", key=key),
    "add an exemption": lambda service, _, key: service.add_exemption(
        ROOT, user="bob", start=day(0), end=day(9), limits={"longest": "P30D"}, reason="thesis", key=key
    ),
    "remove an exemption": lambda service, _, key: service.remove_exemption(ROOT, "e-1", key=key),
}


@pytest.mark.parametrize("verb", EVERY_VERB)
def test_every_verb_repeated_with_its_key_is_answered_again_and_done_once(
    service: BookingService, store: Store, clock: FakeClock, verb: str
) -> None:
    by_bob: dict[str, Any] = {
        "reason": "r",
        "created_by": "bob",
        "created": day(0),
        "start": day(0),
        "end": day(9),
    }
    store.write(lambda writing: writing.block_add(Block(id="k-1", node="n1", **by_bob)))
    store.write(
        lambda writing: writing.exemption_add(
            Exemption(id="e-1", user="alice", limits={"longest": "P9D"}, **by_bob)
        )
    )
    booking = service.create(ALICE, a_request(day(1), day(3))).id
    first = EVERY_VERB[verb](service, booking, KEY)
    change, audited = store.change(), service.audit(ROOT).entries
    clock.advance(60)
    assert EVERY_VERB[verb](service, booking, KEY) == first
    assert (store.change(), service.audit(ROOT).entries) == (change, audited)
    with pytest.raises(KeyReusedError):
        EVERY_VERB[verb](service, booking, Key.of("k-1", b"something else"))


REFUSED: dict[str, Callable[[BookingService, str, Key], Any]] = {
    "create": lambda service, _, key: service.create(BOB, a_request(day(1), day(31)), key=key),
    "create for nobody": lambda service, _, key: service.create(
        ROOT, a_request(day(1)), user="bob@example.org", key=key
    ),
    "create the earliest": lambda service, _, key: service.create_earliest(
        BOB, SlotRequest(model=A100, duration=Duration(days=30)), key=key
    ),
    "create by a deadline without an offset": lambda service, _, key: service.create_earliest(
        BOB, SlotRequest(model=A100, duration=Duration(days=1), deadline=day(9).replace(tzinfo=None)), key=key
    ),
    "change": lambda service, booking, key: service.change(
        ALICE, booking, BookingChange(end=day(31)), key=key
    ),
    "change of none": lambda service, _, key: service.change(
        ALICE, "b-0", BookingChange(end=day(2)), key=key
    ),
    "change of a booking that has changed": lambda service, booking, key: service.change(
        ALICE, booking, BookingChange(end=day(2)), expected="0", key=key
    ),
    "release": lambda service, booking, key: service.release(ALICE, booking, key=key),
    "cancel without a reason": lambda service, booking, key: service.cancel(ROOT, booking, key=key),
    "add a block": lambda service, _, key: service.add_block(
        ROOT, node="n9", start=day(1), end=day(2), reason="fans", key=key
    ),
    "add a block without a reason": lambda service, _, key: service.add_block(
        ROOT, node="n0", start=day(1), end=day(2), reason=" ", key=key
    ),
    "remove a block": lambda service, _, key: service.remove_block(ROOT, "k-1", key=key),
    "add an exemption": lambda service, _, key: service.add_exemption(
        ROOT, user="bob@example.org", start=day(0), end=day(9), limits={}, reason="thesis", key=key
    ),
    "remove an exemption": lambda service, _, key: service.remove_exemption(ROOT, "e-1", key=key),
    "evict": lambda service, _, key: service.evict(ROOT, "research", "No Pod", "r", key=key),
    "order": lambda service, _, key: service.order_gpu(
        ROOT, "No Node", "0", order="clear", reason="r", key=key
    ),
}
"""Verbs that are refused; a refusal uses the key all the same."""
WHO = {
    "create": BOB,
    "create the earliest": BOB,
    "create by a deadline without an offset": BOB,
} | dict.fromkeys(("change", "change of none", "change of a booking that has changed", "release"), ALICE)


@pytest.mark.parametrize("verb", REFUSED)
def test_the_key_of_a_refused_request_serves_no_other_and_the_same_request_is_decided_again(
    service: BookingService, store: Store, verb: str
) -> None:
    booking, who = service.create(ALICE, a_request(day(1), day(3))).id, WHO.get(verb, ROOT)
    for _ in range(2):
        with pytest.raises((RefusedError, StaleError, UnknownError)):
            REFUSED[verb](service, booking, KEY)
    before = store.change()
    for ask in (REFUSED[verb], lambda service, *_: service.create(who, a_request(day(20)), key=OTHER)):
        with pytest.raises(KeyReusedError):
            ask(service, booking, OTHER)
    assert store.change() == before
    assert service.create(somebody("carol"), a_request(day(20)), key=OTHER)


def test_a_refused_request_that_is_granted_later_is_answered_by_its_key_from_then_on(
    service: BookingService, store: Store
) -> None:
    first = service.create(ALICE, a_request(day(1)))
    with pytest.raises(RefusedError):
        service.create(ALICE, a_request(day(5)), key=KEY)
    service.cancel(ALICE, first.id)
    granted = service.create(ALICE, a_request(day(5)), key=KEY)
    change = store.change()
    assert service.create(ALICE, a_request(day(5)), key=KEY) == granted
    assert store.change() == change
    service.spend(ALICE, KEY)
    assert service.replayed(ALICE, KEY) == granted


def test_keys_of_refused_requests_expire_as_those_of_granted_ones_do(
    service: BookingService, clock: FakeClock
) -> None:
    with pytest.raises(RefusedError):
        service.create(ALICE, a_request(day(1), day(31)), key=KEY)
    clock.advance(timedelta(hours=49).total_seconds())
    service.create(BOB, a_request(day(5)), key=KEY)
    assert service.create(ALICE, a_request(day(5)), key=OTHER)


def test_a_request_without_permission_does_not_use_its_key(service: BookingService) -> None:
    with pytest.raises(NotAllowedError):
        service.create(ALICE, a_request(day(1)), user="bob", key=KEY)
    assert service.create(ALICE, a_request(day(1)), key=OTHER)


@pytest.mark.parametrize("text", ["", "x" * 201, "a\nb", "\0"])
def test_a_key_is_a_short_visible_text(text: str) -> None:
    with pytest.raises(ValueError, match="1 to 200 visible characters"):
        Key.of(text, b"")
