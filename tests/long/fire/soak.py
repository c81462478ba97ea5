"""The short story again and again, each time with other harm: for hours, not for every run of the tests.

``SOAK_MINUTES=30 pytest -s tests/long/fire/soak.py`` plays it for so long; every round prints its seed, and
``FIRE_SEED=<that seed> SOAK_MINUTES=0 pytest -s tests/long/fire/soak.py`` plays the same one once more.
"""

import io
import json
import os
import sys
from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest

from cluster import names
from cluster.process.clock import SystemClock
from devcluster import probe
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.demo.play import play
from devcluster.demo.reporter import Reporter
from devcluster.demo.rest import Rest
from devcluster.errors import ClusterError
from devcluster.fakenvml import default_gpus
from devcluster.product import (
    Parts,
    booking_controller,
    booking_server,
    extender,
    gpu_scheduler,
    node_agent,
)
from devcluster.product.people import NAMESPACE
from devcluster.spec import ClusterSpec, NodeSpec
from devcluster.wait import Stopwatch, poll
from tests.clusters import own
from tests.e2e.playground import PATIENCE, Playground
from tests.e2e.session import NODES
from tests.e2e.story_run import VICTIMS, pods_that
from tests.laws.live import LiveWatch, checkpoints_of
from tests.long.fire.conftest import UnderFire
from tests.long.fire.harm import SEED, Blow, Harm, drawn, share
from tests.long.fire.short_story import LASTS, Interlude

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(0)]

MINUTES: Final = float(os.environ.get("SOAK_MINUTES", "30"))
PAUSE: Final = 20.0
PARTS: Final = (
    *(f"{node}/{node_agent.NAME}" for node in NODES),
    extender.NAME,
    gpu_scheduler.NAME,
    booking_server.NAME,
    booking_controller.NAME,
)
DAEMONS: Final = (
    *(f"{node}/{daemon}" for node in NODES for daemon in ("kubelet", "containerd")),
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
)
EVERYBODY: Final = (*PARTS, *DAEMONS)
MOST: Final = 4
"""Blows in one story at most."""


def rounds(seed: str, minutes: float) -> Iterator[str]:
    """Seeds until the time is over: the given one first."""
    watch = Stopwatch()
    for number in count():
        yield seed if number == 0 else f"{seed}-{number}"
        if watch.seconds >= 60 * minutes:
            return


def planned(seed: str) -> tuple[Blow, ...]:
    """One to four blows to different processes; one in four is a pause."""
    everybody = sorted(EVERYBODY, key=lambda target: share(seed, target, "whether"))
    chosen = tuple(everybody[: 1 + int(share(seed, "how many") * MOST)])
    paused = tuple(target for target in chosen if share(seed, target, "pause") < 1 / 4)
    killed = tuple(target for target in chosen if target not in paused)
    return (*drawn(seed, killed, LASTS), *drawn(seed, paused, LASTS, down=PAUSE, kind="paused"))


def test_the_short_story_ends_the_same_under_any_fire(
    under_fire: UnderFire, playground: Playground, seed: str
) -> None:
    for number, one in enumerate(rounds(seed, MINUTES)):
        blows = planned(one)
        sys.stdout.write(f"\nstory {number}: {SEED}={one}\n" + "".join(f"  {blow}\n" for blow in blows))
        played = under_fire(blows)
        played.alice.release_all()
        playground.clear()
        sys.stdout.write("".join(f"  spoilt by a kubelet: {line}\n" for line in played.refused))


WHOLE_MOMENTS: Final = ("booked", "asked", "served", "released")
"""Of the story that ``make run`` plays."""


def test_the_whole_story_ends_the_same_whatever_is_killed_between_its_steps(seed: str) -> None:
    """What ``make run`` plays. Its people do not try again, so everybody answers before their next step."""
    nodes = tuple(NodeSpec(name=name, gpus=default_gpus(index)) for index, name in enumerate(NODES))
    for one in rounds(seed, MINUTES / 3):
        blows = tuple(
            Blow(EVERYBODY[int(share(one, moment) * len(EVERYBODY))], moment) for moment in WHOLE_MOMENTS
        )
        sys.stdout.write(f"\nwhole story: {SEED}={one}\n" + "".join(f"  {blow}\n" for blow in blows))
        written = io.StringIO()
        with (
            Cluster.start(ClusterSpec(name=own("soak"), nodes=nodes)) as cluster,
            LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws,
        ):
            play(
                cluster,
                Reporter(written),
                parts=Parts(cluster, elects=True),
                interlude=_once(cluster, blows, laws),
                patience=PATIENCE,
            )
            laws.finish()
        output = written.getvalue()
        assert pods_that(output, "comes back without a GPU") == VICTIMS, output
        assert pods_that(output, "has to leave") == VICTIMS, output


def _once(cluster: Cluster, blows: tuple[Blow, ...], laws: LiveWatch) -> Interlude:
    """Strike at the first time that each moment comes, and wait until everybody answers again."""
    harm = Harm(cluster, blows, fault=laws.fault)
    seen: set[str] = set()

    def interlude(moment: str) -> None:
        laws.check()
        if moment not in seen:
            seen.add(moment)
            harm.interlude(moment)
            assert poll(lambda: _answers(cluster), seconds=PATIENCE), "somebody does not answer any more"

    return interlude


def _answers(cluster: Cluster) -> bool:
    """Whether pods can be created, which asks API server and webhook, and bookings listed."""
    body = probe.pod("nobody", [probe.container("main", gpus=1)])
    words = ("create", f"--namespace={NAMESPACE}", "--dry-run=server", "--filename=-")
    parts = Parts(cluster)
    try:
        cluster.kubectl(*words, given=json.dumps(body))
        alice = Rest(parts.booking_url, parts.people.token("alice", names.AUDIENCE))
        return not alice.ask("GET", "/bookings").is_refusal
    except ClusterError:
        return False
