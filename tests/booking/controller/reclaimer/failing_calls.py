"""A whole reclaimer whose calls to the API server go wrong: it dies there, or gets an error."""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal, get_args

from booking.controller.reclaimer.evictions.pod_evictor import PodEvictor
from booking.controller.reclaimer.evictor import Evictor
from booking.controller.reclaimer.executor import Executor, in_turn
from cluster import names
from cluster.decide.ledger.holds import standing_hold
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError, Refusal, Request, Unreachable, refused
from cluster.kube.interface import Selection
from cluster.kube.resources import POD_TEMPLATES, PODS, Resource
from cluster.objects.assignment import assignment_of, devices_of
from cluster.objects.hold import hold_of
from cluster.objects.pods import Pod, asks_for_gpus, is_terminal, is_terminating
from tests.booking.controller.reclaimer.evictions.comebacks import FakeRecorder, Killed
from tests.booking.controller.reclaimer.fake_cluster import FakeCluster

Fault = Literal["killed before", "killed after", "no answer", "answer lost", "409", "429", "500"]
FAULTS: Final[tuple[Fault, ...]] = get_args(Fault)
"""What happens to one call; ``after`` and ``lost``: when the API server has done it. 500: nothing is done."""
KILLS: Final[tuple[Fault, ...]] = FAULTS[:2]
_REASONS: Final = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}
_METHODS: Final = frozenset({"get", "list", "create", "create_subresource", "patch", "replace", "delete"})
ENOUGH: Final = 60
"""Rounds in which everything must have come to its end: more than a minute."""
QUIET: Final = 4
"""Further rounds in which nothing may change."""


class FaultyKube:
    """An API server that counts one client's calls, and lets some of them go wrong."""

    def __init__(self, kube: FakeKube) -> None:
        self._kube = kube
        self.ours = False
        """Whether who calls now is the client."""
        self.calls: list[str] = []
        """What the client has asked."""
        self.created: list[str] = []
        """Names of the pods that were really created by the client."""
        self.faults: dict[int, Fault] = {}
        """Number of a call, from 1 -> what becomes of it."""
        self.takes: Callable[[], object] = lambda: None
        """What happens while each call is on its way."""

    def __getattr__(self, name: str) -> Any:
        done = getattr(self._kube, name)
        return partial(self._call, name, done) if self.ours and name in _METHODS else done

    def _call(
        self, verb: str, done: Callable[..., Any], resource: Resource[Any], *words: Any, **more: Any
    ) -> Any:
        subresource = words[0] if verb == "create_subresource" else more.get("subresource")
        self.calls.append(f"{verb.partition('_')[0]} {resource.plural} {subresource or ''}".strip())
        self.takes()
        fault = self.faults.get(len(self.calls))
        request = Request(verb, resource.plural)
        if fault not in ("killed after", "answer lost", None):
            raise _error(fault, request)
        try:
            answer = done(resource, *words, **more)
        except ApiError:
            if fault is None:
                raise
            raise _error(fault, request) from None  # a read that finds nothing has been done as well
        if verb == "create" and resource is PODS and not more.get("dry_run"):
            self.created.append(answer.metadata.name)
        if fault is not None:
            raise _error(fault, request)
        return answer


def _error(fault: Fault | None, request: Request) -> BaseException:
    match fault:
        case "killed before" | "killed after":
            return Killed()
        case "no answer" | "answer lost":
            return Unreachable(request, str(fault))
    code = int(str(fault))
    return refused(request, Refusal(code=code, reason=_REASONS[code], message=str(fault)))


