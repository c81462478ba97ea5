"""Planning with claims through long histories: laws L1, L2, L3 and L9, judged by hand (``claims_judge``).

Pods with GPUs, pods with claims of their own, and pods that share claims; claims that are reserved for pods
that are not bound yet, or for nobody; devices that holds keep.
"""

from collections.abc import Callable
from datetime import timedelta
from itertools import chain

from msgspec.structs import replace

from booking.controller.reclaimer.holds.hold_status import hold_status
from booking.controller.reclaimer.planning.node_candidates import PlanningInputs
from booking.controller.reclaimer.planning.plan import Plan, plan
from booking.eviction.holder_cache import HolderCache
from tests.fakes.objects import EPOCH
from tests.properties.claims_judge import Judge
from tests.properties.history import Machine, Pick, by_hypothesis, length, step
from tests.properties.random_claims import ASKS, MODELS, NODES_OF, Claim, ClaimWorld, Somebody

PODS_AT_ONCE = 18
TIMES = 20
"""The history is so many times as long as others: its steps take half a millisecond."""


class ClaimVictimsMachine(Machine):
    """Bookings, pods of alice and bob, a kube-scheduler that is interrupted, and plans after every step."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0
        self._begin()

    def _begin(self) -> None:
        self.world = ClaimWorld()
        self.holder_cache = HolderCache()
        self.inputs = PlanningInputs()
        self.plans: list[Plan] = []
        for number, uuid in enumerate(one.uuid for devices in NODES_OF.values() for one in devices):
            self._run(uuid, number)
        for number, model in enumerate(MODELS):
            self.world.book(f"b{number}", model, 3, EPOCH + timedelta(hours=1))

    def _run(self, uuid: str, number: int) -> None:
        """A pod of bob's has this device; where the node gives it by a claim, there may be two."""
        node, claim = uuid.split("-")[1], Claim(self._name("c"), devices=(uuid,))
        pods = [
            Somebody(self._name("p"), "bob", EPOCH, node=node) for _ in range(1 + (node != "n2") * number % 2)
        ]
        for one, pod in enumerate(pods):
            pod.since = EPOCH - timedelta(minutes=7 * number % 5 + 3 * one)
            pod.claims = (claim.name,) if node != "n2" else ()
            pod.gpus, pod.devices = (0, ()) if pod.claims else (1, (uuid,))
            claim.users.add(pod.name)
            self.world.write(pod)
        if node != "n2":
            self.world.write_claim(claim)

    def _name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}{self.number:03}"

    # --- users -------------------------------------------------------------------------------------------
    @step(5)
    def a_pod_is_created(self, pick: Pick) -> str:
        world, now = self.world, self.world.clock.now()
        if len(world.pods) >= PODS_AT_ONCE:
            return f"there are too many: {self.a_pod_is_deleted(pick)} goes"
        who, kind, evictions, stays, another = pick.many(2, 10, 3, 12, 4)
        born = now - timedelta(seconds=another)
        pod = Somebody(self._name("p"), ("alice", "bob")[who], born, evictions=evictions)
        pod.stays = stays == 11
        if kind == 0:
            pod.gpus = 1 + another % 2
        own = [self._claim(pick) for _ in range((0, 1, 1, 1, 2, 1, 0, 0, 0, 0)[kind])]
        joined = [pick.one(sorted(world.claims))] if world.claims and kind > 4 else []
        pod.claims = tuple(dict.fromkeys(own + joined))
        world.write(pod)
        for claim in [world.claims[name] for name in joined if kind > 7 and world.claims[name].devices]:
            claim.users.add(pod.name)  # kube-scheduler was quick
            world.write_claim(claim)
        return f"{pod.name} of {pod.user} for {pod.gpus} and {pod.claims}"

    def _claim(self, pick: Pick) -> str:
        asks, many = pick.many(10, 3)
        claim = Claim(self._name("c"), (*("any",) * 6, *ASKS)[asks], 2 if many == 2 else 1)
        self.world.write_claim(claim)
        return claim.name

    @step(2)
    def a_pod_is_deleted(self, pick: Pick) -> str:
        pods = [pod for pod in self.world.pods.values() if not pod.going]
        if not pods:
            return "none"
        pod = pick.one(pods)
        self._delete(pod)
        return pod.name

    def _delete(self, pod: Somebody) -> None:
        pod.going = self.world.clock.now() + timedelta(seconds=30)
        self.world.write(pod, gone=not pod.node)

    @step(2)
    def alice_books(self, pick: Pick) -> str:
        name, model, count, lasts = pick.many(3, 3, 4, 3)
        end = self.world.clock.now() + timedelta(minutes=(60, 10, 0)[lasts])
        self.world.book(f"b{name}", MODELS[model], 1 + count, end)
        return f"b{name}: {1 + count} x {MODELS[model]} until {end}"

    # --- Kubernetes --------------------------------------------------------------------------------------
    @step(6)
    def the_scheduler_works(self, pick: Pick) -> str:
        return ", ".join(self._place(pod, pick) for pod in list(self.world.pods.values()) if not pod.node)

    def _place(self, pod: Somebody, pick: Pick) -> str:
        """Allocate, reserve and bind; it may be interrupted in between."""
        world, claims, missing = (
            self.world,
            [self.world.claims[name] for name in pod.claims],
            self.world.missing(pod),
        )
        had = {uuid for claim in claims for uuid in claim.devices}
        there = {uuid.split("-")[1] for uuid in had}
        if len(there) > 1 or not had.isdisjoint(world.kept(pod.name)):
            return f"{pod.name} cannot be bound, or would join those who leave"
        for node in sorted(there or NODES_OF):
            free = iter(self._free(pod, node))
            given = [[next(free, "") for _ in range(claim.count)] for claim in missing]
            own = tuple(next(free, "") for _ in range(pod.gpus))
            if "" in chain(own, *given):
                continue
            how = pick.one(("bound",) * 4 + ("reserved", "reserved", "allocated")) if claims else "bound"
            for claim, devices in zip(missing, given, strict=True):
                claim.devices = tuple(devices)
            for claim in claims:
                claim.users |= {pod.name} if how != "allocated" else set()
                world.write_claim(claim)
            if how == "bound":
                pod.node, pod.devices, pod.hold, pod.since = node, own, None, world.clock.now()
                world.write(pod)
            return f"{pod.name} is {how} on {node}"
        return f"{pod.name} waits"

    def _free(self, pod: Somebody, node: str) -> list[str]:
        """What kube-scheduler may give the pod on a node."""
        world, wanted = self.world, [ASKS[claim.asks][1] for claim in self.world.missing(pod)]
        return [
            one.uuid
            for one in NODES_OF[node]
            if (node == "n2") == bool(pod.gpus) and all(accepts and accepts(one) for accepts in wanted)
            if one.uuid not in world.kept(pod.name) and not world.is_had(one.uuid)
            if not pod.hold or one.uuid in pod.hold.devices
        ]

    @step(2)
    def kubelets_work(self, _pick: Pick) -> None:
        for pod in [pod for pod in self.world.pods.values() if pod.going]:
            self.world.write(pod, gone=True)

    @step(3)
    def claims_are_taken_back(self, pick: Pick) -> None:
        """Of pods that are gone; and now and then those that nobody has reserved."""
        world, is_all = self.world, pick.chance(3)
        for claim in list(world.claims.values()):
            users = claim.users & world.pods.keys()
            if users != claim.users or (is_all and claim.devices and not users):
                claim.devices, claim.users = claim.devices if users else (), users
                world.write_claim(claim)
            if not claim.devices and not any(claim.name in pod.claims for pod in world.pods.values()):
                world.write_claim(claim, gone=True)

    @step()
    def a_pod_gives_up_what_is_reserved_for_it(self, pick: Pick) -> str:
        """kube-scheduler could not bind it: the claims stay allocated."""
        pods = [pod for pod in self.world.pods.values() if not pod.node]
        name = pick.one(pods).name if pods else ""
        for claim in self.world.claims.values():
            if name in claim.users:
                claim.users.discard(name)
                self.world.write_claim(claim)
        return name

    @step(2)
    def time_passes(self, pick: Pick) -> str:
        seconds = pick.one((7, 61, 400))
        self.world.pass_time(seconds)
        return f"{seconds} seconds"

    # --- the reclaimer -----------------------------------------------------------------------------------
    @step(3)
    def its_plans_are_written(self, pick: Pick) -> str:
        made = [one for one in self.plans if not pick.chance(3)]
        for one in made:
            pod = self.world.pods[one.pod.metadata.uid]
            pod.hold = one.hold
            self.world.write(pod)
        return str([one.hold for one in made])

    @step(3)
    def victims_leave(self, _pick: Pick) -> str:
        """All who have what a hold keeps, as far as the hold is good."""
        messages, world = [], self.world
        for pod in [pod for pod in world.pods.values() if pod.hold]:
            seen = world.instant()
            assert pod.hold
            status = hold_status(seen.pods[pod.name], pod.hold, seen)
            victims = {victim.metadata.uid for victim in status.victims}
            if status.problem:
                pod.hold = None
                world.write(pod)
            elif victims:
                having = [one for uuid in pod.hold.devices for one in world.users_of(uuid) if not one.going]
                assert {one.name for one in having} == victims, "some would stay, and their device with them"
                assert not any(name in seen.cover or world.pods[name].stays for name in victims)
            for name in sorted(victims):
                self._delete(world.pods[name])
            messages.append(f"{pod.name}: {status.problem or sorted(victims)}")
        return "; ".join(messages)

    @step()
    def some_are_protected_or_end(self, pick: Pick) -> str:
        """By budgets, or with their bookings."""
        names = sorted(self.world.pods)[:12]
        excluded = frozenset(pick.some(names)) if pick.chance(2) else frozenset[str]()
        ending = frozenset({pick.one(names)} if names and pick.chance(3) else ())
        self.inputs = PlanningInputs(excluded=excluded, ending=ending - excluded)
        return f"{self.inputs}"

    @step()
    def they_are_in_another_cluster(self, pick: Pick) -> str:
        """One that is full: what has run for long is rarely contended."""
        if not pick.chance(4):
            return "not yet"
        self._begin()
        return "now"

    # --- how it is judged --------------------------------------------------------------------------------
    @step(2)
    def another_process_plans_the_same(self, pick: Pick) -> None:
        """Law L9: whatever it was told first."""
        world = self.world
        order = sorted(world.raws, key=lambda key: key[1][::-1], reverse=pick.chance(2))
        cut = pick.between(0, len(order))
        made = plan(world.instant(world.begun(order[cut:] + order[:cut])), self.inputs)
        assert [_said(one) for one in made] == [_said(one) for one in self.plans]

    def check(self) -> None:
        seen = self.world.instant()
        for view, _ in seen.node_snapshots.values():
            assert view.conflicts == ()
            for device in view.devices:
                assert view.is_unheld(device.uuid) != self.world.is_had(device.uuid), device.uuid
        self.plans = plan(seen, self.inputs, self.holder_cache)
        Judge(self.world, dict(seen.cover), self.inputs).judge(self.plans)


def _said(one: Plan) -> tuple[object, ...]:
    return one.pod.metadata.uid, replace(one.hold, state=None), one.lost, one.at_once


TestClaimVictims = by_hypothesis(ClaimVictimsMachine, examples=6)


def test_l3_nobody_leaves_in_vain_for_claims_through_a_long_history(
    play: Callable[..., int],
) -> None:
    assert play(ClaimVictimsMachine, TIMES) == TIMES * length()
