"""An administrator's order that a pod must go."""

import msgspec
import pytest

from cluster import names
from cluster.objects.evict_orders import EvictOrder, encode_order, order_of
from tests.fakes.objects import EPOCH, a_pod

ORDER = EvictOrder(by="alice", reason='the "rack"\nis on fire', at=EPOCH)
FIELDS = {"by": "alice", "reason": "fire", "at": "2026-11-23T09:00:00Z"}


def read(text: str) -> EvictOrder | None:
    return order_of(a_pod().with_annotation(names.EVICT, text).obj)


def test_an_order_says_who_wants_the_pod_gone_why_and_since_when() -> None:
    assert read(encode_order(ORDER)) == ORDER


def test_a_pod_without_an_order_has_none() -> None:
    assert order_of(a_pod().obj) is None
    assert order_of(a_pod().with_annotation(names.NOTICE, encode_order(ORDER)).obj) is None


@pytest.mark.parametrize("missing", sorted(FIELDS))
def test_an_order_that_leaves_something_out_is_none(missing: str) -> None:
    left = {key: value for key, value in FIELDS.items() if key != missing}
    assert read(msgspec.json.encode(FIELDS).decode()) == EvictOrder(by="alice", reason="fire", at=EPOCH)
    assert read(msgspec.json.encode(left).decode()) is None


@pytest.mark.parametrize("wrong", sorted(FIELDS))
def test_an_order_with_something_of_another_shape_is_none(wrong: str) -> None:
    assert read(msgspec.json.encode({**FIELDS, wrong: ["x"]}).decode()) is None
    assert read(msgspec.json.encode({**FIELDS, wrong: None}).decode()) is None


def test_an_empty_reason_is_a_reason() -> None:
    """Whether one is needed is decided where the order is given; what was given counts."""
    assert read(msgspec.json.encode({**FIELDS, "reason": ""}).decode()) is not None
