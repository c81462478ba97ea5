"""What the audit records of each verb, in the verb's own transaction; and what is kept of refused demand."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.server.errors import RefusedError, StaleError, StoreError, UnknownError
from booking.server.records import BookingChange, Record, SlotRequest
from booking.server.service import BookingService, Key
from booking.server.store import Store
from booking.server.store_records import AuditEntry, Denied
from cluster.fake.clock import FakeClock
from tests.fakes.cluster_orders import Gpus, Pods
from tests.fakes.objects import A100
from tests.fakes.principals import an_administrator, somebody
from tests.fakes.records import CLUSTER, a_request, day

ALICE, BOB, ROOT = somebody("alice"), somebody("bob"), an_administrator()
KEY = Key.of("k-1", b"the request")
NOON = timedelta(hours=3, milliseconds=250)
"""The time that passes before the verbs, of which the audit keeps whole seconds."""


class World:
    """A running booking of alice's, a planned one of bob's, a block and an exemption; three hours later."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.pods, self.gpus = Pods(list), Gpus(list)
        self.service = BookingService(
            store, clock, Limits(), lambda: CLUSTER, evictions=self.pods, gpus=self.gpus
        )
        self.running = self.service.create(ALICE, a_request(end=day(5)))
        self.planned = self.service.create(BOB, a_request(day(3)))
        self.block = self.service.add_block(ROOT, node="n1", start=day(1), end=day(2), reason="fans")
        self.exemption = self.service.add_exemption(
            ROOT, user="bob", start=day(0), end=day(9), limits={"longest": "P20D"}, reason="thesis"
        )
        clock.advance(NOON.total_seconds())

    def audited(self) -> tuple[AuditEntry, ...]:
        """Newest first."""
        return self.service.audit(ROOT, limit=99).entries


@pytest.fixture
def world(store: Store, clock: FakeClock) -> World:
    return World(store, clock)


Do = Callable[[World, Key | None], Any]
CAROL = somebody("carol")
VERBS: dict[str, tuple[Do, str, str, str | None]] = {
    "create": (
        lambda w, key: w.service.create(CAROL, a_request(day(1)), key=key),
        "carol",
        "booking.create",
        None,
    ),
    "create for somebody": (
        lambda w, key: w.service.create(ROOT, a_request(day(1)), user="carol", key=key),
        "root",
        "booking.create",
        None,
    ),
    "create the earliest": (
        lambda w, key: w.service.create_earliest(
            CAROL, SlotRequest(model=A100, duration=Duration(days=2)), key=key
        ),
        "carol",
        "booking.create",
        None,
    ),
    "change": (
        lambda w, key: w.service.change(BOB, w.planned.id, BookingChange(end=day(6)), key=key),
        "bob",
        "booking.change",
        None,
    ),
    "change with a reason": (
        lambda w, key: w.service.change(
            ROOT, w.planned.id, BookingChange(count=2), reason=" asked ", key=key
        ),
        "root",
        "booking.change",
        "asked",
    ),
    "shorten to now": (
        lambda w, key: w.service.change(ALICE, w.running.id, BookingChange(end=day(0.1)), key=key),
        "alice",
        "booking.release",
        None,
    ),
    "release": (
        lambda w, key: w.service.release(ALICE, w.running.id, reason="done", key=key),
        "alice",
        "booking.release",
        "done",
    ),
    "cancel": (
        lambda w, key: w.service.cancel(ROOT, w.planned.id, reason="fire", key=key),
        "root",
        "booking.cancel",
        "fire",
    ),
    "add a block": (
        lambda w, key: w.service.add_block(
            ROOT, node="n0", start=day(1), end=day(2), reason=" fans ", key=key
        ),
        "root",
        "block.add",
        "fans",
    ),
    "remove a block": (
        lambda w, key: w.service.remove_block(ROOT, w.block.id, reason="they turn", key=key),
        "root",
        "block.remove",
        "they turn",
    ),
    "remove a block without a word": (
        lambda w, key: w.service.remove_block(ROOT, w.block.id, key=key),
        "root",
        "block.remove",
        None,
    ),
    "add an exemption": (
        lambda w, key: w.service.add_exemption(
            ROOT, user="carol", start=day(1), end=day(2), limits={"longest": "P9D"}, reason="paper", key=key
        ),
        "root",
        "exemption.add",
        "paper",
    ),
    "remove an exemption": (
        lambda w, key: w.service.remove_exemption(ROOT, w.exemption.id, reason="handed in", key=key),
        "root",
        "exemption.remove",
        "handed in",
    ),
}
EVERY_VERB = pytest.mark.parametrize("verb", VERBS)
WAS: dict[str, Callable[[World], msgspec.Struct]] = {
    "booking.change": lambda w: w.planned,
    "booking.release": lambda w: w.running,
    "booking.cancel": lambda w: w.planned,
    "block.remove": lambda w: w.block,
    "exemption.remove": lambda w: w.exemption,
}
"""What there was before; of other verbs nothing was."""


