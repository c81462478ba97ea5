"""Any history of admissions: the right pod is found, assignments are kept, nothing is shared (law L1)."""

import json
from functools import partial
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cluster import names
from cluster.objects.inventory import Device
from cluster.objects.pods import Container, Pod
from deviceplugin.allocation import best_effort
from deviceplugin.allocation.link_scores import scores
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.allocation.preferred import (
    AllocationRequest,
    NodeState,
    Pick,
    Verdict,
    choose,
    in_order,
)
from tests.deviceplugin.pods import GPU, container, pod

DEVICES = tuple(f"GPU-{i}" for i in range(6))
TERMINAL = ("Failed", "Succeeded")
LINKED = tuple(
    Device(uuid=uuid, index=i, model="X", links={DEVICES[(i + 2) % 6]: 4, DEVICES[(i + 3) % 6]: 12})
    for i, uuid in enumerate(DEVICES)
)
PICKS: tuple[Pick, ...] = (in_order, partial(best_effort.best_effort, scores(LINKED, {})))


class Kubelet(RuleBasedStateMachine):
    """The device manager of kubelet 1.37.1, which asks ``choose`` at each allocation."""

    def __init__(self) -> None:
        super().__init__()
        self.pick: Pick = in_order
        self.pods: dict[str, Pod] = {}
        self.held: dict[tuple[str, str], frozenset[str]] = {}
        """In memory and, as it is written at each allocation, on disk."""
        self.allocated: set[str] = set()
        self.wronged: set[str] = set()
        self.number = 0
        self.doubled = False

    @initialize(ghosts=st.integers(0, 2), pick=st.sampled_from(PICKS))
    def pods_that_run_without_their_devices(self, ghosts: int, pick: Pick) -> None:
        self.pick = pick
        for i in range(ghosts):
            self.pods[f"ghost-{i}"] = pod(
                f"ghost-{i}", assignment=[DEVICES[i]], phase="Running", started=True
            )

    @rule(
        inits=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=2),
        apps=st.lists(st.integers(0, 2), min_size=1, max_size=2),
        order=st.permutations(DEVICES),
        deleting=st.booleans(),
    )
    def a_pod_is_bound_and_admitted(
        self, inits: list[tuple[int, bool]], apps: list[int], order: list[str], *, deleting: bool
    ) -> None:
        self.number += 1
        uid = f"uid-{self.number}"
        del deleting
        init = tuple(container(f"init-{i}", n, sidecar=sidecar) for i, (n, sidecar) in enumerate(inits))
        app = tuple(container(f"app-{i}", n) for i, n in enumerate(apps))
        assignment = self._assignment(init, app, order)
        self.pods[uid] = pod(uid, assignment=assignment, init=init, app=app)
        accepted = self._admit(uid, (*init, *app), assignment or {})
        phase = "Running" if accepted else "Failed"
        self.pods[uid] = pod(uid, assignment=assignment, init=init, app=app, phase=phase, started=accepted)

    @precondition(lambda self: self._living())
    @rule(data=st.data(), phase=st.sampled_from(TERMINAL))
    def a_pod_ends(self, data: st.DataObject, phase: str) -> None:
        uid = data.draw(st.sampled_from(sorted(self._living())))
        was = self.pods[uid]
        self.pods[uid] = pod(uid, init=was.spec.init_containers or (), app=was.spec.containers, phase=phase)

    @rule()
    def ended_pods_are_forgotten(self) -> None:
        self.pods = {uid: one for uid, one in self.pods.items() if one.status.phase not in TERMINAL}

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def somebody_lists_during_an_allocation(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted({uid for uid, _ in self.held})))
        for (holder, _), devices in self.held.items():
            if holder == uid:
                self.allocated -= devices
        self.doubled = True

    @invariant()
    def no_device_is_held_by_two_living_pods(self) -> None:
        living = self._living()
        owners: dict[str, str] = {}
        for (uid, _), devices in self.held.items():
            for device in devices if uid in living else ():
                assert owners.setdefault(device, uid) == uid

    # --- the kubelet ----------------------------------------------------------------------------------------

    def _living(self) -> set[str]:
        return {uid for uid, one in self.pods.items() if one.status.phase not in TERMINAL}

    def _assignment(
        self, init: tuple[Container, ...], app: tuple[Container, ...], order: list[str]
    ) -> dict[str, list[str]] | None:
        """What an extender that knows the node would assign: devices that no pod has or was assigned."""
        living = self._living()
        taken = {device for (uid, _), devices in self.held.items() if uid in living for device in devices}
        for uid in living:
            text = (self.pods[uid].metadata.annotations or {}).get(names.ASSIGNED, "{}")
            taken |= {device for devices in json.loads(text).values() for device in devices}
        free = [device for device in order if device not in taken]
        assignment: dict[str, list[str]] = {}
        reusable: list[str] = []
        for one in (*init, *app):
            size = self._size(one)
            again = sorted(reusable)[:size]
            new, free = free[: size - len(again)], free[size - len(again) :]
            if len(again) + len(new) < size:
                return None
            if size:
                assignment[one.name] = again + new
            if one in init and not one.is_sidecar:
                reusable += new
            else:
                reusable = [device for device in reusable if device not in again]
        return assignment

    def _admit(self, uid: str, containers: tuple[Container, ...], assignment: dict[str, list[str]]) -> bool:
        reusable: set[str] = set()
        for one in containers:
            if not (size := self._size(one)):
                continue
            active = self._living()
            if not {holder for holder, _ in self.held} <= active:
                self.held = {place: ids for place, ids in self.held.items() if place[0] in active}
                self.allocated = {device for ids in self.held.values() for device in ids}
            got = self._allocate(uid, one.name, size, reusable)
            if got is None:
                self.allocated = {device for ids in self.held.values() for device in ids}
                return False
            self.held[uid, one.name] = got
            if assignment and not self.doubled:
                assert got == set(assignment[one.name])
            if one.name.startswith("init") and not one.is_sidecar:
                reusable |= got
            else:
                reusable -= got
        return True

    def _allocate(self, uid: str, name: str, size: int, reusable: set[str]) -> frozenset[str] | None:
        chosen = set(sorted(reusable)[:size])
        if len(chosen) == size:
            return frozenset(chosen)
        available = set(DEVICES) - self.allocated - chosen
        if len(available) < size - len(chosen):
            return None
        view = NodeState(GPU, PodDevices(dict(self.held)), tuple(self.pods.values()), pick=self.pick)
        choice = choose(AllocationRequest(frozenset(available | chosen), frozenset(chosen), size), view)
        if choice.verdict is Verdict.REFUSED:
            assert self.doubled, "a pod was refused without any fault of the kubelet"
            return None
        assert choice.pod is not None, choice
        assert (choice.pod.metadata.uid, choice.container) == (uid, name)
        assert chosen <= set(choice.devices) <= available | chosen
        assert len(set(choice.devices)) == size
        self.allocated |= set(choice.devices)
        return frozenset(choice.devices)

    @staticmethod
    def _size(one: Container) -> int:
        limits: dict[str, Any] = dict((one.resources.limits if one.resources else None) or {})
        return int(limits.get(GPU, 0))


