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


def test_an_order_is_read_back_with_its_author_reason_and_instant() -> None:
    assert read(encode_order(ORDER)) == ORDER


def test_a_pod_without_the_annotation_has_no_order() -> None:
    assert order_of(a_pod().obj) is None
    assert order_of(a_pod().with_annotation(names.NOTICE, encode_order(ORDER)).obj) is None


@pytest.mark.parametrize("missing", sorted(FIELDS))
def test_an_order_with_a_missing_field_is_ignored(missing: str) -> None:
    left = {key: value for key, value in FIELDS.items() if key != missing}
    assert read(msgspec.json.encode(FIELDS).decode()) == EvictOrder(by="alice", reason="fire", at=EPOCH)
    assert read(msgspec.json.encode(left).decode()) is None


@pytest.mark.parametrize("wrong", sorted(FIELDS))
def test_an_order_with_a_field_of_another_type_is_ignored(wrong: str) -> None:
    assert read(msgspec.json.encode({**FIELDS, wrong: ["x"]}).decode()) is None
    assert read(msgspec.json.encode({**FIELDS, wrong: None}).decode()) is None


def test_an_empty_reason_is_valid() -> None:
    """Whether one is needed is decided where the order is given; what was given counts."""
    assert read(msgspec.json.encode({**FIELDS, "reason": ""}).decode()) is not None
