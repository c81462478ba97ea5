"""Who leaves, and in which way: workloads, pods with several containers, pods that a budget protects."""

from typing import Any

from cluster import names
from demo.simulation.controllers import Workload
from tests.scenarios.acts import came_back, fill, is_kept, left, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import NAMESPACE, a_pod
from tests.scenarios.seeing import devices, is_back, runs, uid_of, waits
from tests.scenarios.world import World

Json = dict[str, Any]


def with_containers(pod: Json, **groups: list[Json]) -> Json:
    """The pod with more containers: ``initContainers=[...]``."""
    return {**pod, "spec": {**pod["spec"], **groups}}


def container(name: str, gpus: int = 0, **more: Any) -> Json:
    limits = {names.GPU_RESOURCE: str(gpus)} if gpus else {}
    return {"name": name, "image": "x", "resources": {"limits": limits, "requests": limits}, **more}


def test_a_workloads_pod_is_left_to_its_controller_and_comes_back_once(world: World) -> None:
    world.controllers.run(Workload("training", NAMESPACE, 4, a_pod("template")))
    world.until(lambda: sum(p.status.phase == "Running" for p in world.pods()) == 4, "four pods run")
    world.run(30)
    before = {p.metadata.name for p in world.pods()}
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    theirs = {p.metadata.name for p in world.pods()} - {"alice-1"}
    (fresh,) = theirs - before
    assert len(theirs) == 4
    assert waits(world, fresh)
    pod = world.pod(fresh)
    assert pod is not None
    assert pod.metadata.annotation(names.RECREATED_FROM) is None


def test_a_victim_with_init_containers_and_a_sidecar_comes_back_without_any_gpu(world: World) -> None:
    bobs = fill(world)
    world.bob.delete("bob-1")
    world.until(lambda: world.pod("bob-1") is None, "bob-1 is gone")
    many = with_containers(
        a_pod("many"),
        initContainers=[container("setup", 1), container("side", restartPolicy="Always")],
        containers=[container("main", 1), container("helper")],
    )
    uid = world.bob.create(many)
    served(world, "many")
    world.run(30)
    world.bob.checkpoint("many")
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    world.until(lambda: is_back(world, "many", uid), "it is back")
    settled(world)
    spec = world.whole("many").spec
    assert [c["name"] for c in spec["initContainers"]] == ["setup", "side"]
    for one in spec["initContainers"] + spec["containers"]:
        assert names.GPU_RESOURCE not in one["resources"].get("limits", {})
        assert {"name": names.VISIBLE_DEVICES_VARIABLE, "value": "none"} in one["env"]
    assert left(world, {n: u for n, u in bobs.items() if n != "bob-1"}) == []


def test_a_booked_pod_with_init_containers_and_a_sidecar_holds_what_it_needs_and_ends_whole(
    world: World,
) -> None:
    bobs = fill(world)
    booking = world.alice.book(2)
    hers = with_containers(
        a_pod("alice-1", 2),
        initContainers=[container("setup", 1), container("side", restartPolicy="Always")],
    )
    uid = world.alice.create(hers)
    served(world, "alice-1")
    world.alice.release(booking)
    world.until(lambda: is_back(world, "alice-1", uid), "it ends")
    settled(world)
    assert len(left(world, bobs)) == 2


def test_where_a_budget_protects_the_cheapest_victim_another_one_leaves(world: World) -> None:
    bobs = fill(world, cheap="bob-3")
    world.kube.protect(bobs["bob-3"])
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    settled(world)
    assert len(left(world, bobs)) == 1
    assert left(world, bobs) != ["bob-3"]
    pod = world.pod("bob-3")
    assert pod is not None
    assert pod.metadata.annotation(names.NOTICE) is None


def test_where_budgets_always_count_the_booked_pod_waits_until_one_may_leave(new_world: Worlds) -> None:
    world = new_world(budget_override_seconds="never")
    bobs = fill(world)
    for uid in bobs.values():
        world.kube.protect(uid)
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    settled(world, 300)
    assert left(world, bobs) == []
    assert not runs(world, "alice-1")
    world.kube.protect(bobs["bob-2"], protected=False)
    world.until(lambda: runs(world, "alice-1"), "it is served", within=180)
    settled(world)
    assert left(world, bobs) == ["bob-2"]


