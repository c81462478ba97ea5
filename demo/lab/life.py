"""What people do all day: whoever has a booking uses it, the others keep the rest of the GPUs busy."""

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from random import Random
from typing import Any, Final

from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.resources import BOOKINGS, EVENTS, PODS
from cluster.objects.assignment import devices_of, readable_assignment_of
from cluster.objects.demand import demand
from cluster.objects.pods import Pod, asks_for_gpus, container_needs, is_live
from demo.lab.nodes import A100, H100, MODELS, by_claims
from demo.lab.people import ALICE, BOB, CAROL, EVERYBODY, namespace_of
from demo.lab.pods import CLAIMER, FREE, SHARE, SHARER, SHARERS, WORK, job, name_for, part, with_claim
from demo.simulation.agent import Agent
from demo.simulation.simulation import Simulation

EVERY: Final = 1800.0
"""Seconds between two looks of everybody at what is free."""
SEED: Final = 13
AT_ONCE: Final = 12
"""At most so many new jobs at a time."""
HOURS: Final = (1, 2, 3, 5, 8, 12)
IN_LINE: Final = 3
"""So many jobs of others wait for the model that everybody wants."""
KEPT: Final = timedelta(hours=1)
"""As long ended pods and Events are kept, and pods that came back without a GPU."""
VISITORS: Final = frozenset({ALICE, BOB, CAROL})
"""Their pods are started by who watches the demo, and are left alone."""


