"""The chain once through, in some ten seconds, on a cluster with our parts and two nodes with two A100s each.

Bob holds all four A100s, one more pod of his waits. Alice books one and creates a pod: the pod that loses
least leaves, comes back without a GPU, and hers runs on exactly its device. She gives the booking back: her
pod comes back without a GPU, and Bob's waiting pod gets the device.

``interlude`` is called at each of ``MOMENTS``, in the story's own thread; everybody in the story tries again
when something does not answer, so it may do any harm that passes. The end must be ``EXPECTED`` each time. Who
makes way is another one where the kubelet of the pod that loses least is away as the device is chosen
(``may_leave``): then the end must be ``expected`` of that one.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from cluster import names
from cluster.kube.resources import WHOLE_PODS
from cluster.objects.pods import Pod, is_terminating
from devcluster import probe
from devcluster.demo import pod_status
from devcluster.demo.reporter import Reporter
from tests.e2e.persons import A100, Person
from tests.e2e.playground import HOSTNAME, Playground
from tests.long.fire.ending import Ending, Fate, Origins, read_ending
from tests.long.fire.harm import Blow
from tests.long.fire.patience import Patience, Patient
from tests.long.fire.spoilt import spoilt

MOMENTS: Final = (
    "begun",  # nothing is there yet
    "occupied",  # Bob's four pods run
    "waiting",  # his fifth has the message that all A100s are in use
    "booked",  # Alice's booking is stored, and its object written
    "asked",  # her pod is created
    "held",  # a device is kept for it
    "leaving",  # the victim has been deleted
    "bound",  # her pod is bound
    "served",  # it runs
    "back",  # the victim runs again, without a GPU
    "released",  # her booking is over
    "ending",  # her pod has been deleted
    "passed on",  # Bob's fifth pod is bound
    "over",  # everything is as it shall be, as far as the story has checked
)
"""In this order. A moment may be over when the story notices it: "held" means held, or bound already.

With ``rival=False`` the fifth pod is created late: "waiting" follows "back".
"""

LASTS: Final = {
    "begun": 2.5,
    "occupied": 0.1,
    "waiting": 0.2,
    "booked": 0.1,
    "asked": 0.2,
    "held": 0.3,
    "leaving": 1.8,
    "bound": 1.2,
    "served": 0.3,
    "back": 0.2,
    "released": 0.6,
    "ending": 1.4,
    "passed on": 1.5,
}
"""Moment -> seconds until the next one when nobody does any harm, about."""

HELD: Final = ("bob-a-0", "bob-a-1", "bob-b-0", "bob-b-1")
"""Bob's four: two on node-a, two on node-b."""
VICTIM: Final = "bob-b-0"
"""The pod that loses least."""
ELSEWHERE: Final = ("bob-a-0", "bob-a-1")
"""The pods of which one leaves in its place while node-b does not serve."""
WAITS: Final = "bob-waits"
HERS: Final = "alice-1"


def expected(victim: str) -> Ending:
    """The end of a story in which this pod made way, whatever was done meanwhile."""
    return Ending(
        pods={
            HERS: Fate("Running", device=None, first=False),
            **{name: Fate("Running", device=name, model=A100) for name in HELD if name != victim},
            victim: Fate("Running", device=None, first=False),
            WAITS: Fate("Running", device=victim, model=A100),
        }
    )


EXPECTED: Final = expected(VICTIM)
"""The end of every story in which no kubelet is away as the device is chosen."""


def may_leave(blows: Iterable[Blow]) -> tuple[str, ...]:
    """Who may have to make way while these blows fall.

    The kubelet of the pod that loses least is back in a moment, and only then its node serves again. Who is
    chosen meanwhile is of the other node, and which of the two comes first is left to chance.
    """
    before = MOMENTS[: MOMENTS.index("held")]
    is_away = any(
        (blow.target, blow.kind) == ("node-b/kubelet", "killed") and blow.moment in before for blow in blows
    )
    return (VICTIM, *ELSEWHERE) if is_away else (VICTIM,)


