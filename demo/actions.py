"""What the buttons of the bar do. Everything is called in the simulation's thread."""

from collections.abc import Callable
from itertools import count
from typing import Any, Final

from booking.principals import Principal
from booking.server.errors import ClusterError, RefusedError, UnknownError
from booking.server.service import BookingService
from cluster import names
from cluster.kube.errors import ApiError
from cluster.kube.resources import NODES, PODS
from cluster.objects.assignment import assignment_of, devices_of
from cluster.objects.pods import Pod, asks_for_gpus, is_live
from demo.feed import Feed
from demo.lab.life import gpus_of, short
from demo.lab.people import CAROL, HUB, namespace_of
from demo.lab.pods import NOTEBOOK, job, notebook, quarter, with_claim
from demo.simulation.agent import Agent
from demo.simulation.simulation import Simulation

WHY_DRAINED: Final = "the node is drained for maintenance"


class Actions:
    """The buttons."""

    def __init__(self, simulation: Simulation, service: Callable[[], BookingService], feed: Feed) -> None:
        """Args: service: the booking service, for an administrator's orders."""
        self._simulation = simulation
        self._kube = simulation.kube
        self._service = service
        self._feed = feed
        self._numbers = count(1)
        self._broken: tuple[Agent, int] | None = None
        self._drained: str | None = None

    @property
    def broken(self) -> str | None:
        """The GPU that is broken, for people."""
        return f"{self._broken[0].node} GPU {self._broken[1]}" if self._broken else None

    @property
    def drained(self) -> str | None:
        """The node that is drained."""
        return self._drained

    # --- pods ------------------------------------------------------------------------------------------
    def start(self, person: str, gpus: int) -> str:
        """Start a job; one that asks for what its owner has booked, where that is so.

        Returns:
            What was done, a sentence.
        """
        model = self._booked_model(person, gpus)
        name = f"{person}-job-{next(self._numbers)}"
        return self._create(person, person, job(name, gpus, model=model), model)

    def notebook(self, person: str) -> str:
        """Start a notebook, as a JupyterHub does for somebody."""
        name = f"{NOTEBOOK}-{person}-{next(self._numbers)}"
        return self._create(person, HUB, notebook(name, person), None)

    def share(self, person: str) -> str:
        """Start a pod with a quarter of a GPU."""
        return self._create(person, person, quarter(f"{person}-share-{next(self._numbers)}"), None)

    def claim(self, person: str) -> str:
        """Start a job that asks for one GPU by a claim."""
        return self._create(person, person, with_claim(f"{person}-claim-{next(self._numbers)}"), None)

    def _create(self, person: str, creator: str, body: dict[str, Any], model: str | None) -> str:
        namespace, name = namespace_of(person), body["metadata"]["name"]
        try:
            self._kube.as_user(creator).create(PODS, body, namespace=namespace)
        except ApiError as error:
            return f"{namespace}/{name} could not be created: {error}"
        booked = f" on the {short(model)} that {person} has booked" if model else ""
        return f"{namespace}/{name} is created{booked}."

    def _booked_model(self, person: str, gpus: int) -> str | None:
        """The model of a running booking of somebody's that has room for so many GPUs more."""
        now = self._simulation.clock.now()
        used = sum(
            gpus_of(pod)
            for pod in self._live()
            if pod.metadata.annotation(names.USER) == person and gpus_of(pod)
        )
        running = (
            b.spec
            for b in self._simulation.bookings()
            if b.spec.user == person
            and b.spec.memory is None
            and b.spec.start <= now < b.spec.end
            and not b.status.ending
        )
        return next((spec.model for spec in running if used + gpus <= spec.count), None)

    def _live(self) -> list[Pod]:
        return [pod for pod in self._kube.list(PODS).items if is_live(pod)]

    # --- what an administrator meets -------------------------------------------------------------------
    def turn_gpu(self) -> str:
        """Break a GPU at which somebody works, or repair the broken one."""
        if self._broken:
            agent, index = self._broken
            agent.turn(index, healthy=True)
            self._broken = None
            return f"GPU {index} of {agent.node} is healthy again."
        agent, index = self._victim()
        agent.turn(index, healthy=False)
        self._broken = (agent, index)
        return f"GPU {index} of {agent.node} has fallen off the bus."

    def _victim(self) -> tuple[Agent, int]:
        """The GPU of an opportunistic pod, if there is one, on the node where most GPUs are left."""
        busy = {
            uuid
            for pod in self._live()
            if not pod.metadata.annotation(names.BOOKING)
            for uuid in devices_of(assignment_of(pod) or {})
        }
        agents = sorted(self._simulation.agents.values(), key=lambda each: -len(each.devices))
        gpus = [(agent, device) for agent in agents for device in agent.devices if device.is_healthy]
        agent, device = next(((a, d) for a, d in gpus if d.uuid in busy), gpus[0])
        return agent, device.index

    def turn_node(self) -> str:
        """Drain the node with the fewest pods of bookings, or give the drained one back."""
        if self._drained:
            node, self._drained = self._drained, None
            self._kube.patch(NODES, node, {"spec": {"unschedulable": None}})
            return f"{node} takes pods again."
        pods = [pod for pod in self._live() if pod.spec.node_name and asks_for_gpus(pod)]
        node = min(self._simulation.devices, key=lambda name: self._harm(name, pods))
        self._kube.patch(NODES, node, {"spec": {"unschedulable": True}})
        self._drained = node
        there = [pod for pod in pods if pod.spec.node_name == node]
        ordered = sum(self._ordered(pod) for pod in there)
        return f"{node} takes no new pods, and {ordered} of its pods were ordered to leave."

    def _harm(self, node: str, pods: list[Pod]) -> tuple[int, int]:
        there = [pod for pod in pods if pod.spec.node_name == node]
        booked = sum(bool(pod.metadata.annotation(names.BOOKING)) for pod in there)
        return (booked, -len(there))

    def _ordered(self, pod: Pod) -> bool:
        who = Principal(user=CAROL, name=CAROL, is_administrator=True)
        try:
            self._service().evict(who, pod.metadata.namespace, pod.metadata.name, WHY_DRAINED)
        except (ClusterError, RefusedError, UnknownError) as error:
            self._feed.note(str(error), name=pod.metadata.name, mood="bad")
            return False
        return True
