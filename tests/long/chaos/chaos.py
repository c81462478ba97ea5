"""The chaos: a load, whatever befalls the product under it, then peace; and all that must hold then."""

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from cluster.kube.errors import ApiError, NotFound
from cluster.kube.interface import Selection
from cluster.kube.resources import POD_TEMPLATES, WHOLE_PODS
from cluster.objects.pods import Pod, is_terminating
from cluster.process.clock import SystemClock
from devcluster.demo.pod_status import is_running
from devcluster.demo.reporter import Reporter
from devcluster.demo.rest import Json
from devcluster.errors import ClusterError
from tests.e2e.playground import Playground
from tests.laws.live import LiveWatch
from tests.long.chaos.falls import Falls
from tests.long.chaos.ground import NAMESPACE, Ground
from tests.long.chaos.guaranteed_bookings import unmirrored
from tests.long.chaos.load import Load
from tests.long.chaos.plan import Harm
from tests.long.chaos.striking import Striking
from tests.long.fire.ending import left_over
from tests.long.watched import watched
from tests.threads import running

WITHIN: Final = 600.0
"""Seconds that anything that must come may take on a busy machine."""
LATE: Final = 2.0
"""Times its length that the harm may take: who has not got over one thing yet is not struck by the next."""
SAYS_EVERY: Final = 15.0


class Chaos:
    """One, on a ground that nobody else uses."""

    def __init__(self, ground: Ground, laws: LiveWatch, seed: str) -> None:
        self._ground = ground
        self._laws = laws
        self._reporter = Reporter(sys.stdout)
        self.load = Load(ground, laws, seed)
        self.striking = Striking(ground, fault=laws.fault, say=lambda line: self._say(f"! {line}"))
        self.falls = Falls(ground.kube)
        kubectl = ground.cluster.kubectl
        self._playground = Playground(ground.kube, kubectl, namespace=NAMESPACE, laws=laws)

    def play(self, harms: list[Harm]) -> None:
        """All of it; afterwards everybody is served, and all that was guaranteed is so."""
        stop = threading.Event()
        with running([*self.load.bodies(stop), partial(self.falls.run, stop)], stop):
            self._await("everybody has been served once", self.load.has_begun)
            with ThreadPoolExecutor(1) as pool:
                striking = pool.submit(self.striking.run, harms)
                self._await("all harm is over", striking.done, seconds=LATE * harms[-1].end + WITHIN)
                striking.result()
            self._laws.fault("peace")
            self.load.stay()
            self._await("everybody is served again", lambda: not self.load.unserved())
            self._await("nothing is left over", lambda: not self._left_over())
            self._compare()
        self._laws.finish()
        broken, lost = self._broken_guarantees(), list(self.load.lost.values())
        crashed = self.falls.by_themselves(self.striking.struck)
        assert not broken, broken
        assert not lost, lost
        assert not crashed, crashed

    # --- afterwards ------------------------------------------------------------------------------------
    def _broken_guarantees(self) -> list[str]:
        """Bookings that are not as the server has guaranteed, or not in the cluster as they run: messages."""
        shown = {booking: self._shown(booking) for booking in self._ground.guaranteed.bookings}
        broken = self._ground.guaranteed.broken(shown, SystemClock().now())
        return [*broken, *unmirrored(shown, self._laws.state.bookings)]

    def _shown(self, booking: str) -> Json | None:
        """What the booking server shows of it to its owner."""
        for one in self._ground.people:
            answer = one.rest.show(booking)
            if not answer.is_refusal:
                return answer.body
        return None

    def _compare(self) -> None:
        """Binding, kubelet and container say the same of each pod, and no two pods have one device.

        Bookings still begin meanwhile: a pod that leaves for one is not compared, nor is its comeback.
        """
        for pod in [one for one in self._playground.pods() if is_running(one)]:
            try:
                self._playground.check_agreement(pod.metadata.name)
            except (AssertionError, NotFound):
                if self._runs_still(pod):
                    raise
        self._playground.check_law_1()

    def _runs_still(self, pod: Pod) -> bool:
        """Whether it is neither terminating nor replaced."""
        try:
            now = self._playground.pod(pod.metadata.name)
        except NotFound:
            return False
        return now.metadata.uid == pod.metadata.uid and not is_terminating(now)

    def _left_over(self) -> list[str]:
        """What of ours hangs on pods though nobody needs it any more."""
        kube, here = self._ground.kube, Selection(namespace=NAMESPACE)
        templates = [f"template {one.metadata.name}" for one in kube.list(POD_TEMPLATES, here).items]
        pods = kube.list(WHOLE_PODS, here).items
        return templates + [f"{one.metadata.name}: {what}" for one in pods for what in left_over(one)]

    # --- seeing ----------------------------------------------------------------------------------------
    def _await(self, what: str, condition: Callable[[], bool], *, seconds: float = WITHIN) -> None:
        """Wait for something; the laws are asked at every turn."""

        def report() -> None:
            self._say(self.load.summary())

        def is_so() -> bool:
            try:
                return condition()
            except (ApiError, ClusterError):
                return False

        if not watched(self._laws, is_so, seconds=seconds, report=report, report_every=SAYS_EVERY):
            pods = self._ground.cluster.kubectl("get", "pods", "--all-namespaces", "--output=wide")
            facts = [*self.load.unserved(), *self._left_over(), pods]
            raise AssertionError(f"Not within {seconds:.0f} s: {what}.\n" + "\n".join(facts))
        self._say(f"{what}: {self.load.summary()}")

    def _say(self, line: str) -> None:
        self._reporter.say("chaos", line)
