"""Wrong, late, lost and missing answers of the API server to our parts and to their kube-scheduler.

The story of `give_and_take` ends the same each time, and the laws are watched. People and kubelets are
answered as usual. What is done to which answers is in `faulty.py`.
"""

import sys
from collections.abc import Callable, Iterator

import pytest

from devcluster.demo.reporter import Reporter
from devcluster.faultproxy import FaultProxy, Rule
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.session import GPUS
from tests.e2e.testbed import Testbed
from tests.laws.live import LiveWatch
from tests.long.fire.faulty import ANSWERS, NEIGHBOURS, OPENINGS, SLOW, WATCHES
from tests.long.fire.give_and_take import AS_IT_SHOULD, GiveAndTake, Moment
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

    def __init__(self, behind: Proxied, story: GiveAndTake, laws: LiveWatch) -> None:
        self._behind = behind
        self._story = story
        self._laws = laws
        self._reporter = Reporter(sys.stdout)

    def tell(self, name: str, rules: tuple[Rule, ...], reached: Callable[[Moment], object]) -> None:
        """Once, with these rules from its beginning to its end."""
        proxy = self._behind.proxy

        def on(moment: Moment) -> None:
            if moment == "begun":
                proxy.rules.set(*rules)
            reached(moment)

        self._say(name)
        try:
            assert self._story.tell(on) == AS_IT_SHOULD, name
            acted = [proxy.rules.times(rule) for rule in rules]
            assert all(acted), f"{name}: {acted}"
            assert created(proxy.rules.records) == 2, f"{name}: pods that were created"
            self._say(f"{len(proxy.rules.records)} calls, {acted} of them gone wrong")
        finally:
            proxy.rules.set()
        assert not self._behind.fallen()

    def _say(self, line: str) -> None:
        self._laws.fault(line)
        self._reporter.say("answers", line)


class Occasions:
    """Gives node agents and kube-scheduler something to ask: a GPU fails and is mended, each begins anew."""

    def __init__(self, proxy: FaultProxy, parts: Parts, ground: Playground) -> None:
        self._proxy = proxy
        self._parts = parts
        self._ground = ground
        self._gpus = parts.fake_nvml(NODE)

    def __call__(self, moment: Moment) -> None:
        """The story waits until all are back at work."""
        if moment == "begun":
            self._parts.scheduler().restart()
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
        self._proxy.cut_watches()

    def _await_reported(self, *, healthy: bool) -> None:
        """Until the inventory and the kubelet say so."""
        uuid = self._gpus.uuids()[UNUSED]
        self._ground.await_that(
            f"{NODE} reports its GPU as {'well' if healthy else 'unwell'}",
            lambda: self._ground.inventory()[uuid][1].is_healthy is healthy or None,
        )
        self._ground.await_gpus(NODE, GPUS if healthy else GPUS - 1)


@pytest.fixture(scope="module")
def behind(testbed: Testbed) -> Iterator[Proxied]:
    with proxied(testbed.cluster, testbed.parts) as running, testbed.pinned():
        yield running


@pytest.fixture
def disturbed(
    behind: Proxied, alice: Person, bob: Person, playground: Playground, laws: LiveWatch
) -> Disturbed:
    return Disturbed(behind, GiveAndTake(alice, bob, playground, NODE), laws)


@pytest.fixture
def occasions(behind: Proxied, parts: Parts, playground: Playground) -> Occasions:
    return Occasions(behind.proxy, parts, playground)


def undisturbed(_moment: Moment) -> None:
    """Nothing more happens."""


def test_answers_that_are_wrong_or_lost_do_not_change_the_end(disturbed: Disturbed) -> None:
    for name, rules in ANSWERS.items():
        disturbed.tell(name, rules, undisturbed)


def test_answers_that_are_late_do_not_change_the_end(disturbed: Disturbed) -> None:
    for name, rules in SLOW.items():
        disturbed.tell(name, rules, undisturbed)


def test_watches_with_gaps_do_not_change_the_end(behind: Proxied, disturbed: Disturbed) -> None:
    for name, rules in WATCHES.items():
        disturbed.tell(name, rules, lambda _moment: behind.proxy.cut_watches())


def test_watches_that_do_not_open_do_not_change_the_end(behind: Proxied, disturbed: Disturbed) -> None:
    for name, rules in OPENINGS.items():
        disturbed.tell(name, rules, lambda _moment: behind.proxy.cut_watches())


def test_faulty_answers_to_node_agents_and_kube_scheduler_do_not_change_the_end(
    disturbed: Disturbed, occasions: Occasions
) -> None:
    for name, rules in NEIGHBOURS.items():
        disturbed.tell(name, rules, occasions)
