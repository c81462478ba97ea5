"""Law L3: the fast search finds what trying out everything finds, though it reads only what has changed."""

from datetime import timedelta
from random import Random
from typing import Any, Final

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from booking.controller.reclaimer.planning.node_candidates import PlanningInputs
from booking.controller.reclaimer.planning.plan import Plan, plan
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot, take
from booking.eviction.holder_cache import HolderCache
from booking.eviction.settings import EvictionSettings
from cluster import names
from cluster.cache import ClusterCache
from cluster.fake.clock import FakeClock
from cluster.fake.merging import merged
from cluster.kube import resources
from cluster.kube.resources import BOOKINGS, LEASES, NAMESPACES, PODS
from cluster.objects.jobs import Job
from cluster.objects.namespaces import Namespace
from cluster.objects.nodes import Node
from cluster.objects.pods import Pod
from tests.booking.controller.reclaimer.planning.exhaustive_planner import Everything
from tests.fakes.objects import A100, A6000, EPOCH, a100, a6000, a_booking, a_lease, a_node, a_pod

NODES: Final = 4
CONTROLLERS: Final = (
    ("batch/v1", "Job"),
    ("batch/v1", "Job"),
    ("kubeflow.org/v1", "PyTorchJob"),
    ("x/v1", "X"),
)
TERMS: Final = EvictionSettings(restart_cost_seconds=60)