def json(what: msgspec.Struct | None) -> object:
    return None if what is None else msgspec.json.decode(msgspec.json.encode(what))


@EVERY_VERB
def test_each_verb_writes_one_entry_with_who_when_why_and_the_state_before_and_after(
    world: World, verb: str
) -> None:
    do, actor, action, reason = VERBS[verb]
    before = world.audited()
    answer = do(world, None)
    newest, *older = world.audited()
    assert tuple(older) == before
    assert (newest.actor, newest.action, newest.reason) == (actor, action, reason)
    assert (newest.at, newest.subject) == (day(0) + timedelta(hours=3), answer.id)
    is_removed = action.endswith(".remove")
    assert newest.before == json(WAS[action](world) if action in WAS else None)
    assert newest.after == (None if is_removed else json(answer))


def without_an_audit(path: Path) -> None:
    """From now on no entry can be written, because the database fails."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'the disk is full'); END"
        )


def stored(world: World, store: Store) -> tuple[object, ...]:
    """Everything that a verb could have changed."""
    with store.reading() as reading:
        return (
            reading.change(),
            reading.changed_after(0),
            reading.blocks(),
            reading.exemptions(None, None),
            reading.denied_page(after=None, limit=99),
            reading.replayed("alice", KEY.text),
            reading.replayed("bob", KEY.text),
            reading.replayed("carol", KEY.text),
            reading.replayed("root", KEY.text),
            world.audited(),
        )


@EVERY_VERB
def test_a_verb_that_cannot_be_audited_changes_nothing_and_uses_no_key(
    world: World, store: Store, path: Path, verb: str
) -> None:
    before = stored(world, store)
    without_an_audit(path)
    with pytest.raises(StoreError, match="the disk is full"):
        VERBS[verb][0](world, KEY)
    assert stored(world, store) == before


ORDERS: dict[str, Callable[[World], object]] = {
    "evict": lambda w: w.service.evict(ROOT, "team", "train", "loud", key=KEY),
    "cordon": lambda w: w.service.order_gpu(ROOT, "n0", "0", order="cordon", reason="loud", key=KEY),
}


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_that_cannot_be_audited_is_not_given(
    world: World, store: Store, path: Path, order: str
) -> None:
    before = stored(world, store)
    without_an_audit(path)
    with pytest.raises(StoreError, match="the disk is full"):
        ORDERS[order](world)
    assert (stored(world, store), world.pods.given, world.gpus.given) == (before, [], [])


REFUSED: dict[str, Callable[[World], object]] = {
    "too long": lambda w: w.service.create(CAROL, a_request(day(1), day(40))),
    "no slot in time": lambda w: w.service.create_earliest(
        CAROL, SlotRequest(model=A100, duration=Duration(days=3), deadline=day(1))
    ),
    "a change too far": lambda w: w.service.change(BOB, w.planned.id, BookingChange(end=day(40))),
    "a change without a reason": lambda w: w.service.change(ROOT, w.planned.id, BookingChange(count=2)),
    "a change of what has changed": lambda w: w.service.change(
        BOB, w.planned.id, BookingChange(count=2), expected="0"
    ),
    "a release of what is planned": lambda w: w.service.release(BOB, w.planned.id),
    "a cancellation of what runs": lambda w: w.service.cancel(ALICE, w.running.id),
    "nobody's booking": lambda w: w.service.cancel(BOB, w.running.id),
    "no such node": lambda w: w.service.add_block(ROOT, node="n9", start=day(1), end=day(2), reason="x"),
    "no such block": lambda w: w.service.remove_block(ROOT, "k-9"),
    "no such limit": lambda w: w.service.add_exemption(
        ROOT, user="carol", start=day(1), end=day(2), limits={"no": 1}, reason="x"
    ),
    "no such exemption": lambda w: w.service.remove_exemption(ROOT, "e-9"),
    "no name of a pod": lambda w: w.service.evict(ROOT, "team", "No Pod", "x"),
    "no name of a node": lambda w: w.service.order_gpu(ROOT, "No Node", "0", order="clear", reason="x"),
}
DEMAND = {"too long", "no slot in time", "a change too far"}
"""Demand that the rules or the calendar refused."""


@pytest.mark.parametrize("what", REFUSED)
def test_a_refusal_changes_nothing_and_only_refused_demand_is_recorded(
    world: World, store: Store, what: str
) -> None:
    before, audited = stored(world, store), world.audited()
    with pytest.raises((RefusedError, StaleError, UnknownError)):
        REFUSED[what](world)
    after = stored(world, store)
    assert (after[:4], after[5:]) == (before[:4], before[5:])
    assert world.audited() == audited
    assert len(world.service.denied(ROOT).entries) == (what in DEMAND)


def denied(world: World, do: Callable[[], Record]) -> Denied:
    with pytest.raises(RefusedError):
        do()
    return world.service.denied(ROOT).entries[0]


def test_refused_demand_is_recorded_with_the_user_the_request_and_the_broken_rules(world: World) -> None:
    """Two of eight GPUs are taken until the fifth day: a whole node is available from then on."""
    request = a_request(day(4), day(6), count=6, topology="any")
    kept = denied(world, lambda: world.service.create(CAROL, request))
    assert kept == Denied(
        at=day(0) + timedelta(hours=3),
        user="carol",
        model=A100,
        count=6,
        start=day(4),
        end=day(6),
        rules=("capacity",),
        earliest_start=day(5),
        number=kept.number,
    )


def test_refused_demand_is_recorded_for_the_owner_of_the_booking(world: World) -> None:
    service = world.service
    made = denied(world, lambda: service.create(ROOT, a_request(day(1), day(40)), user="carol"))
    assert (made.user, made.rules) == ("carol", ("longest",))
    changed = denied(
        world, lambda: service.change(ROOT, world.planned.id, BookingChange(end=day(40)), reason="asked")
    )
    assert (changed.user, changed.start, changed.end) == ("bob", day(3), day(40))


def test_all_broken_rules_are_recorded_in_the_order_of_the_refusal(world: World) -> None:
    with pytest.raises(RefusedError) as refused:
        world.service.create(BOB, a_request(day(4), day(40), count=6, topology="any"))
    (kept,) = world.service.denied(ROOT).entries
    assert kept.rules == tuple(each.rule for each in refused.value.violations)
    assert len(kept.rules) > 1


def test_invalid_instants_are_recorded_as_missing(world: World) -> None:
    nameless = day(1).replace(tzinfo=None)
    kept = denied(world, lambda: world.service.create(CAROL, a_request(nameless, day(3))))
    assert (kept.start, kept.end, kept.rules) == (None, None, ("no-offset",))


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("NVIDIA RTX A9000", "NVIDIA-RTX-A9000"),
        ("x\x00", "x"),
        ("\x00", "'\\x00'"),
        ("\u202e", "'\\u202e'"),
        ("β", "β"),
    ],
)
def test_a_model_is_recorded_in_a_form_that_can_be_shown(world: World, model: str, shown: str) -> None:
    kept = denied(world, lambda: world.service.create(CAROL, a_request(day(1), model=model)))
    assert kept.model == shown


def test_a_very_long_model_is_recorded_by_its_beginning(world: World) -> None:
    kept = denied(world, lambda: world.service.create(CAROL, a_request(day(1), model="x" * 10_000)))
    assert kept.model.startswith("xxx")
    assert len(kept.model) < 200
