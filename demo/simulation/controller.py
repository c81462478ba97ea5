"""The controller: the real webhook and the real reclaimer, made by the real composition root."""

import base64
import itertools
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from booking.controller.__main__ import SHARES_OFF, Base, admission, followed, reclaim
from booking.controller.admission.claim_tolerations import mark_claim
from booking.controller.admission.metrics import Metrics
from booking.controller.admission.patch import Operation
from booking.controller.admission.webhook import Answering
from booking.controller.reclaimer.executor import in_turn
from booking.controller.reclaimer.reclaimer import EVERY, Reclaimer
from booking.controller.settings import ControllerSettings
from booking.policy.fair_shares import FairShares
from booking.policy.policy import Policy
from booking.policy_file import PolicyFile
from booking.policy_source import PERIOD
from cluster.cache import ClusterCache, Informers, with_expressions
from cluster.kube.clock_skew import clock_skew_reason
from cluster.kube.errors import ApiError, Refusal, Request, refused
from cluster.kube.events import EventRecorder
from cluster.kube.leader_election import LeaderElector
from demo.simulation.json_patch import applied
from demo.simulation.part import NoAnswerError, Part
from demo.simulation.surroundings import Surroundings

Json = dict[str, Any]


class Threads:
    """Instead of ``cluster.process.lifecycle.Process``: keeps what it is given, for the world's loop."""

    def __init__(self) -> None:
        self.bodies: dict[str, Callable[[threading.Event], None]] = {}

    def thread(self, name: str, target: Callable[[threading.Event], None]) -> None:
        """A thread that the process would start."""
        self.bodies[name] = target

    def owner(self, name: str) -> Any:
        """Whose method the thread's body is."""
        body: Any = self.bodies[name]
        return body.__self__


class Middle:
    """Where attempts are spread over time by chance: always the middle, so that history repeats itself."""

    def uniform(self, a: float, b: float, /) -> float:
        """Half way."""
        return (a + b) / 2


class Controller(Part):
    """One replica."""

    latency = 0.02
    is_ours = True

    def __init__(self, world: Surroundings, name: str, **settings: Any) -> None:
        super().__init__(world, name)
        self._shares: FairShares = settings.pop("fair_shares", FairShares())
        self._settings = settings
        self._numbers = itertools.count(1)
        self.user = ControllerSettings().service_account

    def build(self) -> None:
        """As ``booking.controller.__main__.build`` does, with one thread for all."""
        settings = ControllerSettings(instance=f"{self.name}-{self.lives}", **self._settings)
        default = Policy(fair_shares=self._shares)
        self._policy = PolicyFile(settings.policy_file, self.clock, default=default, invalid=SHARES_OFF)
        threads, registry = Threads(), CollectorRegistry()
        claims = with_expressions(settings.dra_driver) if settings.book_claims else None
        cache = ClusterCache(self.clock, claims=claims)
        cache.keep_scheduling_objects()
        following = Informers(
            self.kube, cache, self.clock, namespace=settings.namespace, kinds=followed(settings)
        )
        wrong_clock = clock_skew_reason(self.kube.skew)
        # Base names the real process and client; here both are of one thread, with the methods that are used.
        for_one_thread: dict[str, Any] = {"process": threads, "kube": self.kube}
        base = Base(
            settings=settings,
            clock=self.clock,
            registry=registry,
            cache=cache,
            following=following,
            unready_reason=lambda: following.unready_reason() or wrong_clock(),
            executor=in_turn,
            random=Middle(),
            policy=self._policy,
            **for_one_thread,
        )
        metrics = Metrics(registry)
        self.admit, self._mark_claim = admission(base, metrics), Answering(mark_claim, metrics)
        reclaim(base)
        self.reclaimer: Reclaimer = threads.owner("reclaimer")
        self.elector: LeaderElector = threads.owner("elector")
        self._events: EventRecorder = threads.owner("events")
        self._is_scheduled = False
        self._refused_at = -EVERY
        self.follow(*following.reflectors)
        self.every(2.2, self._elect, is_sign_of_life=True)
        self.every(EVERY, self._reconcile, first=EVERY)
        self.every(1.0, self._events.flush, first=1.0)
        self.every(PERIOD, self._policy.reconcile, first=PERIOD)

    @property
    def gives_back(self) -> bool:
        """Whether it takes GPUs back for fair shares."""
        return self.life.alive and self._policy.current().fair_shares.mode == "reclaim"

    def on_events(self) -> None:
        """A triggered reclaimer reconciles at once, but for a moment after a refusal."""
        if self.reclaimer.is_triggered and not self._is_scheduled:
            self._is_scheduled = True
            pause = self._refused_at + EVERY - self.world.loop.now
            self.after(max(0.001, pause), self._reconcile)

    def _elect(self) -> None:
        try:
            self.elector.attempt()
        except ApiError:
            self.after(0.5, self._elect)

    def _reconcile(self) -> None:
        self._is_scheduled = False
        if not self.reclaimer.round():
            self._refused_at = self.world.loop.now

    # --- the webhook -----------------------------------------------------------------------------------
    def reviewed(
        self, pod: Mapping[str, Any], *, namespace: str, user: str, dry_run: bool, is_claim: bool = False
    ) -> Json:
        """The pod, or the claim, as the webhook wants it stored.

        Raises:
            NoAnswerError: it does not answer, or not with what the API server expects.
            ApiError: it refuses the object.
        """
        question = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": f"{self.name}-{next(self._numbers)}",
                "kind": {"group": "", "version": "v1", "kind": "ResourceClaim" if is_claim else "Pod"},
                "operation": "CREATE",
                "userInfo": {"username": user},
                "namespace": namespace,
                "name": pod["metadata"].get("name", ""),
                "object": pod,
                "dryRun": dry_run,
            },
        }
        answer = self._mark_claim if is_claim else self.admit
        reply = self.respond(lambda: answer(msgspec.json.encode(question)))
        if reply.status != HTTPStatus.OK:
            raise NoAnswerError(reply.body.decode())
        response = msgspec.json.decode(reply.body)["response"]
        if not response["allowed"]:
            refusal = msgspec.convert(response["status"], Refusal)
            raise refused(Request("POST", "/api/v1/resourceclaims" if is_claim else "/api/v1/pods"), refusal)
        steps = base64.b64decode(response.get("patch") or "") or b"[]"
        return applied(pod, msgspec.json.decode(steps, type=list[Operation]))
