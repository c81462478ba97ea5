"""Wrong, late, lost and missing answers of the API server to our parts and to their kube-scheduler.

The story of `give_and_take` ends the same each time, and the laws are watched. People and kubelets are
answered as usual. What is done to which answers is in `faulty.py`.
"""

import sys
from collections.abc import Callable, Iterator

import pytest

from devcluster import probe
from devcluster.demo.reporter import Reporter
from devcluster.faultproxy import FaultProxy, Rule
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import HOSTNAME, Playground
from tests.e2e.session import GPUS
from tests.e2e.testbed import Testbed
from tests.laws.live import LiveWatch
from tests.long.fire.faulty import AGENTS, ANSWERS, NEIGHBOURS, OPENINGS, OURS, SCHEDULER, SLOW, WATCHES
from tests.long.fire.give_and_take import AS_IT_SHOULD, GiveAndTake, Moment
from tests.long.fire.neighbours import neighbours
from tests.long.fire.points import created
from tests.long.fire.proxied import Proxied, proxied

pytestmark = pytest.mark.e2e

NODE = "node-a"
UNUSED = 3
"""A GPU of the node that is no A100: nobody in the story wants it."""
NOTHING, RESET = 0, 1
"""Recovery actions: what the driver asks for."""
XID = 48


class Disturbed:
    """A story with faulty answers in it."""

    def __init__(self, behind: Proxied, parts: Parts, story: GiveAndTake, laws: LiveWatch) -> None:
        self._behind = behind
        self._parts = parts
        self._story = story
        self._laws = laws
        self._reporter = Reporter(sys.stdout)

    def play(self, name: str, rules: tuple[Rule, ...], reached: Callable[[Moment], object]) -> None:
        """One round, with these rules from its beginning to its end."""
        proxy = self._behind.proxy

        def on(moment: Moment) -> None:
            if moment == "begun":
                proxy.rules.set(*rules)
            reached(moment)

        self._say(name)
        try:
            assert self._story.play(on) == AS_IT_SHOULD, name
            acted = [proxy.rules.times(rule) for rule in rules]
            assert all(acted), f"{name}: {acted}"
            assert created(proxy.rules.records) == 2, f"{name}: pods that were created"
            self._say(f"{len(proxy.rules.records)} calls, {acted} of them gone wrong")
        finally:
            proxy.rules.set()
        assert not self._behind.crashed()
        assert not self._parts.scheduler().restarted

    def _say(self, line: str) -> None:
        self._laws.fault(line)
        self._reporter.say("answers", line)


class Occasions:
    """Gives node agents and kube-scheduler something to ask: a GPU fails and is mended, each starts again."""

    def __init__(self, proxy: FaultProxy, parts: Parts, ground: Playground) -> None:
        self._proxy = proxy
        self._parts = parts
        self._ground = ground
        self._gpus = parts.fake_nvml(NODE)

    def __call__(self, moment: Moment) -> None:
        """The story waits until all are back at work."""
        if moment == "begun":
            self._parts.scheduler().restart()
            self._await_scheduled()
            self._gpus.recovery_action(UNUSED, RESET)
            self._gpus.xid(UNUSED, XID)
            self._await_reported(healthy=False)
        elif moment == "served":
            agent = self._parts.agent(NODE)
            agent.kill()
            self._ground.await_gpus(NODE, 0)
            self._gpus.recovery_action(UNUSED, NOTHING)
            agent.restart()
            self._await_reported(healthy=True)
        self._proxy.cut_watches(lambda call: call.caller in AGENTS | SCHEDULER)

    def _await_scheduled(self) -> None:
        """Until kube-scheduler has placed a pod that wants no GPU, and said of another why it cannot.

        Whether that was reported does not matter: what goes wrong with it is not said again for a while.
        """
        nowhere = {"nodeSelector": {HOSTNAME: "none"}}
        pods = {"small": None, "nowhere": nowhere}
        for name, extra in pods.items():
            self._ground.create(probe.pod(name, [probe.container("main")], extra=extra))
        self._ground.await_bound("small")
        self._ground.await_that("kube-scheduler says why it places no pod", self._has_written_status)
        for name in pods:
            self._ground.delete(name)
        self._ground.await_that(
            "both are gone", lambda: pods.keys().isdisjoint(p.metadata.name for p in self._ground.pods())
        )

    def _has_written_status(self) -> bool:
        calls = (record.call for record in self._proxy.rules.records)
        return any(call.caller in SCHEDULER and call.place.subresource == "status" for call in calls)

    def _await_reported(self, *, healthy: bool) -> None:
        """Wait until the inventory and the kubelet report this health."""
        uuid = self._gpus.uuids()[UNUSED]
        self._ground.await_that(
            f"{NODE} reports its GPU as {'well' if healthy else 'unwell'}",
            lambda: self._ground.inventory()[uuid][1].is_healthy is healthy or None,
        )
        self._ground.await_gpus(NODE, GPUS if healthy else GPUS - 1)


@pytest.fixture(scope="module")
def behind(testbed: Testbed) -> Iterator[Proxied]:
    cluster, parts = testbed.cluster, testbed.parts
    with (
        proxied(cluster, parts) as running,
        neighbours(running.proxy, cluster, parts),
        testbed.pinned(),
    ):
        yield running


@pytest.fixture
def disturbed(
    behind: Proxied, parts: Parts, alice: Person, bob: Person, playground: Playground, laws: LiveWatch
) -> Disturbed:
    return Disturbed(behind, parts, GiveAndTake(alice, bob, playground, NODE), laws)


@pytest.fixture
def occasions(behind: Proxied, parts: Parts, playground: Playground) -> Iterator[Occasions]:
    yield Occasions(behind.proxy, parts, playground)
    # Whose watches have failed so often waits for up to half a minute before it tries again.
    parts.scheduler().restart()


@pytest.fixture
def cut(behind: Proxied) -> Callable[[Moment], object]:
    """At every moment all watches of ours end, so that they have to open again."""
    return lambda _moment: behind.proxy.cut_watches(lambda call: call.caller in OURS)


def undisturbed(_moment: Moment) -> None:
    """Nothing more happens."""


def test_answers_that_are_wrong_or_lost_do_not_change_the_end(disturbed: Disturbed) -> None:
    for name, rules in ANSWERS.items():
        disturbed.play(name, rules, undisturbed)


def test_answers_that_are_late_do_not_change_the_end(disturbed: Disturbed) -> None:
    for name, rules in SLOW.items():
        disturbed.play(name, rules, undisturbed)


def test_watches_with_gaps_do_not_change_the_end(
    disturbed: Disturbed, cut: Callable[[Moment], object]
) -> None:
    for name, rules in WATCHES.items():
        disturbed.play(name, rules, cut)


def test_watches_that_do_not_open_do_not_change_the_end(
    disturbed: Disturbed, cut: Callable[[Moment], object]
) -> None:
    for name, rules in OPENINGS.items():
        disturbed.play(name, rules, cut)


def test_faulty_answers_to_node_agents_and_kube_scheduler_do_not_change_the_end(
    disturbed: Disturbed, occasions: Occasions
) -> None:
    for name, rules in NEIGHBOURS.items():
        disturbed.play(name, rules, occasions)
