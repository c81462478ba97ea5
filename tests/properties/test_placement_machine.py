"""The extender's verbs through long histories, on a lagging cache: filter, prioritize, bind (laws L1, L6).

What filter says is what a naive count says; bind does what filter said; a device is given to one pod, and
none on a node whose agent is unresponsive.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import combinations
from typing import Any, Final, Literal

import msgspec

from cluster import names
from cluster.decide.ledger import NodeView
from cluster.decide.ledger.liveness import AgentState, Liveness
from cluster.decide.placement import NoPlaceError, choose
from cluster.kube.errors import Conflict, NotFound, Refusal, Request, ServerError, Unreachable
from cluster.kube.resources import LEASES, Resource
from cluster.objects.assignment import Assignment, decode_assignment, devices_of
from cluster.objects.hold import Hold, encode_hold
from cluster.objects.inventory import Device, encode_inventory
from cluster.objects.pods import Pod
from extender.binding.assumed_binds import ASK_AFTER, AssumedBinds
from extender.binding.bind import Bind
from extender.binding.keyed_lock import KeyedLock
from extender.state.cluster_state import ClusterState
from extender.verbs.contenders import OTHERS, WEIGHT, Contenders
from extender.verbs.filter import Filter
from extender.verbs.prioritize import Prioritize
from extender.wire import ExtenderArgs, ExtenderBindingArgs
from tests.fakes.objects import a100, a_lease, a_node
from tests.properties.booked import Booked
from tests.properties.history import Machine, Pick, by_hypothesis, length, step
from tests.properties.reference import ENDED, assignment_or_none, links_to, used_at_once, waiting_hold
from tests.properties.reference import Bind as Decided
from tests.properties.watched_cache import NODES
from tests.properties.world import Kind, annotated, random_devices

Trouble = Literal["refused", "nobody", "lost"]
"""What becomes of the next Binding: an error of the server's, no way to it, or done and no answer."""
BINDING: Final = Request("POST", "binding")
ALIVE_FOR: Final = 75.0


class StoredPods:
    """The API server's side of a bind."""

    def __init__(self, pods: Kind[Pod]) -> None:
        self._pods = pods
        self.problem: Trouble | None = None

    def get(
        self, _resource: Resource[Pod], name: str, *, namespace: str | None = None, **_within: float | None
    ) -> Pod:
        """The pod of that name."""
        for pod in self._pods.items:
            if (pod.metadata.name, pod.metadata.namespace) == (name, namespace):
                return pod
        raise NotFound(BINDING, Refusal(code=404, reason="NotFound"))

    def create_subresource(
        self,
        resource: Resource[Pod],
        _kind: str,
        body: Mapping[str, Any],
        *,
        name: str,
        namespace: str | None,
        within: float | None = None,
        answered: float | None = None,
        dry_run: bool = False,
    ) -> None:
        """Bind, if uid and resourceVersion are those that are meant."""
        assert within is not None
        assert within > 0
        assert answered is not None
        assert answered > 0
        assert not dry_run
        problem, self.problem = self.problem, None
        if problem == "nobody":
            raise Unreachable(BINDING, "connection refused")
        if problem == "refused":
            raise ServerError(BINDING, Refusal(code=500, reason="InternalError"))
        pod, meta = self.get(resource, name, namespace=namespace), body["metadata"]
        same = (meta["uid"], meta["resourceVersion"]) == (pod.metadata.uid, pod.metadata.resource_version)
        if not same or pod.spec.node_name or pod.metadata.deletion_timestamp:
            raise Conflict(BINDING, Refusal(code=409, reason="Conflict"))
        given = (meta.get("annotations") or {}).get(names.ASSIGNED)
        spec = msgspec.structs.replace(pod.spec, node_name=body["target"]["name"])
        self._pods.put(msgspec.structs.replace(annotated(pod, names.ASSIGNED, given), spec=spec))
        if problem == "lost":
            raise Unreachable(BINDING, "the connection broke before the answer came")


class Served(ClusterState):
    """Kubelets take all pods that are bound; what else keeps a node from serving is for tests/scenarios."""

    def agent(self, view: NodeView, now: float) -> AgentState:
        """As its Lease says."""
        return Liveness.state(self.serving, view.name, monotonic=now)

    def awaits_answer(self, _node: str) -> bool:
        """Every kubelet has answered."""
        return False

    def awaiting_nodes(self) -> frozenset[str]:
        """Likewise."""
        return frozenset()