class Life:
    """Everybody but the people of the bar. Everything they do is done under their own names."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._kube = simulation.kube
        self._chance = Random(SEED)  # noqa: S311 - a simulation, not a secret
        self._numbers: Counter[str] = Counter()

    def begin(self) -> None:
        """From now on they look again and again; time that leaps stops each time."""
        self._simulation.loop.after(EVERY, self._go_on, self._simulation.life)

    def _go_on(self) -> None:
        self.step()
        self.begin()

    def step(self) -> None:
        """Everybody does what is due."""
        try:
            pods = self._kube.list(PODS).items
            self._tidy(pods)
            self._use_bookings({pod.metadata.name for pod in pods})
            live = [pod for pod in pods if is_live(pod)]
            self._share(live)
            self.claim(live)
            self._fill(live)
            self._stand_in_line(live)
        except ApiError:
            return  # they try again next time

    def name(self, work: str) -> str:
        """The next name of this kind that is free."""
        self._numbers[work] += 1
        return f"{work}-{100 + self._numbers[work]}"

    # --- bookings ----------------------------------------------------------------------------------------
    def _use_bookings(self, taken: set[str]) -> None:
        now = self._simulation.clock.now()
        for booking in self._kube.list(BOOKINGS).items:
            spec = booking.spec
            name = name_for(booking.name)
            if spec.user in VISITORS or name in taken or not spec.start <= now < spec.end:
                continue
            if not booking.status.ending:
                share = spec.memory and part(name, spec.memory, model=spec.model)
                self._create(spec.user, share or job(name, spec.count, model=spec.model))

    # --- shares ------------------------------------------------------------------------------------------
    def _share(self, live: Iterable[Pod]) -> None:
        """Whoever has lost their share asks for another one."""
        there = sum(has_share(pod) and pod.metadata.annotation(names.USER) not in VISITORS for pod in live)
        if there < SHARERS and any(each.devices[0].model == A100.label for each in self._agents):
            person = self._chance.choice([each for each in EVERYBODY if each not in VISITORS])
            self._create(person, part(self.name(SHARER), SHARE, model=A100.label))

    def claim(self, live: Iterable[Pod]) -> None:
        """Others have as many pods with claims as there are GPUs that are given so."""
        gpus = sum(bool(device.claimed_as) for each in self._agents for device in each.devices)
        claiming = [pod for pod in live if pod.spec.resource_claims]
        there = sum(pod.metadata.annotation(names.USER) not in VISITORS for pod in claiming)
        for _ in range(gpus - there):
            person = self._chance.choice([each for each in EVERYBODY if each not in VISITORS])
            self._create(person, with_claim(self.name(CLAIMER)))

    # --- what is free ------------------------------------------------------------------------------------
    def _fill(self, live: list[Pod]) -> None:
        free, wanted = self._free(live)
        for _ in range(AT_ONCE):
            models = [m for m, left in free.items() if left > FREE.get(m, 0) and m not in wanted]
            if not models:
                return
            model = self._chance.choice(models)
            gpus = min(self._chance.choice((1, 1, 2)), free[model] - FREE.get(model, 0))
            free[model] -= gpus
            person = self._chance.choice([each for each in EVERYBODY if each not in VISITORS])
            seconds = self._chance.choice(HOURS) * 3600.0 * self._chance.uniform(0.7, 1.3)
            self._create(
                person, job(self.name(self._chance.choice(WORK)), gpus, model=model, seconds=seconds)
            )

    def _stand_in_line(self, live: Iterable[Pod]) -> None:
        """Whoever has least of the model that everybody wants asks for some."""
        wanted = [pod for pod in live if pod.metadata.annotation(names.MODEL) == H100.label]
        waiting = sum(not pod.spec.node_name for pod in wanted)
        had: Counter[str] = Counter()
        for pod in wanted:
            had[pod.metadata.annotation(names.USER) or ""] += gpus_of(pod)
        for person in sorted(set(EVERYBODY) - VISITORS, key=lambda one: (had[one], one)):
            if waiting >= IN_LINE:
                return
            waiting += 1
            seconds = self._chance.choice(HOURS) * 3600.0
            name = self.name(self._chance.choice(WORK))
            self._create(person, job(name, 1, model=H100.label, seconds=seconds))

    def _free(self, live: Iterable[Pod]) -> tuple[Counter[str], set[str]]:
        """Model -> GPUs that no pod has; and the models for which somebody waits already."""
        free: Counter[str] = Counter()
        for agent in self._agents:
            if not by_claims(agent.devices):
                free.update(device.model for device in agent.devices if device.is_healthy)
        wanted: set[str] = set()
        shared: set[str] = set()
        for pod in live:
            gpus = gpus_of(pod)
            holding = self._simulation.agents.get(pod.spec.node_name or "")
            if holding:
                free[holding.devices[0].model] -= gpus
                if has_share(pod):
                    theirs = devices_of(readable_assignment_of(pod) or {}) - shared
                    free[holding.devices[0].model] -= len(theirs)
                    shared |= theirs
            elif gpus:
                wanted.update((pod.metadata.annotation(names.MODEL) or "").split(","))
        return free, wanted

    # --- what is over ------------------------------------------------------------------------------------
    def _tidy(self, pods: Iterable[Pod]) -> None:
        before = self._simulation.clock.now() - KEPT
        for pod in pods:
            meta = pod.metadata
            came_back = meta.annotation(names.RECREATED_FROM) and not asks_for_gpus(pod)
            is_old = meta.creation_timestamp is not None and meta.creation_timestamp < before
            is_theirs = meta.annotation(names.USER) not in VISITORS
            if is_old and ((is_live(pod) and came_back and is_theirs) or pod.status.phase == "Succeeded"):
                self._kube.delete(PODS, meta.name, namespace=meta.namespace, uid=meta.uid)
        for event in self._kube.list(EVENTS).items:
            if (event.metadata.creation_timestamp or before) < before:
                self._kube.delete(EVENTS, event.metadata.name, namespace=event.metadata.namespace)

    @property
    def _agents(self) -> Iterable[Agent]:
        return self._simulation.agents.values()

    def _create(self, person: str, body: dict[str, Any]) -> None:
        self._kube.as_user(person).create(PODS, body, namespace=namespace_of(person))


def gpus_of(pod: Pod) -> int:
    """How many whole GPUs a pod asks for."""
    return demand(container_needs(pod)).get(names.GPU_RESOURCE, 0)


def has_share(pod: Pod) -> bool:
    """Whether a pod asks for a share of a GPU."""
    return bool(demand(container_needs(pod)).get(names.SHARED_RESOURCE))


def short(model: str) -> str:
    """A model's short name, for people."""
    known = MODELS.get(model)
    return known.short.upper() if known else model
