"""The whole story: as it is meant, and with every part killed, paused, late or cut off; it ends the same."""

from collections.abc import Callable
from itertools import product

import pytest

from tests.scenarios.acts import fill, gpus, served, settled
from tests.scenarios.conftest import Worlds
from tests.scenarios.person import NAMESPACE, a_pod
from tests.scenarios.sampling import every, some
from tests.scenarios.seeing import Value, devices, is_gone, runs, uid_of, waits
from tests.scenarios.story import FIRST_ACT, SECOND_ACT, SHORT, Harm, Story, nothing
from tests.scenarios.world import World

OURS = ("server", "controller-0", "extender", "scheduler")
OF_NODES = ("agent n0", "agent n1", "kubelet n0", "kubelet n1")
PARTS = (*OURS, *OF_NODES)
REFUSED = [("agent n1", "gone"), ("agent n1", "bound")]
"""A pod that comes to a node in the second in which its agent is dead is refused and comes back; who waits
for a GPU has had its GPU meanwhile, and leaves again."""
ELSEWHERE = {
    *product(["kubelet n1"], ["alice books", "alice is refused", "alice asks"]),
    *product(["kubelet n0"], ["alice books again", "asked again"]),
}
"""In the second in which its kubelet is away a node does not serve: another pod leaves than the one that
would lose least. These have a test of their own."""
LOST = {*REFUSED, *ELSEWHERE}

SECONDS_LATE = 5.0

Play = Callable[[Story], Value]


@pytest.fixture(scope="module")
def ends() -> dict[Play, Value]:
    """How an act ends when nobody disturbs it: played once."""
    return {}


def world_for(act: Play, new_world: Worlds, *, leeway: float = 0.1) -> World:
    """A world for an act."""
    more = {"policy": SHORT} if act is Story.play_second_act else {}
    return new_world(**more, leeway=leeway)


def undisturbed(act: Play, new_world: Worlds, ends: dict[Play, Value]) -> Value:
    """How it ends without any harm."""
    if act not in ends:
        ends[act] = act(Story(world_for(act, new_world)))
    return ends[act]


def plays(act: Play, harm: Harm, new_world: Worlds, ends: dict[Play, Value], *, lag: float = 0.0) -> None:
    """With this harm the act ends as it does without."""
    end = undisturbed(act, new_world, ends)
    assert act(Story(world_for(act, new_world, leeway=0.1 + lag), harm)) == end


def at(moment: str, act: Callable[[World], object]) -> Harm:
    """Do it at this moment."""
    return lambda world, now: act(world) if now == moment else None


def test_the_story_is_played_to_its_end_through_every_moment(world: World) -> None:
    story = Story(world)
    end = story.play()
    assert tuple(story.moments) == (*FIRST_ACT, *SECOND_ACT)
    assert end["comebacks"] == 0
    gpus = {key: pod["gpus"] for key, pod in end["pods"].items() if pod["live"]}
    assert sum(gpus.values()) == 4
    assert gpus["team/alice-1"] == gpus["team/alice-2"] == 0
    assert not [key for key, pod in end["pods"].items() if pod["left over"] or pod["finalizers"]]


@pytest.mark.parametrize(
    ("part", "moment"),
    some(product(["controller-0"], FIRST_ACT[5:14]), of=sorted(set(product(PARTS, FIRST_ACT)) - LOST)),
)
def test_a_part_that_is_killed_at_any_moment_changes_nothing(
    part: str, moment: str, new_world: Worlds, ends: dict[Play, Value]
) -> None:
    plays(Story.play_first_act, at(moment, lambda world: world.kill(part)), new_world, ends)


def exchanged(end: Value, one: str, other: str) -> Value:
    """An end in which each of two pods has the fate of the other."""
    keys = {f"{NAMESPACE}/{one}": f"{NAMESPACE}/{other}", f"{NAMESPACE}/{other}": f"{NAMESPACE}/{one}"}
    return {**end, "pods": {keys.get(key, key): pod for key, pod in end["pods"].items()}}


@pytest.mark.parametrize(("part", "moment"), sorted(ELSEWHERE))
def test_while_the_kubelet_of_the_cheapest_pod_is_away_one_dearer_pod_leaves_and_all_else_is_the_same(
    part: str, moment: str, new_world: Worlds, ends: dict[Play, Value]
) -> None:
    is_first = moment in FIRST_ACT
    act, cheapest = (Story.play_first_act, "bob-3") if is_first else (Story.play_second_act, "bob-2")
    world = world_for(act, new_world)
    story = Story(world, at(moment, lambda world: world.kill(part)), elsewhere=True)
    end = act(story)
    (victim,) = story.victims
    assert victim != cheapest
    assert exchanged(end, victim, cheapest) == undisturbed(act, new_world, ends)
    assert sum(gpus(world).values()) == 4