def victim_that_leaves(pods: Iterable[Pod], uids: Mapping[str, str]) -> str | None:
    """Which of these, name -> uid, was deleted, or has gone and come back; None while none has."""
    now = {pod.metadata.name: pod for pod in pods}
    return next(
        (
            name
            for name, uid in uids.items()
            if name in now and (is_terminating(now[name]) or now[name].metadata.uid != uid)
        ),
        None,
    )


Interlude = Callable[[str], None]


def _nothing(_moment: str) -> None:
    """Nobody steps in between."""


class ShortStory:
    """Played once. The playground's namespace must be empty, and alice without a running booking."""

    def __init__(
        self,
        alice: Person,
        bob: Person,
        ground: Playground,
        *,
        interlude: Interlude = _nothing,
        patience: float = 60.0,
        rival: bool = True,
        runtimes_die: bool = False,
        may_leave: tuple[str, ...] = (VICTIM,),
    ) -> None:
        """Nothing happens yet.

        Args:
            alice: who books.
            bob: who does not.
            ground: where they create their pods.
            interlude: called at each moment.
            patience: seconds that each step may take; harm takes longer.
            rival: Bob's fifth pod wants the GPU already when it is being freed for Alice's. A pod that a
                restarted kubelet or an agent that is away refuses comes back and waits; with a rival the GPU
                would be taken then, and the end depend on who is quicker.
            runtimes_die: containerd is killed: what it was just starting, the kubelet starts once more.
            may_leave: the pods of which one makes way.
        """
        self._may_leave = may_leave
        self._runtimes_die = runtimes_die
        self._rival = rival
        self._ground = ground
        self._patience = Patience(ground, patience)
        self.alice = Patient(alice, ground, self._patience)
        self.bob = Patient(bob, ground, self._patience)
        self._interlude = interlude
        self._reporter = Reporter(sys.stdout)
        self._origins = Origins()
        self._refused_uids: set[str] = set()
        self.victim = VICTIM
        """Who has made way."""
        self.refused: list[str] = []
        """Pods that a kubelet rejected or spoilt before they began, and why."""
        self.reached: dict[str, float] = {}
        """Moment -> seconds since the beginning."""

    def play(self) -> Ending:
        """Everything; how it has ended.

        Raises:
            AssertionError: a step did not happen within the patience.
        """
        self._reach("begun")
        self.occupy()
        booking = self.alice.book()
        self._reach("booked")
        self._serve()
        self._give_back(booking)
        return self._settle()

    # --- chapters ------------------------------------------------------------------------------------
    def occupy(self) -> dict[str, str]:
        """Bob's five pods: four run, one waits; the uids of the four."""
        for name in HELD:
            self.bob.create(self._body(name))
        for name in HELD:
            self._origins.remember(self._await_running(name))
        self._reach("occupied")
        if self._rival:
            self._want_more()
        return {name: self._origins.uids[name] for name in HELD}

    def _want_more(self) -> None:
        self.bob.create(self._body(WAITS))
        self.await_that("the fifth pod waits", WAITS, pod_status.waiting_because)
        self._reach("waiting")

    def ask(self) -> None:
        """Alice creates her pod."""
        self.alice.create(self._body(HERS))
        self._reach("asked")

    def _serve(self) -> None:
        uids = {name: self._origins.uids[name] for name in self._may_leave}
        self.ask()
        self.await_that("a device is kept", HERS, lambda p: pod_status.held(p) or pod_status.node_of(p))
        self._reach("held")
        self.victim = self._patience.until(
            f"{' or '.join(uids)} leaves", lambda: victim_that_leaves(self._ground.pods(), uids)
        )
        self._reach("leaving")
        self.await_that("it is bound", HERS, pod_status.node_of)
        self._reach("bound")
        hers = self._await_running(HERS)
        self._origins.remember(hers)
        assert self._origins.devices[self._only_device(hers)] == self.victim
        self._reach("served")
        self._await_return(self.victim)
        self._reach("back")
        if not self._rival:
            self._want_more()

    def _give_back(self, booking: str) -> None:
        uid = self._origins.uids[HERS]
        self.alice.release(booking)
        self._reach("released")
        self.await_that("it leaves", HERS, lambda p: is_terminating(p) or p.metadata.uid != uid)
        self._reach("ending")
        self.await_that("the fifth pod is bound", WAITS, pod_status.node_of)
        self._reach("passed on")
        self._origins.remember(self._await_running(WAITS))
        self._await_return(HERS)
        self._reach("over")

    def _settle(self) -> Ending:
        """The end, as soon as it is as expected, or as it is when that takes too long."""
        try:
            end = expected(self.victim)
            self._patience.until("nothing is left to do", lambda: self._read(see_inside=False) == end)
        except AssertionError as error:
            self._reporter.say("story", str(error))
        return self._patience.until("the end can be read", lambda: self._read(see_inside=True))

    # --- steps ---------------------------------------------------------------------------------------
    def _reach(self, moment: str) -> None:
        self.reached[moment] = self._reporter.seconds
        self._reporter.say("story", moment)
        self._interlude(moment)

    def await_that(self, what: str, name: str, condition: Callable[[Pod], object]) -> Pod:
        """Wait for a pod of this name of which the condition is true."""

        def found() -> Pod | None:
            pod = self._named(name)
            return pod if pod and condition(pod) else None

        return self._patience.until(f"{name}: {what}", found)

    def _await_running(self, name: str) -> Pod:
        """Wait until a pod runs for the first time; one that the kubelet has refused comes back by itself."""

        def running() -> Pod | None:
            pod = self._named(name)
            why = self._spoilt(pod) if pod else None
            if pod and pod.status.phase == "Failed":
                self._note_refusal(pod)
            elif pod and why:
                self._create_again(pod, why)
            return pod if pod and pod_status.is_running(pod) else None

        return self._patience.until(f"{name} runs", running)

    def _note_refusal(self, pod: Pod) -> None:
        """The kubelet has rejected it before it began: the controller brings it back."""
        why = f"{pod.metadata.name}: {pod_status.describe(pod)}"
        assert not pod.status.container_statuses, f"it has run: {why}"
        if pod.metadata.uid not in self._refused_uids:
            self._refused_uids.add(pod.metadata.uid)
            self.refused.append(why)
            self._reporter.say(pod.metadata.name, f"is refused by its kubelet: {why}")

    def _spoilt(self, pod: Pod) -> str | None:
        """Why it will never run: the kubelet gave it a GPU of the wrong model; else None."""
        if pod_status.is_running(pod) or not pod.spec.node_name:
            return None
        whole = self._ground.kube.get(WHOLE_PODS, pod.metadata.name, namespace=pod.metadata.namespace)
        return spoilt(whole)

    def _await_return(self, name: str) -> None:
        uid = self._origins.uids[name]
        self.await_that(
            "it comes back and runs",
            name,
            lambda p: pod_status.came_back_from(p) == uid and pod_status.is_running(p),
        )

    def _create_again(self, pod: Pod, why: str) -> None:
        """As the documentation advises: it holds a GPU that it cannot use, and nobody else ends it."""
        self.refused.append(f"{pod.metadata.name}: {why}")
        self._reporter.say(pod.metadata.name, f"never ran and is created again: {why}")
        owner = self.alice if pod.metadata.name == HERS else self.bob
        owner.replace(pod.metadata.name, pod.metadata.uid, self._body(pod.metadata.name))

    def _named(self, name: str) -> Pod | None:
        return next((pod for pod in self._ground.pods() if pod.metadata.name == name), None)

    def _read(self, *, see_inside: bool) -> Ending:
        found = read_ending(self._ground, self._origins, see_inside=see_inside)
        if not self._runtimes_die:
            return found
        return replace(found, pods={name: replace(fate, restarts=0) for name, fate in found.pods.items()})

    def _only_device(self, pod: Pod) -> str:
        (device,) = pod_status.devices(pod)
        return device

    def _body(self, name: str) -> dict[str, Any]:
        """A pod that wants an A100; the four that hold them are each on their node."""
        extra = {"nodeSelector": {HOSTNAME: f"node-{name[4]}"}} if name in HELD else None
        body = probe.pod(name, [probe.container("main", gpus=1)], model=A100, extra=extra)
        if name == VICTIM:
            body["metadata"]["annotations"][names.CHECKPOINT_AT] = "2100-01-01T00:00:00Z"
        return body
