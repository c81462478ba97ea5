"""Each part may list and watch the kinds that its program declares, and no others."""

from typing import Any

import pytest

import booking.controller
import booking.server
import extender.__main__
from cluster import names
from cluster.cache import ALWAYS
from cluster.kube.resources import POD_TEMPLATES, Resource
from tests.charts.conftest import Render
from tests.charts.test_rendered import rules

pytestmark = pytest.mark.component


@pytest.mark.parametrize(
    ("part", "followed"),
    [
        (names.EXTENDER, extender.__main__.FOLLOWED),
        (names.BOOKING_SERVER, booking.server.FOLLOWED),
        # Its reclaimer also keeps templates of pods that must come back, outside the cache.
        (names.CONTROLLER, (*booking.controller.FOLLOWED, POD_TEMPLATES)),
    ],
    ids=[names.EXTENDER, names.BOOKING_SERVER, names.CONTROLLER],
)
def test_a_role_allows_to_watch_what_its_program_follows(
    render: Render, part: str, followed: tuple[Resource[Any], ...]
) -> None:
    documents = render()
    allowed = {
        (group, resource)
        for kind in ("ClusterRole", "Role")
        for rule in rules(documents, kind, part)
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert allowed == {(one.group, one.plural) for one in (*ALWAYS, *followed)}
