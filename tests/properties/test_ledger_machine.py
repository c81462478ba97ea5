"""The ledger through long histories: it says what a naive count of the newest objects says (laws L1, L9)."""

from collections.abc import Callable

from cluster.decide.ledger import WHOLE, DeviceUse, NodeView
from cluster.objects.inventory import Device, resource_of
from tests.properties.history import Machine, Pick, by_hypothesis, length, step
from tests.properties.watched_cache import NODES, WatchedCache, views


class LedgerMachine(WatchedCache):
    """The ledger inside a cache, and binds that are decided and not seen yet."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: tuple[int, list[NodeView]] | None = None

    @step(2)
    def a_bind_is_decided(self, pick: Pick) -> str:
        waiting = [p for p in self.pods.items if not p.spec.node_name and p.status.phase == "Pending"]
        if not waiting:
            return "nobody waits"
        pod, node = pick.one(waiting), pick.one(NODES)
        self.decide(pod, node, self.devices(pick, node))
        return f"{pod.metadata.name} on {node}"

    @step()
    def a_bind_is_taken_back(self, pick: Pick) -> str:
        if not self.known.binds:
            return "none was decided"
        uid = pick.one(sorted(self.known.binds))
        with self.cache.locked() as ledger:
            ledger.forget_assumed(uid)
        del self.known.binds[uid]
        return uid

    @step()
    def it_is_compared_with_one_that_begins_now(self, _pick: Pick) -> None:
        """Law L9: after a list the ledger that lived through all this equals a new one."""
        self.catch_up()
        with self.cache.locked() as ledger:
            for uid in ledger.assumed:
                ledger.forget_assumed(uid)
        self.known.binds.clear()
        lived = views(self.cache)
        self.begin()
        self.catch_up()
        assert views(self.cache) == lived

    def begin(self) -> None:
        super().begin()
        self.seen = None

    def check(self) -> None:
        found = views(self.cache)
        for view in found:
            self._compare(view)
            _check_amounts(view)
        with self.cache.locked() as ledger:
            assert set(ledger.pods) == set(self.known.pods)
            assert set(ledger.assumed) == set(self.known.binds)
            generation = ledger.generation
        if self.seen and self.seen[0] == generation:
            assert found == self.seen[1], "the views have changed and the generation has not"
        self.seen = (generation, found)

    def settle(self) -> None:
        self.catch_up()
        self.check()

    def _compare(self, view: NodeView) -> None:
        """The view says what the newest objects say."""
        known, name = self.known, view.name
        holders = known.holders(name)
        inventory = known.inventory(name)
        assert view.devices == inventory
        assert view.published == bool(inventory)
        assert {uuid: view.holders(uuid) for uuid in view.held} == {
            uuid: tuple(uids) for uuid, uids in holders.items()
        }
        assert view.held == {uuid: DeviceUse(whole=len(uids)) for uuid, uids in holders.items()}
        assert view.unknown == known.unknown(name)
        assert view.on_hold == known.kept(name)
        assert view.conflicts == tuple(sorted(uuid for uuid, uids in holders.items() if len(uids) > 1))
        assert _flat(view.free_by_model) == _by_resource(known.free(name))


def _check_amounts(view: NodeView) -> None:
    """What is free is neither held, nor kept, nor unhealthy, nor cut; what is unheld is free or kept."""
    free = {uuid for _, _, uuid in _flat(view.free_by_model)}
    unheld = {uuid for _, _, uuid in _flat(view.unheld_by_model)}
    healthy = {uuid for _, _, uuid in _flat(view.healthy_by_model)}
    assert free == unheld - view.on_hold.keys()
    assert unheld == healthy - view.held.keys()
    assert healthy <= {device.uuid for device in view.devices if device.is_healthy}
    assert not healthy & {device.parent for device in view.devices}
    assert all(use == WHOLE for uuid, use in view.held.items() if uuid not in view.conflicts)


def _flat(groups: dict[str, dict[str, tuple[Device, ...]]]) -> list[tuple[str, str, str]]:
    """Resource, model, device: in the order in which the view has them within a model."""
    return sorted(
        (resource, model, device.uuid)
        for resource, models in groups.items()
        for model, devices in models.items()
        for device in devices
    )


def _by_resource(devices: list[Device]) -> list[tuple[str, str, str]]:
    return sorted((resource_of(device), device.model, device.uuid) for device in devices)


TestLedger = by_hypothesis(LedgerMachine, examples=20)


def test_l1_l9_the_ledger_matches_the_newest_objects_through_a_long_history(
    play: Callable[[type[Machine]], int],
) -> None:
    assert play(LedgerMachine) == length()