def test_a_victim_with_a_week_of_grace_is_given_two_minutes(world: World) -> None:
    slow = {"name": "ENDS_WITHIN", "value": "1000000"}
    patient = a_pod("patient")
    patient["spec"]["terminationGracePeriodSeconds"] = 7 * 86400
    patient["spec"]["containers"][0]["env"] = [slow]
    uid = world.bob.create(patient)
    others = {name: world.bob.create(a_pod(name)) for name in ("bob-1", "bob-2", "bob-3")}
    served(world, "patient", *others)
    world.run(30)
    world.bob.checkpoint("patient")
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.run(110)
    assert not runs(world, "alice-1")
    assert is_kept(world, "alice-1")
    world.until(lambda: runs(world, "alice-1"), "it is served", within=30)
    settled(world)
    assert is_back(world, "patient", uid)
    assert left(world, others) == []


def test_a_victim_is_notified_first_and_may_save_its_work(new_world: Worlds) -> None:
    world = new_world(notice_seconds=30)
    bobs = fill(world, cheap="bob-3")
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.until(
        lambda: (pod := world.pod("bob-3")) and pod.metadata.annotation(names.NOTICE),
        "it is notified",
        within=5,
    )
    world.run(25)
    assert left(world, bobs) == []
    world.bob.checkpoint("bob-3")
    served(world, "alice-1")
    settled(world)
    assert left(world, bobs) == came_back(world, bobs) == ["bob-3"]


def test_a_gpu_that_becomes_free_while_a_victim_has_notice_spares_it(new_world: Worlds) -> None:
    world = new_world(notice_seconds=300)
    bobs = fill(world, cheap="bob-3")
    world.alice.book()
    world.alice.create(a_pod("alice-1"))
    world.until(
        lambda: (pod := world.pod("bob-3")) and pod.metadata.annotation(names.NOTICE),
        "it is notified",
        within=5,
    )
    world.run(25)
    world.bob.delete("bob-1")
    served(world, "alice-1")
    world.run(330)
    settled(world)
    spared = world.pod("bob-3")
    assert spared is not None
    assert (spared.metadata.uid, spared.metadata.annotation(names.NOTICE)) == (bobs["bob-3"], None)
    assert left(world, bobs) == ["bob-1"]


def test_a_pod_that_comes_back_is_never_a_victim_again(world: World) -> None:
    bobs = fill(world, cheap="bob-3")
    world.alice.book(2, topology="any")
    world.alice.create(a_pod("alice-1"))
    served(world, "alice-1")
    world.until(lambda: is_back(world, "bob-3", bobs["bob-3"]), "it is back")
    again = uid_of(world, "bob-3")
    world.alice.create(a_pod("alice-2"))
    served(world, "alice-2")
    settled(world)
    assert uid_of(world, "bob-3") == again
    assert len(left(world, bobs)) == 2


def requesting(pod: Json, key: str, value: str) -> Json:
    """The pod with one more request."""
    meta = pod["metadata"]
    return {**pod, "metadata": {**meta, "annotations": {**meta["annotations"], key: value}}}


def test_the_holder_of_a_requested_gpu_leaves_though_others_would_lose_less(
    world: World,
) -> None:
    bobs = fill(world, cheap="bob-3")
    (requested,) = devices(world.pod("bob-1"))
    world.alice.book()
    world.alice.create(requesting(a_pod("alice-1"), names.UUID, requested))
    served(world, "alice-1")
    settled(world)
    assert devices(world.pod("alice-1")) == {requested}
    assert left(world, bobs) == ["bob-1"]


def test_an_unsuitable_free_gpu_spares_no_victim(world: World) -> None:
    bobs = fill(world, cheap="bob-3")
    (free,) = devices(world.pod("bob-2"))
    world.bob.delete("bob-2")
    world.until(lambda: world.pod("bob-2") is None, "bob-2 is gone")
    world.alice.book(2)
    world.alice.create(requesting(a_pod("alice-1"), names.NOT_UUID, free))
    world.alice.create(requesting(a_pod("alice-2"), names.MIN_MEMORY, "40Gi"))
    served(world, "alice-1", "alice-2")
    settled(world)
    assert devices(world.pod("alice-2")) == {free}
    assert left(world, bobs) == ["bob-2", "bob-3"]
