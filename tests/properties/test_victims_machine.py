"""Reclaiming through long histories, on a random cluster: laws L1, L2, L3, L6, and all is served in the end.

Every hold that is written from a cache which is not behind is judged by trying out all sets of victims: one
that was listed, or one fed by watches which repeat, reorder and lose (``reclaimer_watches``).
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from itertools import chain
from typing import Final

import msgspec

from booking.controller.reclaimer.holds.barred_nodes import BARRED_FOR
from booking.controller.reclaimer.planning.waiting_pod import barred
from booking.controller.reclaimer.snapshot import ReclaimerSnapshot
from cluster import names
from cluster.kube.errors import Conflict, NotFound, Refusal, Request, Unreachable
from cluster.objects.hold import Hold
from cluster.objects.inventory import Device
from cluster.objects.pods import Pod
from tests.fakes.objects import A100, A6000, a100, a_booking, a_pod
from tests.properties.history import Machine, Pick, by_hypothesis, length, step
from tests.properties.reclaimer_watches import ReclaimerWatches
from tests.properties.reference import used_at_once, waiting_hold
from tests.properties.victims_judge import Blocked, at_some_time, options_on, tried_holds, tried_instead
from tests.properties.world import MODELS, USERS

NODES: Final = ("n0", "n1", "n2")
PODS_AT_ONCE: Final = 16
LOST: Final = Unreachable(Request("PATCH", "/"), "connection refused")
REFUSED: Final = Conflict(Request("PATCH", "/"), Refusal(code=409, reason="Conflict"))


class VictimsMachine(ReclaimerWatches):
    """Three nodes, bookings of both users, pods that are booked or not, and everything that goes wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.created = self.booked = 0
        self.steps_taken = 0
        self.is_disturbed = False
        """A failure or a race waits for the next call."""
        for name in NODES[:2]:
            self.cluster.settle_node(name, tuple(a100(index, name) for index in range(4)))
        self.cluster.settle_node("n2", _random_devices("n2", (0, 1, 1, 0)))
        self.cluster.book("b0", count=3)
        self.cluster.sync()

    # --- users -------------------------------------------------------------------------------------------
    @step(5)
    def a_user_creates_a_pod(self, pick: Pick) -> str:
        living = self.cluster.living()
        if len(living) >= PODS_AT_ONCE:
            gone = [pod.metadata.name for pod in pick.some(living[:12]) or living[:1]]
            for name in gone:
                self.cluster.delete(name)
            return f"{gone} are deleted"
        self.created += 1
        who, gpus, more, requested, late = pick.many(3, 4, 6, 8, 3)
        builder = a_pod(f"p{self.created}").of(USERS[who == 2]).asks((1, 1, 2, 3)[gpus])
        if more == 5:
            builder = builder.init("setup", 1 + gpus % 2)
        if requested > 4:
            builder = builder.wants(*((A100,), (A100, A6000), (A6000,))[requested - 5])
        if late == 2:
            saved = self.cluster.clock.now() + timedelta(minutes=pick.between(-30, 30))
            builder = builder.with_annotation(names.CHECKPOINT_AT, saved.isoformat())
        if gpus == 1 and who:
            builder = builder.with_annotation(names.EVICTIONS, str(more))
        self.cluster.enter(builder)
        return f"{builder.name} of {USERS[who == 2]} for {(1, 1, 2, 3)[gpus]}"

    @step(2)
    def bob_takes_what_is_free(self, pick: Pick) -> str:
        """As the opportunistic do: so that booked pods find nothing."""
        if len(self.cluster.living()) >= PODS_AT_ONCE:
            return "there are too many pods"
        free = [
            device
            for view, _ in self.cluster.instant().node_snapshots.values()
            for models in view.free_by_model.values()
            for devices in models.values()
            for device in devices
        ]
        for device in free:
            self.created += 1
            self.cluster.enter(a_pod(f"p{self.created}").of("bob").asks(1).wants(device.model))
        self.the_scheduler_works(pick)
        return f"{len(free)}, the last is p{self.created}"

    @step()
    def a_user_deletes_a_pod(self, pick: Pick) -> str:
        living = self.cluster.living()
        name = pick.one(living).metadata.name if living else "none"
        self.cluster.delete(name)
        return name

    @step(2)
    def somebody_books(self, pick: Pick) -> str:
        self.cluster.forget_bookings_over()
        self.booked += 1
        who, model, count, begins, lasts = pick.many(4, 3, 4, 3, 4)
        name = f"b{self.booked}"
        start = self.cluster.clock.now() + timedelta(seconds=(0, 0, 90)[begins])
        booking = a_booking(
            name,
            user=USERS[who == 3],
            model=MODELS[model == 2],
            count=1 + count,
            start=start,
            end=start + timedelta(seconds=(86_400, 3_600, 600, 60)[lasts]),
        )
        if not self._can_be_had(booking.spec.model, booking.spec.count):
            return f"{name} would be too much"
        spec = booking.spec
        self.cluster.book(
            name, user=spec.user, model=spec.model, count=spec.count, start=spec.start, end=spec.end
        )
        return f"{name}: {spec.count} x {spec.model} from {spec.start} to {spec.end}"

    def _can_be_had(self, model: str, count: int) -> bool:
        """Whether what is planned can be kept, were all devices well."""
        there = sum(device.model == model for devices in self.cluster.devices.values() for device in devices)
        booked = sum(
            each.spec.count
            for each in self.cluster.instant().bookings.values()
            if each.spec.model == model and each.spec.end > self.cluster.clock.now()
        )
        return booked + count <= there

    @step()
    def a_booking_is_released(self, pick: Pick) -> str:
        names_of = sorted(self.cluster.instant().bookings)
        name = pick.one(names_of) if names_of else "none"
        self.cluster.release(name)
        return name

    # --- nodes -------------------------------------------------------------------------------------------
    @step()
    def a_node_is_closed_or_opened(self, pick: Pick) -> str:
        name, how = pick.one(NODES), pick.one(("open",) * 6 + ("cordoned", "tainted"))
        self.cluster.close_node(name, how)
        return f"{name} is {how}"

    @step()
    def a_device_fails_or_recovers(self, pick: Pick) -> str:
        name = pick.one(NODES)
        devices = list(self.cluster.devices[name])
        place, unhealthy = pick.between(0, len(devices) - 1), pick.chance(3)
        devices[place] = msgspec.structs.replace(
            devices[place], health="unhealthy" if unhealthy else "healthy"
        )
        self.cluster.publish(name, tuple(devices))
        return f"{devices[place].uuid} is {devices[place].health}"

    @step()
    def an_agent_goes_or_comes(self, pick: Pick) -> str:
        name, how = pick.one(NODES), pick.one((0, 0, 0, 0, 1, 2))
        for unresponsive in set(NODES) - self.cluster.responsive_nodes:
            self.cluster.start_agent(unresponsive)
        if how:
            (self.cluster.lose_agent if how == 1 else self.cluster.stop_agent)(name)
        return f"{name} is {('well', 'unresponsive', 'stopping')[how]}"

    # --- the parts ---------------------------------------------------------------------------------------
    @step(4)
    def the_scheduler_works(self, _pick: Pick) -> None:
        with suppress(Conflict, NotFound):
            self.cluster.schedule()

    @step(3)
    def kubelets_work(self, _pick: Pick) -> None:
        self.cluster.run_kubelets()

    @step(8)
    def a_pass(self, pick: Pick) -> str:
        """On a cache that has caught up."""
        self.cluster.sync()
        return self._pass_after_events(pick)

    def _pass_after_events(self, pick: Pick) -> str:
        message = self._pass(is_current=True)
        if self.is_disturbed and not pick.chance(4):
            self._calm()
        return message

    @step()
    def a_pass_that_lags(self, _pick: Pick) -> str:
        return self._pass(is_current=False)

    @step(4)
    def time_passes(self, pick: Pick) -> str:
        seconds = pick.one((1, 3, 3, 3, 11, 11, 45, 130))
        self.cluster.pass_time(seconds)
        return f"{seconds} seconds"

    @step(3)
    def everybody_works_for_a_while(self, pick: Pick) -> str:
        """Nothing unexpected: a hold is written, stays, its victims leave, its pod is bound."""
        messages = []
        for _ in range(3):
            self.cluster.pass_time(2.5)
            messages.append(self.a_pass(pick))
            self.kubelets_work(pick)
            self.the_scheduler_works(pick)
            self.check()
        return "; ".join(messages)

    @step()
    def another_process_goes_on(self, _pick: Pick) -> None:
        self.cluster.restart()
        self.cluster.sync()

    # --- what goes wrong ---------------------------------------------------------------------------------
    @step()
    def a_call_will_fail(self, pick: Pick) -> str:
        what, error = pick.one(("a write", "an eviction")), pick.one((LOST, REFUSED))
        if what == "a write":
            self.cluster.kube.fail("PATCH", error)
        else:
            self.cluster.evictor.failing.append(error)
        self.is_disturbed = True
        return f"{what}: {error}"

    @step()
    def an_answer_will_be_lost(self, _pick: Pick) -> None:
        self.cluster.kube.lose("PATCH")
        self.is_disturbed = True

    @step()
    def somebody_will_come_between(self, pick: Pick) -> str:
        verb, what = pick.one(("GET", "PATCH")), pick.one(("scheduler", "kubelets", "user", "release"))
        living = self.cluster.living()
        name = pick.one(living).metadata.name if living else "none"
        rivals: dict[str, Callable[[], object]] = {
            "scheduler": self.cluster.schedule,
            "kubelets": self.cluster.run_kubelets,
            "user": lambda: self.cluster.delete(name),
            "release": lambda: self.cluster.release(f"b{self.booked}"),
        }
        self.cluster.kube.before(verb, rivals[what])
        self.is_disturbed = True
        return f"{what} before {verb}"

    @step()
    def a_budget_protects_or_not(self, pick: Pick) -> str:
        living = self.cluster.living()
        protected = {pick.one(living).metadata.name} if living and pick.chance(2) else set()
        self.cluster.evictor.protected = protected
        return str(protected)

    @step()
    def it_may_act_or_not(self, pick: Pick) -> str:
        leads, knows = not pick.chance(10), not pick.chance(10)
        self.cluster.leads, self.cluster.unready_reason = leads, None if knows else "there are no events"
        return f"leads: {leads}, knows: {knows}"

    @step()
    def the_mirror_works_or_not(self, pick: Pick) -> str:
        well = not pick.chance(3)
        self.cluster.mirror(well=well)
        return str(well)

    @step()
    def everything_calms_down(self, pick: Pick) -> str:
        """Now and then nothing goes wrong for long enough: what is true in the end is true then."""
        if not pick.chance(4):
            return "not yet"
        self.settle(budgets=pick.chance(2))
        return "and everybody is served"

    def _calm(self) -> None:
        """What waits to go wrong does not."""
        self.cluster.kube.calm()
        self.cluster.evictor.failing.clear()
        self.is_disturbed = False

    # --- how it is judged --------------------------------------------------------------------------------
    def _pass(self, *, is_current: bool) -> str:
        cluster = self.cluster
        before, disturbed = cluster.instant(), self.is_disturbed
        version, left = cluster.version, len(cluster.evictor.left)
        spared = self._blocked()
        cluster.reclaimer.reconcile()
        after = cluster.instant()
        if not cluster.leads or cluster.unready_reason:
            assert cluster.version == version, "something was written by one that may not act"
        fresh = {uid: hold for uid, hold in after.holds.items() if before.holds.get(uid) != hold}
        if is_current and not disturbed:
            self._judge(before, fresh, at_some_time(spared, self._blocked()))
        gone = [name for name, _ in cluster.evictor.left[left:]]
        return f"holds {sorted(fresh)}, {gone} evicted"

    def _blocked(self) -> Blocked:
        """The pods that cannot be evicted, so far as the reclaimer knows."""
        holding = self.cluster.reclaimer._holding
        return Blocked(holding.excluded, holding.protected)

    def _judge(self, before: ReclaimerSnapshot, fresh: dict[str, Hold], spared: list[Blocked]) -> None:
        """Law L3: each new hold, in the order in which they were planned.

        ``spared``: what may have been known of pods that cannot be evicted, at some time of the pass.
        """
        standing_now = {uid: hold for uid, hold in before.holds.items() if uid not in fresh}
        moved = {uid: hold for uid, hold in fresh.items() if uid in before.holds}
        assert len(moved) <= 1, "more than one was moved in one pass"
        for uid, hold in moved.items():
            others = {other: one for other, one in before.holds.items() if other != uid}
            self._judge_moved(before.pods[uid], hold, before, others, spared)
            standing_now[uid] = hold
        fresh = {uid: hold for uid, hold in fresh.items() if uid not in moved}
        if self._somebody_fits(before, fresh) or any(one.all for one in spared):
            # What they have in mind is free still, or some cannot be evicted for a while: the plans are those
            # that trying out everything finds.
            theirs = {uid: msgspec.structs.replace(hold, state=None, at=None) for uid, hold in fresh.items()}
            tried = [tried_holds(before.with_holds(moved), one) for one in spared]
            assert any(theirs.items() <= one.items() for one in tried), "trying out everything finds others"
            return
        for uid in sorted(fresh, key=lambda uid: (before.pods[uid].metadata.creation_timestamp, uid)):
            self._judge_one(before.pods[uid], fresh[uid], before, standing_now)
            standing_now[uid] = fresh[uid]

    def _judge_moved(
        self, pod: Pod, hold: Hold, before: ReclaimerSnapshot, holds: dict[str, Hold], spared: list[Blocked]
    ) -> None:
        """A pod for which others would have to leave has got what is free by now; nobody was notified yet.

        Or what others have, who leave or may leave, if budgets protect those.
        """
        old = before.holds[pod.metadata.uid]
        assert old.victims, "nobody had to leave for it"
        assert not any(before.pods[uid].metadata.deletion_timestamp for uid in old.victims), "it was too late"
        assert self._suits(hold.node, pod, before)
        need = used_at_once(pod)[names.GPU_RESOURCE]
        assert len(set(hold.devices)) == len(hold.devices) == need
        free = options_on(hold.node, before.cover[pod.metadata.uid].spec.model, before, holds).free
        if hold.victims or not free.issuperset(hold.devices):
            assert any(one.all.intersection(old.victims) for one in spared), "others leave for no reason"
            tried = [found for one in spared for found in tried_instead(pod, before, one)]
            assert msgspec.structs.replace(hold, state=None, at=None) in tried, "it is not the best"

    @staticmethod
    def _somebody_fits(before: ReclaimerSnapshot, fresh: dict[str, Hold]) -> bool:
        """Whether booked pods wait that got no hold: because they fit, or wait for others who go."""
        waiting = (uid for uid in before.cover if not before.pods[uid].spec.node_name)
        return any(uid not in before.holds and uid not in fresh for uid in waiting)

    def _judge_one(self, pod: Pod, hold: Hold, before: ReclaimerSnapshot, holds: dict[str, Hold]) -> None:
        booking = before.cover[pod.metadata.uid]
        need = used_at_once(pod)[names.GPU_RESOURCE]
        options = {
            name: options_on(name, booking.spec.model, before, holds)
            for name in NODES
            if self._suits(name, pod, before)
        }
        assert all(len(each.free) < need for each in options.values()), "it fits without any victim"
        mine = options[hold.node]
        assert len(set(hold.devices)) == len(hold.devices) == need
        usable = mine.free | mine.leaving | frozenset(chain(*(mine.evictable[v][0] for v in hold.victims)))
        assert usable.issuperset(hold.devices), "a device is unhealthy, kept, of another model or unusable"
        assert all(mine.evictable[v][0] & set(hold.devices) for v in hold.victims), "a victim frees nothing"
        best = min(chain.from_iterable(each.sets(need) for each in options.values()))
        lost, evicted = (sum(mine.evictable[v][n] for v in hold.victims) for n in (1, 2))
        assert (lost, evicted, len(hold.victims)) == best[:3], "other victims would have been cheaper"
        enough = {uids for *_, uids in mine.sets(need)}
        assert not any(frozenset(hold.victims) > uids for uids in enough), "a victim could be spared"

    def _suits(self, name: str, pod: Pod, before: ReclaimerSnapshot) -> bool:
        node = before.nodes[name]
        is_open = not node.spec.unschedulable and not node.spec.taints
        return is_open and before.node_snapshots[name][1] == "alive" and name not in barred(pod)

    def check(self) -> None:
        """Law L1, one victim for one purpose, and no device for two."""
        now = self.cluster.instant()
        for view, _ in now.node_snapshots.values():
            assert view.conflicts == ()
        holds = list(now.holds.values())
        for what in ([u for h in holds for u in h.devices], [u for h in holds for u in h.victims]):
            assert len(what) == len(set(what))
        self.steps_taken += 1
        if self.steps_taken % 200 == 0:
            self.cluster.kube.forget_history()
            self.cluster.kube.calls.clear()
            self.cluster.events.clear()

    def settle(self, *, budgets: bool = False) -> None:
        """No more surprises: then everybody is served who can be, and nothing is left lying about.

        Args:
            budgets: whether budgets protect everybody all the time: they count for a while only.
        """
        cluster = self.cluster
        self._calm()
        living = {pod.metadata.name for pod in cluster.living()}
        cluster.evictor.protected = living if budgets else set()
        cluster.leads, cluster.unready_reason = True, None
        cluster.mirror(well=True)
        for name in NODES:
            cluster.close_node(name, "open")
            cluster.publish(
                name, tuple(msgspec.structs.replace(d, health="healthy") for d in cluster.devices[name])
            )
            if name not in cluster.responsive_nodes:
                cluster.start_agent(name)
        for pause in (3, BARRED_FOR, *((BARRED_FOR, BARRED_FOR) if budgets else ())):
            cluster.pass_time(pause)
            for _ in range(12):
                cluster.after(3)
                cluster.run_kubelets()
                cluster.reconcile()
                cluster.schedule()
                self.check()
        self._check_served(cluster.instant())
        for pod in cluster.living():
            assert not waiting_hold(pod), f"{pod.key} keeps {waiting_hold(pod)}"
            assert not pod.metadata.annotation(names.NOTICE), f"{pod.key} still has its notice"
            assert not (pod.spec.node_name and pod.metadata.annotation(names.HOLD))

    def _check_served(self, now: ReclaimerSnapshot) -> None:
        """A booked pod that waits has no node where others could make room."""
        for uid, booking in now.cover.items():
            pod = now.pods[uid]
            if not pod.spec.node_name:
                need = used_at_once(pod)[names.GPU_RESOURCE]
                found = [options_on(name, booking.spec.model, now, {}) for name in NODES]
                assert not any(list(each.sets(need)) for each in found), f"{pod.key} is not served"


def _random_devices(node: str, models: tuple[int, ...]) -> tuple[Device, ...]:
    return tuple(a100(index, node, model=MODELS[model]) for index, model in enumerate(models))


TestVictims = by_hypothesis(VictimsMachine, examples=4)


def test_l3_no_pod_leaves_in_vain_and_every_booked_pod_is_served_through_a_long_history(
    play: Callable[[type[Machine]], int],
) -> None:
    assert play(VictimsMachine) == length()