class PlacementMachine(Booked):
    """One extender that leads or does not, a scheduler that asks it, agents that become unresponsive."""

    state: ClusterState

    def __init__(self) -> None:
        self.leases: dict[str, tuple[float, bool]] = {}
        """Node -> when its agent renewed last, and whether it has announced that it stops."""
        super().__init__()
        for name in NODES:
            self._has(name, tuple(a100(index, name) for index in range(4)))
        self.catch_up()

    def _has(self, name: str, devices: tuple[Device, ...]) -> None:
        """A node, and its agent, which is well."""
        self.nodes.put(a_node(name, *devices))
        self.leases[name] = (self.clock.monotonic(), False)
        self._apply_leases()

    def begin(self) -> None:
        super().begin()
        self.cache = self.state = Served(self.clock)
        self.kube = StoredPods(self.pods)
        self.leads = True
        keyed_lock = KeyedLock(self.clock)
        kube: Any = self.kube
        self.filter = Filter(self.state)
        scores = Prioritize(self.state, self.clock).scores
        narrowed = Contenders(self.state, scores, placement="binpack", weight=WEIGHT)
        self.narrowed = Filter(self.state, narrowed)
        self.prioritize = Prioritize(self.state, self.clock)
        self.bind = Bind(kube, self.state, self.clock, keyed_lock, leads=lambda: self.leads, patience=0)
        self.settling = AssumedBinds(kube, self.state, self.clock, keyed_lock)
        self._apply_leases()

    # --- what others do ------------------------------------------------------------------------------------
    @step()
    def a_pod_is_bound(self, pick: Pick) -> str:
        """By a stranger: nobody says which devices it has."""
        waiting = [pod for pod in self.pods.items if not pod.spec.node_name]
        if not waiting:
            return "none waits"
        pod, node = pick.one(waiting), pick.one(NODES)
        self.pods.put(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node)))
        return f"{pod.metadata.name} on {node}"

    def an_agent_reports_drift(self, pick: Pick) -> str:
        """No pod has other devices than it was given: this is not marked as a step."""
        raise NotImplementedError

    @step()
    def a_node_is_removed(self, pick: Pick) -> str:
        """And another one comes in its place."""
        message = super().a_node_is_removed(pick)
        for name in set(NODES) - set(self.nodes.stored):
            self._has(name, random_devices(pick, name))
        return message

    @step(2)
    def an_agent_publishes(self, pick: Pick) -> str:
        """Mostly that a device has become unhealthy or is well again."""
        devices = self.known.inventory(name := pick.one(NODES))
        if not devices or name not in self.nodes.stored or pick.chance(5):
            return super().an_agent_publishes(pick)
        other = pick.one(devices)
        health: Literal["healthy", "unhealthy"] = "unhealthy" if other.is_healthy else "healthy"
        now = tuple(msgspec.structs.replace(d, health=health) if d is other else d for d in devices)
        self.nodes.put(annotated(self.nodes.stored[name], names.INVENTORY, encode_inventory(now)))
        return f"{other.uuid} is {health}"

    @step()
    def something_is_kept_for_a_pod(self, pick: Pick) -> str:
        if pick.chance(3):
            return super().something_is_kept_for_a_pod(pick)
        waiting = [pod for pod in self.pods.items if not pod.spec.node_name]
        if not waiting:
            return "none waits"
        pod, node = pick.one(waiting), pick.one(NODES)
        free = [device for device in self.known.free(node) if device.profile is None]
        devices = [device.uuid for device in free][: sum(used_at_once(pod).values())]
        hold = Hold(node=node, devices=tuple(devices), at=self.clock.now())
        self.pods.put(annotated(pod, names.HOLD, encode_hold(hold)))
        return f"{pod.metadata.name}: {hold}"

    # --- agents ---------------------------------------------------------------------------------------
    @step(3)
    def agents_renew(self, pick: Pick) -> str:
        for node in pick.some(NODES) or NODES:
            self.leases[node] = (self.clock.monotonic(), pick.chance(8))
        self._apply_leases()
        return str(self.leases)

    @step(2)
    def a_minute_passes(self, _pick: Pick) -> None:
        self.clock.advance(40)

    @step(2)
    def time_passes(self, pick: Pick) -> str:
        """Half hours, in which agents do renew."""
        message = super().time_passes(pick)
        self.leases = {node: (self.clock.monotonic(), leaves) for node, (_, leaves) in self.leases.items()}
        self._apply_leases()
        return message

    def _apply_leases(self) -> None:
        for node, (at, leaves) in self.leases.items():
            renewed = self.clock.now() - timedelta(seconds=self.clock.monotonic() - at)
            self.cache.of(LEASES).upsert(
                a_lease(node, renewed=renewed, version=self.versions.next(), stopping=leaves)
            )

    def _is_alive(self, node: str) -> bool:
        at, leaves = self.leases.get(node, (0.0, True))
        return not leaves and self.clock.monotonic() - at < ALIVE_FOR

    # --- the extender ---------------------------------------------------------------------------------
    @step()
    def it_leads_or_not(self, pick: Pick) -> str:
        self.leads = not pick.chance(6)
        return str(self.leads)

    @step()
    def the_next_binding_fails(self, pick: Pick) -> str:
        self.kube.problem = pick.one(("lost", "nobody", "refused"))
        return str(self.kube.problem)

    @step()
    def unseen_binds_are_settled(self, _pick: Pick) -> None:
        self.settling.reconcile()
        self.clock.advance(ASK_AFTER)
        self.settling.reconcile()
        self._learn_what_was_read()

    @step(14)
    def the_scheduler_takes_a_pod(self, pick: Pick) -> str:
        pod = self._queued(pick)
        if pod is None:
            return "none waits"
        arguments = ExtenderArgs(pod=pod, node_names=NODES)
        result = self.filter(arguments)
        fitting = [node for node in NODES if self._fits(pod, node)]
        assert sorted(result.node_names or ()) == fitting
        assert set(result.failed_and_unresolvable_nodes or ()) == set(NODES) - set(fitting)
        assert self.filter(arguments) == result
        for score in self.prioritize(arguments):
            assert score.score == self._fullness(pod, score.host)
            if pod.metadata.uid not in self.known.binds:
                self._check_choice(pod, score.host, fits=score.host in fitting)
        full = {name: self._fullness(pod, name) for name in fitting}
        best = [name for name in fitting if full[name] > max(full.values()) - OTHERS // (10 * WEIGHT)]
        assert sorted(self.narrowed(arguments).node_names) == best
        self.state.soft.release(pod.metadata.uid)  # a moment's reservation, which ``_fits`` does not know
        node = pick.one(fitting) if fitting and not pick.chance(8) else pick.one(NODES)
        return f"{pod.metadata.name}, {fitting} fit: {self._bind(pod, node, fits=node in fitting)}"

    def _queued(self, pick: Pick) -> Pod | None:
        """A pod that waits, as the scheduler knows it: now and then in an older state."""
        seen = {pod.metadata.uid: pod for pod in self.pods.items}
        if pick.chance(6):
            seen |= {event.obj.metadata.uid: event.obj for event in self.pods.delivered if not event.gone}
        over = {uid for uid, pod in self.known.pods.items() if pod.status.phase in ENDED}
        waiting = [
            pod
            for uid, pod in seen.items()
            if not pod.spec.node_name and pod.status.phase == "Pending" and uid not in over
        ]
        # Those that fit somewhere come first: a queue of pods that fit nowhere teaches little.
        fitting = [pod for pod in waiting if any(self._fits(pod, node) for node in NODES)]
        chosen = fitting if fitting and not pick.chance(4) else waiting
        return pick.one(chosen) if chosen else None

    def _bind(self, pod: Pod, node: str, *, fits: bool) -> str:
        """Bind, and see that what happened is what had to happen."""
        meta = pod.metadata
        before = self.pods.stored.get(meta.uid)
        is_fresh = meta.uid not in self.known.binds and not self._is_bound_in_cache(meta.uid)
        problem, is_led = self.kube.problem, self.leads
        error = self.bind(
            ExtenderBindingArgs(pod_name=meta.name, pod_namespace=meta.namespace, pod_uid=meta.uid, node=node)
        ).error
        after = self.pods.stored.get(meta.uid)
        self._learn_what_was_read()
        if not error:
            assert after is not None
            assert after.spec.node_name == node
        else:
            assert after is before or problem == "lost"
        if is_fresh and not fits:
            assert error
            assert after is before
        is_current = before is not None and before.metadata.resource_version == meta.resource_version
        is_waiting = before is not None and before.metadata.deletion_timestamp is None
        if is_fresh and fits and is_current and is_waiting and is_led and problem is None:
            assert not error
        if not is_led and after is not before:
            raise AssertionError("bound while it does not lead")
        return error or f"bound to {node}"

    def _is_bound_in_cache(self, uid: str) -> bool:
        mine = self.known.pods.get(uid)
        return bool(mine and mine.spec.node_name)

    def _learn_what_was_read(self) -> None:
        """Pods that the extender has read by itself, and what it assumes."""
        with self.state.locked() as ledger:
            for uid, pod in self.pods.stored.items():
                if ledger._pods.get(uid) == pod.metadata.resource_version:
                    self.learn(pod)
            self.known.binds = {
                uid: Decided(one.pod, one.node, one.assignment) for uid, one in ledger.assumed.items()
            }

    # --- how it is judged -----------------------------------------------------------------------------
    def _models(self, pod: Pod) -> frozenset[str]:
        """Models that will do: the booking's, or those that it requests; empty for any."""
        uid, pods = pod.metadata.uid, self.known.pods
        self.known.pods = {uid: pod, **pods}
        name = self.known.cover(self.clock.now()).get(uid)
        self.known.pods = pods
        if name:
            return frozenset({self.known.bookings[name].spec.model})
        requested = pod.metadata.annotation(names.MODEL)
        return frozenset(requested.split(",")) if requested else frozenset()

    def _offered(self, pod: Pod, node: str) -> list[Device]:
        """Devices of models that will do that the pod may have of a node; its own bind is not in its way."""
        models, binds = self._models(pod), self.known.binds
        self.known.binds = {uid: bind for uid, bind in binds.items() if uid != pod.metadata.uid}
        try:
            return self._offered_of(pod, node, models)
        finally:
            self.known.binds = binds

    def _offered_of(self, pod: Pod, node: str, models: frozenset[str]) -> list[Device]:
        hold, uid = waiting_hold(pod), pod.metadata.uid
        if hold is None:
            found = self.known.free(node)
        else:
            held, kept = self.known.holders(node), self.known.kept(node)
            inventory = {device.uuid: device for device in self.known.inventory(node)}
            cut = {device.parent for device in inventory.values()}
            found = [inventory[uuid] for uuid in sorted(set(hold.devices)) if uuid in inventory]
            all_theirs = len(found) == len(set(hold.devices)) and all(
                device.health == "healthy"
                and device.uuid not in held
                and device.uuid not in cut
                and kept.get(device.uuid, uid) == uid
                for device in found
            )
            one_kind = len({_resource(device) for device in found}) <= 1
            found = found if all_theirs and one_kind and hold.node == node else []
        return [device for device in found if not models or device.model in models]

    def _fits(self, pod: Pod, node: str) -> bool:
        """Whether there is any way to give the pod what it needs."""
        wanted, hold = used_at_once(pod), waiting_hold(pod)
        if not wanted:
            return True
        stored = self.known.nodes.get(node)
        if stored is None or not self.known.inventory(node) or not self._is_alive(node):
            return False
        if hold and hold.node != node:
            return False
        offered, unknown = self._offered(pod, node), self.known.unknown(node)
        mixes = bool(hold) or len(self._models(pod)) > 1
        return all(
            _most(offered, resource, mixes=mixes) - unknown.get(resource, 0) >= number
            for resource, number in wanted.items()
        )

    def _fullness(self, pod: Pod, node: str) -> int:
        """How full of what is wanted the node would be, in tenths."""
        wanted, models = used_at_once(pod), self._models(pod)
        inventory = self.known.inventory(node)
        cut = {device.parent for device in inventory}

        def count(devices: list[Device], of: str) -> int:
            return sum(
                _resource(d) == of and (not models or d.model in models) and d.uuid not in cut
                for d in devices
            )

        unknown = self.known.unknown(node)
        there = sum(count(list(inventory), of) for of in wanted)
        free = sum(max(0, count(self.known.free(node), of) - unknown.get(of, 0)) for of in wanted)
        return min(10, 10 * (there - free + sum(wanted.values())) // there) if there else 0

    def _check_choice(self, pod: Pod, node: str, *, fits: bool) -> None:
        """What would be chosen now: right in number, kind and model, and the best of all that could be."""
        request = self.state.request(pod)
        with self.state.locked() as ledger:
            view = ledger.view(node)
        try:
            chosen = choose(request, view)
        except NoPlaceError:
            assert not fits
            return
        assert choose(request, view) == chosen
        if fits:
            offered = {device.uuid: device for device in self._offered(pod, node)}
            assert devices_of(chosen) <= offered.keys()
            for resource, number in used_at_once(pod).items():
                mine = [
                    offered[uuid]
                    for uuid in sorted(devices_of(chosen))
                    if _resource(offered[uuid]) == resource
                ]
                assert len(mine) == number
                _check_best(mine, [d for d in offered.values() if _resource(d) == resource])
            _check_containers(pod, chosen)

    def check(self) -> None:
        """Law L1, by what is stored; and what was decided and not seen either happened so or may yet."""
        holders: dict[str, str] = {}
        for uid, pod in self.pods.stored.items():
            if pod.spec.node_name and pod.status.phase not in ENDED:
                for uuid in devices_of(assignment_or_none(pod) or {}):
                    assert holders.setdefault(uuid, uid) == uid, f"{uuid} was given twice"
        for uid, bind in self.known.binds.items():
            pod = self.pods.stored.get(uid)
            text = pod.metadata.annotation(names.ASSIGNED) if pod and pod.spec.node_name else None
            if pod and text:
                assert (pod.spec.node_name, decode_assignment(text)) == (bind.node, bind.assignment)

    def settle(self) -> None:
        """In the end nothing is assumed that did not happen."""
        self.catch_up()
        self.unseen_binds_are_settled(Pick(self))
        with self.state.locked() as ledger:
            for uid, assumption in ledger.assumed.items():
                pod = self.pods.stored[uid]
                assert pod.metadata.resource_version == assumption.pod.metadata.resource_version
        self.check()

    def number(self, most: int) -> int:
        """No choice is made in the end."""
        return min(most, 0)


def _resource(device: Device) -> str:
    profile = device.profile
    return names.GPU_RESOURCE if profile is None else names.MIG_RESOURCE_PREFIX + profile.replace("+", ".")


def _most(offered: list[Device], resource: str, *, mixes: bool) -> int:
    """How many devices of a resource may be had side by side."""
    models = Counter(device.model for device in offered if _resource(device) == resource)
    return models.total() if mixes else max(models.values(), default=0)


def _check_best(chosen: list[Device], offered: list[Device]) -> None:
    """One model if one has enough, of those the one with the fewest; then by links."""
    groups: dict[str, list[Device]] = {}
    for device in offered:
        groups.setdefault(device.model, []).append(device)
    enough = [(len(group), model) for model, group in groups.items() if len(group) >= len(chosen)]
    if not enough or not chosen:
        return
    model = min(enough)[1]
    assert {device.model for device in chosen} == {model}
    group = groups[model]
    if len(chosen) == 1:
        assert links_to(chosen[0], group) == min(links_to(device, group) for device in group)
    elif len(chosen) == 2:
        most = max(links_to(a, [b]) for a, b in combinations(group, 2))
        assert links_to(chosen[0], chosen) == most


def _check_containers(pod: Pod, chosen: Assignment) -> None:
    """Each container has what it requests; only a regular init container shares its devices."""
    passing = {c.name for c in pod.spec.init_containers or () if c.restart_policy != "Always"}
    taken: set[str] = set()
    for container in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())):
        limits = (container.resources.limits if container.resources else None) or {}
        mine = set(chosen.get(container.name, ()))
        assert len(mine) == sum(int(number) for number in limits.values())
        assert not mine & taken
        if container.name not in passing:
            taken |= mine


TestPlacement = by_hypothesis(PlacementMachine, examples=12)


def test_l1_assigned_devices_are_given_and_none_twice_through_a_long_history(
    play: Callable[[type[Machine]], int],
) -> None:
    assert play(PlacementMachine) == length()
