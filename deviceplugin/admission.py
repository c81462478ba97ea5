"""The three questions of the kubelet, from what is read now to the answer: for ``plugin``.

Within the first two the kubelet admits no other pod of the node, without any time limit, and an error fails
the pod for good. So there is no NVML here, no lock that a thread in the driver could hold, no API server (but
for the first pods after a kubelet start), and whatever goes wrong in here ends in an answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

import structlog

from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from cluster.runtime.clock import Clock
from deviceplugin import prestart
from deviceplugin.allocate import held_elsewhere
from deviceplugin.board import Board
from deviceplugin.caller import Choice, Question, Verdict, View, busy_offered, candidates, choose, first_ones
from deviceplugin.checkpoint import CheckpointError, Holdings
from deviceplugin.metrics import AgentMetrics
from deviceplugin.mig.packing import DevicePick
from deviceplugin.nodepods import NodePods, Seen
from deviceplugin.prestart import Decision, Gate

log = structlog.get_logger(__name__)

T = TypeVar("T")

MOST_SERVED: Final = 1000
"""So many pods are remembered to have got their devices: many times what a node has in two minutes."""


def first_devices(
    known: Mapping[str, Device], free: Sequence[str], chosen: frozenset[str], count: int
) -> Sequence[str]:
    """As ``first_ones``."""
    del known
    return first_ones(free, chosen, count)


class Record(Protocol):
    """The port of ``checkpoint.CheckpointFile``."""

    def read(self) -> Holdings:
        """The kubelet's record now; raises CheckpointError."""
        ...


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What is read while the kubelet waits."""

    resource: str
    board: Board
    record: Record
    pods: NodePods
    pick: DevicePick = first_devices
    """Chooses where nobody has decided."""


class Admission:
    """Answers the kubelet. The first two questions come one after the other, the third in parallel."""

    def __init__(self, sources: Sources, *, metrics: AgentMetrics, clock: Clock) -> None:
        self._sources = sources
        self._served: dict[str, None] = {}
        """Uids that were in the record, the latest last."""
        self._metrics = metrics
        self._clock = clock

    def prefer(self, question: Question) -> Choice:
        """The devices that the container which is being admitted should get."""
        began = self._clock.monotonic()
        choice = _in_any_case(lambda: self._choose(question), lambda: self._blind(question))
        self._metrics.admissions.labels(choice.verdict).inc()
        self._metrics.admission_seconds.observe(self._clock.monotonic() - began)
        log.log(
            _level(choice.verdict),
            "devices chosen",
            verdict=choice.verdict,
            pod=choice.pod.key if choice.pod else None,
            container=choice.container,
            devices=choice.devices,
            sentence=choice.sentence or None,
        )
        return choice

    def held(self, devices: frozenset[str]) -> str | None:
        """Why these devices may not be allocated, as a sentence; None when they may."""
        sentence = _in_any_case(lambda: self._held(devices), lambda: None)
        self._metrics.allocations.labels("refused" if sentence else "given").inc()
        if sentence:
            log.error("allocation refused", sentence=sentence)
        return sentence

    def gate(self, devices: frozenset[str]) -> Decision:
        """Whether the container that has exactly these devices may start."""
        holdings = self._holdings()
        holders = holdings.holders(devices) if holdings else frozenset()
        pods = self._sources.pods.of(holders) if holders else {}
        now = self._sources.board.now
        decision = prestart.decide(
            devices, holdings, pods, now.startable, beside=now.beside(self._sources.resource)
        )
        self._metrics.starts.labels(decision.gate).inc()
        if not decision.is_open:
            log.warning("start refused", gate=decision.gate, sentence=decision.sentence)
        elif decision.gate is Gate.OTHER_DEVICES:
            log.warning("other devices than promised", uid=decision.uid, sentence=decision.sentence)
        return decision

    def _blind(self, question: Question) -> Choice:
        """Where nothing can be known."""
        return choose(question, View(self._sources.resource, None, None))

    def _choose(self, question: Question) -> Choice:
        view = self._view(question)
        if not candidates(question, view) and self._sources.pods.caught_up():
            view = self._view(question)
        busy = busy_offered(question, view)
        if busy:
            self._metrics.busy_offers.inc(len(busy))
            log.warning("the kubelet offers devices that other living pods hold", devices=sorted(busy))
        return choose(question, view)

    def _view(self, question: Question) -> View:
        seen = self._sources.pods.for_admission(in_flight=bool(question.must_include))
        for sentence in seen.sentences:
            log.warning("the kubelet's Pods API does not help", sentence=sentence)
        holdings = self._holdings()
        return View(
            self._sources.resource,
            holdings,
            self._without_replaced(seen, holdings),
            remembered=seen.remembered,
            at_second_hand=seen.at_second_hand,
            pick=self._pick,
            beside=self._sources.board.now.beside(self._sources.resource),
        )

    def _without_replaced(self, seen: Seen, holdings: Holdings | None) -> tuple[Pod, ...] | None:
        """The pods, but those that were served, are gone, and whose name another has: they have ended."""
        if seen.pods is None:
            return None
        for uid in holdings.uids if holdings is not None else ():
            self._served.pop(uid, None)
            self._served[uid] = None
        for uid in tuple(self._served)[:-MOST_SERVED]:
            del self._served[uid]
        ended = seen.replaced & self._served.keys()
        return tuple(pod for pod in seen.pods if pod.metadata.uid not in ended)

    def _pick(self, free: Sequence[str], chosen: frozenset[str], count: int) -> Sequence[str]:
        return self._sources.pick(self._sources.board.now.by_uuid, free, chosen, count)

    def _held(self, devices: frozenset[str]) -> str | None:
        """As ``held``; the pods are asked for only where one of the devices is in the record already."""
        holdings = self._holdings()
        if holdings is None or not holdings.holders(devices):
            return None
        return held_elsewhere(devices, View(self._sources.resource, holdings, self._sources.pods.at_once()))

    def _holdings(self) -> Holdings | None:
        try:
            return self._sources.record.read()
        except CheckpointError as error:
            self._metrics.checkpoint_errors.inc()
            log.error("the checkpoint does not help", sentence=str(error))  # noqa: TRY400 - it is a sentence
            return None


def _level(verdict: Verdict) -> int:
    match verdict:
        case Verdict.PROMISED | Verdict.UNPROMISED:
            return 20
        case Verdict.REFUSED:
            return 40
        case _:
            return 30


def _in_any_case(question: Callable[[], T], otherwise: Callable[[], T]) -> T:
    """The answer, or the other one where finding it failed in a way that nobody foresaw."""
    try:
        return question()
    except Exception:
        log.exception("a question of the kubelet could not be answered as it should")
        return otherwise()
