"""A hold as it is written, and as older versions wrote it."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.hold import Hold, HoldError, encode_hold, encode_versions, hold_of
from tests.fakes.objects import EPOCH, PodBuilder, a_pod

HOLD = Hold(node="n0", devices=("GPU-0",), victims=("v",), at=EPOCH, state="4711")


def read(text: str) -> Hold | None:
    return hold_of(a_pod("web").with_annotation(names.HOLD, text).obj)


def test_a_written_hold_is_read_back() -> None:
    assert read(encode_hold(HOLD)) == HOLD


def test_an_older_hold_without_versions_is_read() -> None:
    text = '{"node":"n0","devices":["GPU-0"],"victims":["v"],"at":"2026-11-23T09:00:00Z"}'
    assert read(text) == Hold(node="n0", devices=("GPU-0",), victims=("v",), at=EPOCH)


@pytest.mark.parametrize("builder", [a_pod(), a_pod().with_annotation(names.HOLD, "")])
def test_a_missing_or_emptied_annotation_is_no_hold(
    builder: PodBuilder,
) -> None:
    assert hold_of(builder.obj) is None


def test_an_error_names_the_pod_of_the_hold() -> None:
    with pytest.raises(HoldError, match=f"The annotation {names.HOLD} of default/web cannot be read"):
        read("{")


@pytest.mark.parametrize(
    "text",
    [
        '{"devices": ["GPU-0"]}',
        '{"node": null, "devices": ["GPU-0"]}',
        '{"node": "n0", "devices": "GPU-0"}',
        '{"node": "n0", "devices": [0]}',
        '{"node": "n0", "devices": [], "victims": null}',
        '{"node": "n0", "devices": [], "at": "x"}',
        '{"node": "n0", "devices": [], "state": 4711}',
        '["n0"]',
    ],
)
def test_a_malformed_hold_is_an_error_and_never_half_a_hold(text: str) -> None:
    with pytest.raises(HoldError):
        read(text)


def test_the_order_of_devices_and_victims_is_kept() -> None:
    hold = Hold(node="n0", devices=("B", "A"), victims=("y", "x"))
    assert read(encode_hold(hold)) == hold
    assert read(encode_hold(hold)) != Hold(node="n0", devices=("A", "B"), victims=("y", "x"))


def test_the_instant_of_a_hold_is_the_same_in_whatever_zone() -> None:
    local = Hold(node="n0", devices=(), at=datetime(2026, 11, 23, 10, tzinfo=timezone(timedelta(hours=1))))
    found = read(encode_hold(local))
    assert found is not None
    assert found.at == EPOCH


KINDS = st.sampled_from(["bookings", "nodes", "pods", "namespaces"])
VERSIONS = st.integers(1, 10**9).map(str)


@given(st.dictionaries(KINDS, VERSIONS))
def test_known_versions_have_one_text_with_the_version_of_each_kind(versions: dict[str, str]) -> None:
    text = encode_versions(versions)
    assert dict(part.split("=") for part in text.split(",") if part) == versions
    assert encode_versions(dict(reversed(versions.items()))) == text
    assert text.split(",") == sorted(text.split(","))
