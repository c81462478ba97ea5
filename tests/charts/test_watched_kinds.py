"""Each part may list and watch the kinds that its program declares, and no others."""

from typing import Any

import pytest

import booking.controller.__main__
import booking.server.__main__
import extender.__main__
from cluster import names
from cluster.cache import ALWAYS, CLAIM_KINDS
from cluster.kube.resources import POD_TEMPLATES, Resource
from tests.charts.conftest import Document, Render
from tests.charts.test_rendered import rules

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    ("part", "followed"),
    [
        (names.EXTENDER, extender.__main__.FOLLOWED),
        (names.BOOKING_SERVER, booking.server.__main__.FOLLOWED),
        # Its reclaimer also keeps templates of pods that must come back, outside the cache.
        (names.CONTROLLER, (*booking.controller.__main__.FOLLOWED, POD_TEMPLATES)),
    ],
    ids=[names.EXTENDER, names.BOOKING_SERVER, names.CONTROLLER],
)
def test_a_role_allows_to_watch_what_its_program_follows(
    render: Render, part: str, followed: tuple[Resource[Any], ...]
) -> None:
    assert _watched(render(), part) == {(one.group, one.plural) for one in (*ALWAYS, *followed)}


@pytest.mark.parametrize(
    ("part", "more"),
    [
        (names.EXTENDER, extender.__main__.FOLLOWED_FOR_CLAIMS),
        (names.BOOKING_SERVER, CLAIM_KINDS),
        (names.CONTROLLER, booking.controller.__main__.FOLLOWED_FOR_CLAIMS),
    ],
    ids=[names.EXTENDER, names.BOOKING_SERVER, names.CONTROLLER],
)
def test_where_claims_can_be_booked_it_allows_their_kinds_too(
    render: Render, part: str, more: tuple[Resource[Any], ...]
) -> None:
    booking_claims = {"dra": {"enabled": True, "booking": True}}
    added = _watched(render(booking_claims), part) - _watched(render(), part)
    assert added == {(one.group, one.plural) for one in more}


def _watched(documents: list[Document], part: str) -> set[tuple[str, str]]:
    return {
        (group, resource)
        for kind in ("ClusterRole", "Role")
        for rule in rules(documents, kind, part)
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