class Scenario(FakeCluster):
    """Bob's four pods have all A100s; alice, who has booked one, gets it; then her booking ends.

    Kubelet and scheduler do their part in every round, and time passes.
    """

    def __init__(self, *, on_evict: str | None = None, executor: Executor = in_turn) -> None:
        """Args: on_evict: how bob's pods ask to come back; executor: runs what is asked in the background."""
        super().__init__(executor=executor)
        self.released = False
        self.deaths = 0
        self.add_node()
        self.fill()
        for name in ("b0", "b1", "b2", "b3") if on_evict else ():
            self.annotate(name, names.ON_EVICT, on_evict)
        self.book()
        self.waiting("a")
        self.first = {name: self.pod(name).metadata.uid for name in ("a", "b0", "b1", "b2", "b3")}

    def restart(self) -> None:
        """Another process takes over."""
        if not isinstance(self.kube, FaultyKube):
            self.faulty = FaultyKube(self.kube)
            self.kube = self.faulty
        self.faulty.ours = False
        self.pod_evictor = PodEvictor(self.kube, self.clock, FakeRecorder(), executor=self.executor)
        super().restart()

    def evictor_in_use(self) -> Evictor:
        """The real ones."""
        return self.pod_evictor

    def sync(self) -> None:
        """Let both caches catch up."""
        super().sync()
        ours = Selection(label_selector=f"{names.COMEBACK}=true")
        pods = self.kube.list(PODS, ours)
        templates = self.kube.list(POD_TEMPLATES, ours)
        self.pod_evictor.seen.pods.replace(pods.items, pods.resource_version)
        self.pod_evictor.seen.templates.replace(templates.items, templates.resource_version)

    # --- rounds --------------------------------------------------------------------------------------
    def play(self, is_over: Callable[["Scenario"], bool] | None = None) -> None:
        """Until it is over, or, where nothing is said of that, until nothing changes any more.

        A few rounds more show that it stays so.
        """
        quiet, before = 0, None
        for _ in range(ENOUGH):
            self.round()
            now = self.ending()
            is_quiet = is_over(self) if is_over else now == before
            quiet, before = (quiet + 1 if is_quiet else 0), now
            if quiet == QUIET:
                return

    def round(self) -> None:
        """A pass of the reclaimer, which may die in it; then everything else."""
        self.sync()
        self.faulty.ours = True
        try:
            self.reclaimer.reconcile()
        except Killed:
            self.deaths += 1
            self.restart()
        finally:
            self.faulty.ours = False
        self._kubelet()
        self._scheduler()
        self._law_1()
        self._alice()
        self.clock.advance(1.1)
        self.renew()

    def _kubelet(self) -> None:
        for pod in self.pods():
            if is_terminating(pod) and not is_terminal(pod):
                self.kube.finish(PODS, pod.metadata.name, namespace="default")

    def _scheduler(self) -> None:
        """What the extender does: a held pod gets the devices of its hold when they are free."""
        hers = self._named("a")
        hold = standing_hold(hers) if hers else None
        taken = {device for pod in self.pods() for device in _has(pod)}
        if hold and not taken & set(hold.devices):
            self.bind("a", *(int(device.rpartition("-")[2]) for device in hold.devices))

    def _alice(self) -> None:
        """She gives her booking back when her pod has its GPU and bob's is back."""
        hers, back = self._named("a"), self._returned()
        is_served = hers and hers.spec.node_name and not hold_of(hers)
        if not self.released and is_served and back and not back.metadata.finalizers:
            self.end_booking()
            self.released = True

    def _law_1(self) -> None:
        held = [device for pod in self.pods() for device in _has(pod)]
        assert len(held) == len(set(held)), f"Law L1: {held}"

    # --- the end -------------------------------------------------------------------------------------
    def pods(self) -> tuple[Pod, ...]:
        """All pods."""
        return self.kube.list(PODS).items

    def _returned(self) -> Pod | None:
        """Bob's pod that came back."""
        his = (pod for pod in self.pods() if pod.metadata.name != "a")
        return next((pod for pod in his if pod.metadata.uid != self.first[pod.metadata.name]), None)

    def _named(self, name: str) -> Pod | None:
        return next((pod for pod in self.pods() if pod.metadata.name == name), None)

    def ending(self) -> dict[str, Any]:
        """All that is left, without uids and instants."""
        return {
            "released": self.released,
            "created": sorted(self.faulty.created),
            "templates": len(self.kube.list(POD_TEMPLATES).items),
            **{pod.metadata.name: self._fate(pod) for pod in self.pods()},
        }

    def ending_for_any_victim(self) -> dict[str, Any]:
        """The same, whichever of bob's pods had to leave: one refused too often is replaced by another."""
        whole = self.ending()
        his = [whole.pop(name, {}) for name in ("b0", "b1", "b2", "b3")]
        for one in his:
            one["GPUs"] = len(one.get("GPUs", ()))
        return {**whole, "created": [name[0] for name in whole["created"]], "his": sorted(map(repr, his))}

    def _fate(self, pod: Pod) -> dict[str, Any]:
        meta = pod.metadata
        return {
            "first": meta.uid == self.first[meta.name],
            "comes from the first": meta.annotation(names.RECREATED_FROM) == self.first[meta.name],
            "GPUs": sorted(_has(pod)),
            "asks": asks_for_gpus(pod),
            "terminating": is_terminating(pod),
            "annotations": sorted(meta.annotations or ()),
            "labels": meta.labels,
            "finalizers": meta.finalizers,
            "booking": meta.annotation(names.BOOKING),
        }


def _has(pod: Pod) -> frozenset[str]:
    """Devices that a pod holds: those of its assignment, until it has ended."""
    return frozenset() if is_terminal(pod) else devices_of(assignment_of(pod) or {})
