"""A hold as it is written, and as it was."""

from cluster import names
from cluster.objects.hold import Hold, encode_hold, hold_of
from tests.fakes.objects import EPOCH, a_pod

HOLD = Hold(node="n0", devices=("GPU-0",), victims=("v",), at=EPOCH, state="4711")


def test_a_written_hold_is_read_back() -> None:
    assert hold_of(a_pod().with_annotation(names.HOLD, encode_hold(HOLD)).obj) == HOLD


def test_a_hold_of_before_names_no_state_and_is_read() -> None:
    text = '{"node":"n0","devices":["GPU-0"],"victims":["v"],"at":"2026-11-23T09:00:00Z"}'
    found = hold_of(a_pod().with_annotation(names.HOLD, text).obj)
    assert found == Hold(node="n0", devices=("GPU-0",), victims=("v",), at=EPOCH)