TestKubelet = Kubelet.TestCase
TestKubelet.settings = settings(max_examples=150, stateful_step_count=25)


@settings(max_examples=400)
@given(
    available=st.frozensets(st.sampled_from(DEVICES), min_size=1),
    data=st.data(),
)
def test_the_answer_is_always_complete_and_within_the_offer(
    available: frozenset[str], data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, len(available)))
    must = data.draw(st.frozensets(st.sampled_from(sorted(available)), max_size=size))
    uids = [f"u{i}" for i in range(4)]
    holdings = data.draw(
        st.none()
        | st.dictionaries(
            st.tuples(st.sampled_from(uids), st.sampled_from(["main", "side"])),
            st.frozensets(st.sampled_from(DEVICES), max_size=2),
            max_size=5,
        ).map(PodDevices)
    )
    some = st.builds(
        pod,
        st.sampled_from(uids),
        st.integers(0, 3),
        assignment=st.none() | st.lists(st.sampled_from(DEVICES), max_size=3, unique=True),
        phase=st.sampled_from(["Pending", "Running", *TERMINAL]),
        started=st.booleans(),
    )
    pods = data.draw(st.none() | st.lists(some, max_size=4, unique_by=lambda p: p.metadata.uid).map(tuple))
    pick = data.draw(st.sampled_from(PICKS))
    view = NodeState(GPU, holdings, pods, remembered=data.draw(st.booleans()), pick=pick)
    choice = choose(AllocationRequest(available, must, size), view)
    if not choice.devices:
        assert choice.message
        if choice.verdict is Verdict.AMBIGUOUS:
            assert any(one.metadata.annotation(names.ASSIGNED) for one in pods or ())
        else:
            assert choice.verdict in {Verdict.REFUSED, Verdict.PODS_UNAVAILABLE, Verdict.NO_CHECKPOINT}
    else:
        assert len(set(choice.devices)) == size
        assert must <= set(choice.devices) <= available