class World:
    """A cache to which random things happen."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.clock = FakeClock(EPOCH)
        self.cache = ClusterCache(self.clock)
        self.cache.keep_scheduling_objects()
        self.version = 100
        self.created = 0
        self.nodes = {f"n{index}": self._a_node(f"n{index}") for index in range(NODES)}
        for count, model in ((6, A100), (3, A6000)):
            self.cache.of(BOOKINGS).upsert(a_booking(f"b-{model}", model=model, count=count))

        for number in range(len(CONTROLLERS)):
            self._job(f"c{number}")

    def _job(self, name: str) -> None:
        """A Job, with another number of failures left than before."""
        meta = {"name": name, "uid": name, "namespace": self.random.choice(("default", "calm"))}
        spec = {"backoffLimit": self.random.randrange(4), "parallelism": self.random.choice((1, 4))}
        self.cache.of(resources.JOBS).upsert(msgspec.convert({"metadata": meta, "spec": spec}, Job))

    def _a_node(self, name: str) -> Node:
        devices = [self.random.choice((a100, a100, a6000))(index, name) for index in range(4)]
        raw = msgspec.to_builtins(a_node(name, *devices))
        status = {"allocatable": {"cpu": self.random.choice(("8", "16", "64")), "pods": "9"}}
        labels = {"zone": name[-1] if self.random.random() < 0.5 else "0", "name": name}
        node = msgspec.convert(merged(raw, {"metadata": {"labels": labels}, "status": status}), Node)
        self.cache.of(resources.NODES).upsert(node)
        self.cache.of(LEASES).upsert(a_lease(name))
        return node

    def update(self, raw: dict[str, Any]) -> None:
        """A pod has changed."""
        self.version += 1
        raw = merged(raw, {"metadata": {"resourceVersion": str(self.version)}})
        self.cache.of(PODS).upsert(msgspec.convert(raw, Pod))

    def a_pod(self, user: str, gpus: int) -> dict[str, Any]:
        """With some CPU, and sometimes with rules about its neighbours."""
        self.created += 1
        raw = a_pod(f"p{self.created}").of(user).asks(gpus).created(self.clock.now()).raw
        raw["metadata"]["labels"] = {"app": self.random.choice("ab")}
        raw["spec"]["containers"][0]["resources"]["requests"] = {"cpu": self.random.choice("0246")}
        if self.random.random() < 0.3:
            some = self.random.sample([f"GPU-n{n}-{index}" for n in range(NODES) for index in range(4)], 5)
            raw["metadata"]["annotations"][self.random.choice((names.UUID, names.NOT_UUID))] = ",".join(some)
        kin = {"labelSelector": {"matchLabels": raw["metadata"]["labels"]}, "topologyKey": "name"}
        match self.random.randrange(8):
            case 0:
                raw["spec"]["nodeSelector"] = {"zone": "0"}
            case 1:
                raw["spec"]["affinity"] = {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [kin]}
                }
            case 2:
                other = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
                raw["spec"]["affinity"] = {
                    "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [other]}
                }
            case 3:
                spread = {**kin, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
                raw["spec"]["topologySpreadConstraints"] = [spread]
            case _:
                pass
        return raw

    def happens(self) -> None:
        """Something."""
        match self.random.randrange(9):
            case 0 | 1 | 2:
                self._bound()
            case 3 | 4:
                self.update(self.a_pod("alice", self.random.randint(1, 3)))
            case 5:
                self._leaves()
            case 6:
                self.clock.advance(self.random.choice((0, 7, 3600)))
                for name in self.nodes:
                    self.cache.of(LEASES).upsert(
                        a_lease(name, renewed=self.clock.now(), version=self.version)
                    )
            case 7:
                self._namespace()
                self._job(f"c{self.random.randrange(len(CONTROLLERS))}")
            case _:
                self._changes()

    def _bound(self) -> None:
        name = self.random.choice(list(self.nodes))
        ((view, _),) = self.cache.snapshot([name])
        free = [device.uuid for device in view.devices if not view.holders(device.uuid)]
        if free:
            mine = self.random.sample(free, self.random.randint(1, len(free)))
            raw = self.a_pod(self.random.choice(("bob", "bob", "bob", "alice")), len(mine))
            raw["metadata"]["annotations"] |= a_pod().on(name, {"main": tuple(mine)}).annotations
            raw["metadata"]["namespace"] = self.random.choice(("default", "calm", "kube-system"))
            if self.random.random() < 0.5:
                number = self.random.randrange(len(CONTROLLERS))
                version, kind = CONTROLLERS[number]
                owner = {"apiVersion": version, "kind": kind, "name": f"c{number}", "uid": f"c{number}"}
                raw["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
            raw["spec"]["nodeName"] = name
            started = self.clock.now() - timedelta(seconds=self.random.choice((0, 60, 60, 500)))
            raw["status"] = {"startTime": started} if self.random.random() < 0.8 else {}
            self.update(raw)

    def _leaves(self) -> None:
        pods = list(self.cache.pods.values())
        if pods:
            raw = msgspec.to_builtins(self.random.choice(pods))
            if self.random.random() < 0.5:
                self.update(merged(raw, {"metadata": {"deletionTimestamp": "2026-11-23T09:00:00Z"}}))
            else:
                self.update(merged(raw, {"status": {"phase": "Succeeded"}}))

    def _changes(self) -> None:
        pods = list(self.cache.pods.values())
        if pods:
            key, value = self.random.choice(
                (
                    (names.CHECKPOINT_AT, (self.clock.now() - timedelta(seconds=30)).isoformat()),
                    (names.CHECKPOINT_DONE, (self.clock.now() + timedelta(seconds=5)).isoformat()),
                    (names.EVICTIONS, "2"),
                    (names.BARRED, "n0"),
                )
            )
            raw = msgspec.to_builtins(self.random.choice(pods))
            self.update(merged(raw, {"metadata": {"annotations": {key: value}}}))

    def _namespace(self) -> None:
        annotations = {names.NEVER_EVICT: self.random.choice(("true", "no"))}
        raw = {"metadata": {"name": "calm", "uid": "c", "annotations": annotations}}
        self.cache.of(NAMESPACES).upsert(msgspec.convert(raw, Namespace))

    def write(self, made: list[Plan]) -> None:
        """The holds, as the reclaimer would."""
        for one in made:
            raw = msgspec.to_builtins(one.pod)
            text = msgspec.json.encode(one.hold).decode()
            self.update(merged(raw, {"metadata": {"annotations": {names.HOLD: text}}}))


def tried_out(snapshot: ReclaimerSnapshot, inputs: PlanningInputs) -> list[Plan]:
    """The plan when every set on every node is tried."""
    return plan(snapshot, inputs, search=Everything)


@settings(max_examples=12)
@given(st.randoms(use_true_random=True))
def test_l3_the_fast_search_finds_the_same_plan_as_trying_everything(random: Random) -> None:
    world, holder_cache = World(random), HolderCache()
    for _ in range(50):
        world.happens()
        snapshot = take(world.cache, world.clock, TERMS)
        uids = sorted(snapshot.pods)
        inputs = PlanningInputs(
            excluded=frozenset(uid for uid in uids if random.random() < 0.05),
            ending=frozenset(uid for uid in uids if random.random() < 0.05),
        )
        made = plan(snapshot, inputs, holder_cache)
        assert made == plan(snapshot, inputs) == tried_out(snapshot, inputs)
        if random.random() < 0.3:
            world.write(made)