@pytest.mark.parametrize(("part", "moment"), REFUSED)
@pytest.mark.parametrize("rival", [False, True], ids=["nobody waits", "somebody waits"])
def test_a_booked_pod_that_its_kubelet_refuses_comes_back_and_is_served(
    part: str, moment: str, world: World, *, rival: bool
) -> None:
    bobs = fill(world, cheap="bob-3")
    if rival:
        world.bob.create(a_pod("bob-5"))
        world.until(lambda: waits(world, "bob-5"), "the fifth waits")
    world.alice.book()
    first = world.alice.create(a_pod("alice-1"))
    node = {
        "gone": lambda: is_gone(world, "bob-3", bobs["bob-3"]),
        "bound": lambda: devices(world.pod("alice-1")),
    }
    world.until(node[moment], moment)
    world.kill(part)
    served(world, "alice-1")
    settled(world)
    assert uid_of(world, "alice-1") != first, "it was refused"
    assert runs(world, *bobs)
    assert sum(gpus(world).values()) == 4


@pytest.mark.parametrize(
    ("part", "moment"),
    some([("server", "over"), ("controller-0", "over")], of=product(OURS, SECOND_ACT)),
)
def test_a_part_that_is_killed_before_a_booking_ends_by_its_time_changes_nothing(
    part: str, moment: str, new_world: Worlds, ends: dict[Play, Value]
) -> None:
    plays(Story.play_second_act, at(moment, lambda world: world.kill(part)), new_world, ends)


@pytest.mark.parametrize("moment", every(3, FIRST_ACT))
def test_everything_of_ours_dies_at_once_and_goes_on(
    moment: str, new_world: Worlds, ends: dict[Play, Value]
) -> None:
    def all_die(world: World) -> None:
        for part in OURS:
            world.kill(part)

    plays(Story.play_first_act, at(moment, all_die), new_world, ends)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_dies_at_every_moment_of_the_story_changes_nothing(
    part: str, new_world: Worlds, ends: dict[Play, Value]
) -> None:
    def dies_again(world: World, moment: str) -> None:
        if (part, moment) not in LOST:
            world.kill(part)

    plays(Story.play, dies_again, new_world, ends)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize(
    "moment", some(["leaving"], of=["alice asks", "kept", "leaving", "released", "ends"])
)
def test_a_part_that_is_paused_for_twenty_seconds_changes_nothing(
    part: str, moment: str, new_world: Worlds, ends: dict[Play, Value]
) -> None:
    plays(Story.play_first_act, at(moment, lambda world: world.pause(part, 20.0)), new_world, ends)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_gets_every_event_seconds_late_changes_nothing(
    part: str, new_world: Worlds, ends: dict[Play, Value]
) -> None:
    late = at("nothing yet", lambda world: world.lag(part, SECONDS_LATE))
    plays(Story.play_first_act, late, new_world, ends, lag=SECONDS_LATE)


@pytest.mark.parametrize(
    "parts", [("server",), ("controller-0",), ("extender",), ("extender", "scheduler")], ids=str
)
@pytest.mark.parametrize("moment", some(["leaving"], of=["alice asks", "leaving", "released"]))
def test_a_part_that_cannot_reach_the_api_server_for_a_while_changes_nothing(
    parts: tuple[str, ...], moment: str, new_world: Worlds, ends: dict[Play, Value]
) -> None:
    def cut(world: World) -> None:
        for part in parts:
            world.cut(part)
        world.run(25.0)
        for part in parts:
            world.cut(part, cut=False)

    plays(Story.play_first_act, at(moment, cut), new_world, ends)


@pytest.mark.parametrize("seconds", [60.0, 200.0])
@pytest.mark.parametrize("moment", some(["leaving", "released"], of=FIRST_ACT))
def test_an_api_server_that_is_away_for_minutes_changes_nothing(
    moment: str, seconds: float, new_world: Worlds, ends: dict[Play, Value]
) -> None:
    plays(Story.play_first_act, at(moment, lambda world: world.away(seconds)), new_world, ends)


def test_two_replicas_of_the_controller_do_no_more_than_one(
    new_world: Worlds, ends: dict[Play, Value]
) -> None:
    ends.setdefault(Story.play_first_act, Story(new_world()).play_first_act())
    assert Story(new_world(replicas=2), nothing).play_first_act() == ends[Story.play_first_act]
