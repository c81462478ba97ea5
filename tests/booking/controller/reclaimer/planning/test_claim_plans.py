"""Plans where pods share claims: who leaves with whom, what that costs, and who does not leave."""

from datetime import timedelta

from booking.controller.reclaimer.planning.node_candidates import PlanningInputs
from booking.controller.reclaimer.planning.plan import plan
from booking.eviction.holder_cache import HolderCache
from tests.fakes.objects import EPOCH
from tests.properties.random_claims import MODELS, NODES_OF, Claim, ClaimWorld, Somebody

CLAIMED = MODELS[0]


def contended(need: int, **minutes: float) -> ClaimWorld:
    """Bob's pods have all GPUs of claims: one for each, for an hour or as long as is said; alice waits."""
    world = ClaimWorld()
    world.book("b", CLAIMED, 4, EPOCH + timedelta(days=1))
    devices = [one.uuid for node in ("n0", "n1") for one in NODES_OF[node]]
    for number, uuid in enumerate(devices):
        run(world, f"p{number}", f"c{number}", minutes=minutes.get(f"p{number}", 60), device=uuid)
    world.write_claim(Claim("new", count=need))
    world.write(Somebody("waits", "alice", EPOCH, claims=("new",)))
    return world


def run(world: ClaimWorld, name: str, *claims: str, minutes: float, device: str = "") -> None:
    """A pod of bob's has run for so long; with a device its claim is made."""
    if device:
        world.write_claim(Claim(claims[0], devices=(device,)))
    for claim in map(world.claims.__getitem__, claims):
        claim.users.add(name)
        world.write_claim(claim)
    since = EPOCH - timedelta(minutes=minutes)
    node = world.claims[claims[0]].devices[0].split("-")[1]
    world.write(Somebody(name, "bob", EPOCH, claims=claims, node=node, since=since))


def victims(
    world: ClaimWorld, cache: HolderCache | None = None, **more: frozenset[str]
) -> list[tuple[str, ...]]:
    return [one.hold.victims for one in plan(world.instant(), PlanningInputs(**more), cache)]


def test_those_who_share_a_claim_cost_on_every_node_what_each_of_them_loses_once() -> None:
    world = contended(1, p0=20, p4=30)
    run(world, "mate", "c0", minutes=1)
    assert victims(world) == [("mate", "p0")]


def test_a_claim_whose_pod_is_gone_before_its_bind_is_given_back_at_once() -> None:
    world, cache = contended(1, p0=1), HolderCache()
    world.write(world.pods["p0"], gone=True)
    soon = Somebody("soon", "bob", EPOCH, claims=("c0",))
    world.claims["c0"].users = {"soon"}
    world.write_claim(world.claims["c0"])
    world.write(soon)
    assert len(victims(world, cache)[0]) == 1
    world.write(soon, gone=True)
    assert victims(world, cache) == [()]


def test_nobody_is_waited_for_who_leaves_already() -> None:
    world = contended(1)
    run(world, "mate", "c0", minutes=1)
    for name in ("p0", "mate"):
        world.pods[name].going = EPOCH
        world.write(world.pods[name])
    assert victims(world, ending=frozenset({"mate"})) == [()]


def test_what_a_pod_has_alone_and_with_others_is_counted_once() -> None:
    world = contended(2, p2=70, p3=70)
    world.write(world.pods["p1"], gone=True)
    run(world, "p0", "c0", "c1", minutes=50)
    run(world, "mate", "c1", minutes=1)
    assert victims(world) == [("mate", "p0")], "two pods of 70 minutes or an hour lose more than 100 and 1"


def test_a_group_stays_while_a_booked_pod_is_about_to_join_it() -> None:
    world = contended(1, p0=1)
    assert victims(world) == [("p0",)]
    joins = Somebody("joins", "alice", EPOCH, claims=("c0",))
    world.write(joins)
    assert victims(world) == [("p0",)], "kube-scheduler has not chosen a node for it"
    world.claims["c0"].users.add("joins")
    world.write_claim(world.claims["c0"])
    assert victims(world) != [("p0",)]
    world.write(joins, gone=True)
    assert victims(world) == [("p0",)]
