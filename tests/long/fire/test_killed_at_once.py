"""Law L9 on a running cluster: all our parts are killed at once while nothing goes on."""

import pytest

from devcluster.demo import pod_status
from devcluster.product import Parts
from tests.e2e.playground import Playground
from tests.e2e.session import NODES
from tests.laws.l9 import assert_unchanged
from tests.laws.live import LiveWatch
from tests.long.fire.conftest import StoryMaker
from tests.long.fire.short_story import HERS

pytestmark = pytest.mark.e2e

PASSES_BEFORE = 5
"""Passes of the new controller after which it would have written what it does not know any more."""
PASSES = "reclaimer_reconcile_seconds_count"


def test_all_parts_killed_at_once_know_afterwards_what_they_knew_before(
    parts: Parts, playground: Playground, story: StoryMaker, laws: LiveWatch
) -> None:
    short = story()
    short.occupy()
    short.alice.book()
    short.ask()
    short.await_that("it is served", HERS, pod_status.is_running)
    laws.finish()
    before = laws.fingerprint()
    everybody = [*map(parts.agent, NODES), parts.extender(), parts.scheduler(), parts.server()]
    laws.fault("all parts are killed")
    for daemon in (*everybody, parts.controller()):
        daemon.kill()
    parts.restore()
    laws.fault("all parts are there again")
    playground.await_that(
        "the controller leads and has made its passes",
        lambda: parts.metric(parts.controller(), PASSES) >= PASSES_BEFORE,
    )
    assert_unchanged(before, laws.fingerprint())
