"""A part is stopped for 20 s in the middle of something: what it was doing must not land late."""

from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from cluster import names
from cluster.objects.pods import Pod, is_live
from devcluster.product import Parts, booking_controller, booking_server, extender, node_agent
from tests.e2e.session import NODES
from tests.laws.live import LiveWatch
from tests.long.fire.conftest import StoryMaker, UnderFire
from tests.long.fire.harm import Blow
from tests.long.fire.short_story import HELD, HERS, WAITS
from tests.long.fire.stopping import PAUSE, stopping

pytestmark = pytest.mark.e2e

LAST_CHECK = "extender.binding.binding_post:BindingPost._time_left"
"""Where the extender checks for the last time before it posts a Binding: does it lead, is it in time."""
PREPARED = "booking.controller.reclaimer.evictions.api_calls:Calls.add_finalizer"
"""The last write before a victim is evicted."""
AGENTS_AFTER = 12.0
"""Seconds after the victim was deleted: the extender is stopped then, and needs them when it goes on."""
BEYOND_THE_TIMEOUT = 8.0
"""Seconds after which kube-scheduler has given a bind up (httpTimeout 5 s) and has said so on the pod."""
STORED = "booking.server.web.mirror_barrier:MirrorBarrier.written"
"""The booking is in the database, and not yet in the cluster."""


def test_a_bind_of_an_extender_that_was_stopped_does_not_land(
    parts: Parts, laws: LiveWatch, under_fire: UnderFire
) -> None:
    """Once between the decision and the last check of time and lead, once between that check and the write.

    The node agents are stopped, too, when the first pod has been bound at last and is to get its GPU.
    """
    agents = tuple(
        Blow(f"{node}/{node_agent.NAME}", "leaving", AGENTS_AFTER, PAUSE, "paused") for node in NODES
    )
    with (
        stopping(parts, laws, extender.NAME, LAST_CHECK) as stops,
        ThreadPoolExecutor(1) as pool,
    ):
        pauses: list[Future[None]] = []

        def interlude(moment: str) -> None:
            if moment == "held":  # the next bind is that of alice's pod
                pauses.append(pool.submit(stops.pause_next, "before"))
            if moment == "released":  # the next bind is that of bob's waiting pod
                pauses.append(pool.submit(stops.pause_next, "after", BEYOND_THE_TIMEOUT))

        under_fire(agents, also=interlude)
        for pause in pauses:
            pause.result()
        calls = stops.calls
    assert [call for call in calls if HERS in call] == [f"binding {HERS} done"]
    *refused, landed = [call for call in calls if WAITS in call]
    # Its time is over, so that it is not sent, or the pod has been written since. A new decision may lose as
    # well: against what kube-scheduler writes on the pod about the one before.
    assert refused
    assert set(refused) <= {f"binding {WAITS} Conflict", f"binding {WAITS} Unsent"}
    assert landed == f"binding {WAITS} done"


def test_a_controller_that_was_stopped_evicts_no_pod_that_was_booked_meanwhile(
    parts: Parts, laws: LiveWatch, story: StoryMaker
) -> None:
    """It stops between the last preparation of the victim and its eviction.

    Meanwhile alice releases her booking, and bob books all GPUs that his pods have. The booking server is
    stopped as well, after it has stored his booking and before it has mirrored it.
    """
    with (
        stopping(parts, laws, booking_controller.NAME, PREPARED) as controller,
        stopping(parts, laws, booking_server.NAME, STORED) as server,
        ThreadPoolExecutor(1) as pool,
    ):
        short = story()
        before = short.occupy()
        booking = short.alice.book()
        controller.stop_next("after")
        short.ask()
        controller.await_stop("after")
        short.alice.release(booking)
        pause = pool.submit(server.pause_next, "before")
        short.bob.book(len(HELD))
        pause.result()
        controller.go_on()
        for name in HELD:
            short.await_that("it is adopted, and nothing is left of an eviction", name, is_well)
        assert {name: short.await_that("it is there", name, is_live).metadata.uid for name in HELD} == before
        assert not [call for call in controller.calls if call.startswith("eviction")]


def is_well(pod: Pod) -> bool:
    """Whether a booking covers it and nobody wants it to go."""
    meta = pod.metadata
    return bool(meta.annotation(names.BOOKING)) and not meta.annotation(names.NOTICE) and not meta.finalizers
