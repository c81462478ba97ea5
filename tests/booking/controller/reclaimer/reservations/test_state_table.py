"""A reservation pod's life, step by step: whoever dies when, none is left over and no share is without it."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from booking.controller.reclaimer.reservations.state_table import CLOSES_WITHIN, Reserved, State, Step, step

LAG = 2.0
"""Seconds by which the extender may see the reservation pod late."""
BIND = 2.0
"""Seconds from its decision to the Binding at most (``extender.binding.binding_post``)."""


@pytest.mark.parametrize(
    ("state", "needed", "unneeded"),
    [
        ("asked", "wait", "close"),
        ("given", "open", "close"),
        ("open", "wait", "close"),
        ("closing", "reopen", "delete"),
        ("leaving", "wait", "wait"),
        ("ended", "delete", "delete"),
    ],
)
def test_the_step_follows_from_the_state_and_who_needs_it(state: State, needed: Step, unneeded: Step) -> None:
    assert step(Reserved(state, is_needed=True, closing_for=CLOSES_WITHIN)) == needed
    assert step(Reserved(state, is_needed=False, closing_for=CLOSES_WITHIN)) == unneeded
    assert step(Reserved("closing", is_needed=False)) == "wait"


def test_what_was_decided_before_the_first_step_is_bound_before_the_second() -> None:
    assert CLOSES_WITHIN > LAG + BIND


@dataclass(frozen=True)
class Object:
    """The reservation pod as the API server has it."""

    version: int
    state: State = "asked"
    closing_at: float = 0.0


@dataclass
class Cluster:
    """What the API server holds; everybody else may die."""

    now: float = 0.0
    pod: Object | None = None
    versions: int = 0
    waiting: int = 0
    """Pods that want a share."""
    sharers: int = 0
    decided: list[float] = field(default_factory=list)
    """When the Bindings of pods must have arrived that the extender has decided on."""
    seen: list[tuple[float, Object | None]] = field(default_factory=list)
    """What the pod was, since when."""

    def write(self, pod: Object | None) -> None:
        self.versions += 1
        self.pod = replace(pod, version=self.versions) if pod else None
        self.seen.append((self.now, self.pod))


class Life(RuleBasedStateMachine):
    """Everything happens in any order, at any speed; a write may be lost, or its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.known: Object | None = None
        """The pod as the controller last saw it."""
        self.cluster.waiting = 1
        self.cluster.write(Object(0, "open"))

    @rule(seconds=st.sampled_from([0.01, 0.5, 1.9, 5.0]))
    def time_passes(self, seconds: float) -> None:
        """Bindings arrive by their deadlines, or never."""
        self.cluster.now += seconds
        for until in [until for until in self.cluster.decided if until < self.cluster.now]:
            self.cluster.decided.remove(until)
            self.cluster.waiting += 1

    @rule()
    def a_pod_wants_a_share(self) -> None:
        self.cluster.waiting += 1

    @precondition(lambda self: self.cluster.waiting)
    @rule()
    def a_waiting_pod_is_deleted(self) -> None:
        self.cluster.waiting -= 1

    @precondition(lambda self: self.cluster.sharers)
    @rule()
    def a_sharer_ends(self) -> None:
        self.cluster.sharers -= 1

    @precondition(lambda self: self.cluster.pod and self.cluster.pod.state == "asked")
    @rule()
    def the_kubelet_gives_it_a_gpu(self) -> None:
        if self.cluster.pod:
            self.cluster.write(replace(self.cluster.pod, state="given"))

    @precondition(lambda self: self.cluster.waiting)
    @rule(lag=st.floats(0, LAG))
    def the_extender_decides(self, lag: float) -> None:
        """By what it sees: the pod as it was a moment ago."""
        then = self.cluster.now - lag
        past = [pod for at, pod in self.cluster.seen if at <= then]
        if past and past[-1] and past[-1].state == "open":
            self.cluster.waiting -= 1
            self.cluster.decided.append(self.cluster.now + BIND)

    @precondition(lambda self: self.cluster.decided)
    @rule()
    def a_binding_arrives(self) -> None:
        self.cluster.decided.pop()
        self.cluster.sharers += 1

    @rule(is_lost=st.booleans(), is_late=st.booleans())
    def the_controller_takes_a_step(self, *, is_lost: bool, is_late: bool = False) -> None:
        """If the write is lost, the controller died before it; if it is late, it knows the pod as it was."""
        self.known = self.known if is_late else self.cluster.pod
        cluster, known = self.cluster, self.known
        is_needed = bool(cluster.waiting or cluster.sharers)
        if is_lost:
            return
        if known is None:
            if cluster.pod is None and is_needed:  # the name is the lock: a second one is refused
                cluster.write(Object(0))
            return
        next_step = step(Reserved(known.state, is_needed, cluster.now - known.closing_at))
        if cluster.pod is None or cluster.pod.version != known.version:
            return  # refused: it has changed
        match next_step:
            case "open":
                cluster.write(replace(known, state="open"))
            case "close":
                cluster.write(replace(known, state="closing", closing_at=cluster.now))
            case "reopen":
                cluster.write(replace(known, state="open"))
            case "delete" if not cluster.sharers:  # the API server is asked right before
                cluster.write(None)

    @invariant()
    def no_share_is_without_its_reservation(self) -> None:
        assert self.cluster.pod or not self.cluster.sharers

    def teardown(self) -> None:
        """Everybody leaves: then the pod goes, by the steps of a controller that knows nothing of before."""
        cluster = self.cluster
        cluster.waiting = cluster.sharers = 0
        cluster.decided.clear()
        for _ in range(4):
            cluster.now += CLOSES_WITHIN
            self.the_controller_takes_a_step(is_lost=False)
        assert cluster.pod is None


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=200, stateful_step_count=40)
