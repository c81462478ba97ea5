"""The form *Book*: what its texts ask for, and the sentences next to its fields."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.server.web.pages.booking_form import Texts, filled, form_request_of, texts_of
from booking.server.web.pages.site_clock import SiteClock
from tests.fakes.objects import A100

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
WALL = SiteClock(ZoneInfo("Europe/Stockholm"), NOW)


def test_an_empty_start_is_now_and_days_are_those_of_the_calendar() -> None:
    form_request = form_request_of(Texts(model=A100, start="2026-03-28T12:00", amount="2"), WALL)
    assert form_request.request is not None
    assert form_request.request.end - (form_request.request.start or NOW) == timedelta(hours=47)
    now = form_request_of(Texts(model=A100, amount="36", unit="hours"), WALL).request
    assert now is not None
    assert now.start is None
    assert now.end == NOW + timedelta(hours=36)


def test_any_spelling_of_a_model_is_that_model() -> None:
    request = form_request_of(Texts(model="NVIDIA A100-SXM4-80GB"), WALL).request
    assert request is not None
    assert request.model == A100


@pytest.mark.parametrize(
    ("texts", "wrong"),
    [
        (Texts(), {"model"}),
        (Texts(model=A100, count="0"), {"count"}),
        (Texts(model=A100, count="-1"), {"count"}),
        (Texts(model=A100, count="1.5"), {"count"}),
        (Texts(model=A100, count="\u0661"), {"count"}),
        (Texts(model=A100, count="1000000000"), {"count"}),
        (Texts(model=A100, amount=""), {"end"}),
        (Texts(model=A100, amount="999999"), {"end"}),
        (Texts(model=A100, by="end"), {"end"}),
        (Texts(model=A100, by="end", end="soon"), {"end"}),
        (Texts(model=A100, start="9999-12-31T00:00", count="x"), {"start", "count"}),
    ],
)
def test_every_malformed_field_is_reported_at_once_next_to_it(texts: Texts, wrong: set[str]) -> None:
    form_request = form_request_of(texts, WALL)
    assert form_request.request is None
    assert set(form_request.errors) == wrong
    assert all(message.endswith(".") for sentences in form_request.errors.values() for message in sentences)


@given(
    st.integers(1, 9),
    st.sampled_from(["any", "single-node"]),
    st.integers(0, 500_000),
    st.integers(60, 3_000_000),
    st.sampled_from([None, "vision"]),
)
def test_a_form_filled_from_a_request_makes_the_same_request(
    count: int, topology: str, wait: int, length: int, namespace: str | None
) -> None:
    start = NOW + timedelta(seconds=wait)
    end = start + timedelta(seconds=length)
    texts = filled(
        WALL, model=A100, count=count, topology=topology, start=start, end=end, namespace=namespace
    )
    request = form_request_of(texts_of(dict(parse_qsl(texts.query()))), WALL).request
    assert request is not None
    assert (request.model, request.count, request.namespace) == (A100, count, namespace)
    assert ((request.start or NOW), request.end) == (start, end)
    assert request.topology == (topology if count > 1 else "any")


def test_unknown_fields_are_ignored_and_long_texts_cut() -> None:
    texts = texts_of({"model": "x" * 10_000, "who": "bob", "count": " 3 "})
    assert len(texts.model) == 300
    assert texts.count == "3"
