"""A node that cannot serve draws no pods: a window of them is lost by an agent's death, none by a restart.

Every order of death, end in good order, start, registration, renewal, refusal, bind, report of the kubelet
and arrival of events, with the extender restarted and its watches lost in between.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.kube.errors import ApiError
from tests.draws import examples
from tests.scenarios.serving import GPUS, ServedNode

KINDS: Final = ("nodes", "leases", "pods")
SPANS: Final = (0.05, 0.9, 1.0, 4.0, 11.0, 31.0)

Step = Callable[[ServedNode], object]


def renew(node: ServedNode) -> None:
    """The Lease has its turn; who is overtaken tries again later."""
    with suppress(ApiError):
        if node.agent:
            node.agent.renew()


STEPS: Final[Mapping[str, Step]] = {
    "kill": lambda node: node.agent and node.kill(),
    "start": lambda node: node.agent or node.start_agent(),
    "register": lambda node: node.agent and node.register(),
    "renew": renew,
    "bind": ServedNode.schedule,
    "answer": ServedNode.answer,
}
"""What the guarantee is about."""
MORE_STEPS: Final[Mapping[str, Step]] = {
    "stop": lambda node: node.agent and node.stop(),
    "report": ServedNode.report,
    "run": ServedNode.run_pods,
    "end a pod": ServedNode.end_pod,
    "all events": ServedNode.all_events,
    "settle": ServedNode.settle,
    **{f"events of {kind}": lambda node, kind=kind: node.watches[kind].arrive(1) for kind in KINDS},
    **{f"watch of {kind}": lambda node, kind=kind: node.watches[kind].relist() for kind in KINDS},
    "restart the extender": ServedNode.start_extender,
    **{f"{seconds} s": partial(ServedNode.pass_time, seconds=seconds) for seconds in SPANS},
}
"""What else may happen between any two of them."""
OFTEN: Final = (
    "bind",
    "answer",
    "all events",
    "kill",
    "start",
    "register",
    "renew",
    "end a pod",
    "run",
    "report",
)
HISTORIES: Final = st.lists(st.sampled_from([*STEPS, *MORE_STEPS, *OFTEN]), min_size=10, max_size=60)


def served(window: int = 1) -> ServedNode:
    """A node that serves, everybody's events having arrived."""
    node = ServedNode(window)
    node.start_agent()
    node.register()
    renew(node)
    node.report()
    node.all_events()
    return node


def play(node: ServedNode, history: Sequence[str]) -> None:
    """One step after the other; after each the guarantee holds."""
    for number, name in enumerate(history):
        (STEPS.get(name) or MORE_STEPS[name])(node)
        assert node.lost() <= node.deaths * node.window, f"{history[: number + 1]}\n{node.describe()}"


def recover(node: ServedNode) -> None:
    """In the end a healthy agent serves, and some time passes."""
    if node.agent is None:
        node.start_agent()
    node.register()
    for _ in range(20):
        renew(node)
        renew(node)
        for _ in range(2 * GPUS):
            node.report()
            node.all_events()
            node.schedule()
            node.answer()
            node.run_pods()
        node.settle()
        node.pass_time(10)


@examples(100, 3_000)
@given(HISTORIES, st.sampled_from((1, 2, GPUS)))
def test_at_most_a_window_of_pods_is_lost_by_the_death_of_an_agent_in_any_order_of_events(
    history: list[str], window: int
) -> None:
    node = served(window)
    play(node, history)
    recover(node)
    assert node.lost() <= node.deaths * window, node.describe()
    assert node.runs() == GPUS, node.describe()


def test_each_answer_widens_the_window_and_a_death_closes_it() -> None:
    node = served(window=8)
    assert [node.schedule(), node.schedule()] == [True, False], "a node starts with one"
    node.answer()
    node.all_events()
    assert [node.schedule(), node.schedule(), node.schedule()] == [True, True, False], "then two"
    node.kill()
    node.answer()
    node.all_events()
    assert node.lost() == 2, node.describe()
    node.start_agent()
    node.register()
    for _ in range(2):
        node.pass_time(5)
        renew(node)
        node.report()
        node.all_events()
    assert [node.schedule(), node.schedule()] == [True, False], node.describe()


def test_a_pod_that_ended_before_its_bind_was_seen_holds_nothing_in_the_end() -> None:
    node = served()
    play(node, ["bind", "answer", "kill", "run", "end a pod", "watch of pods"])
    recover(node)
    assert node.runs() == GPUS, node.describe()


def test_a_refusal_that_is_read_before_its_event_arrives_excludes_the_node() -> None:
    node = served()
    play(node, ["kill", "bind", "settle", "11.0 s", "answer", "settle", "bind", "answer"])
    assert node.lost() == 1, node.describe()


def test_a_node_that_loses_power_refuses_one_pod() -> None:
    node = served()
    node.kill()
    for _ in range(75):
        node.schedule()
        node.all_events()
        node.clock.advance(1)
    node.answer()
    assert node.lost() == 1, node.describe()


@pytest.mark.parametrize("first", STEPS)
def test_every_order_of_five_steps_after_a_death_loses_one_pod_at_most(first: str) -> None:
    for rest in product(STEPS, repeat=4):
        node = served()
        node.kill()
        for name in (first, *rest):
            play(node, [name])
            node.pass_time(0.3)
            node.all_events()


@pytest.mark.parametrize("bound", range(GPUS + 1))
def test_no_pod_is_lost_by_an_orderly_restart(bound: int) -> None:
    node = served()
    for _ in range(bound):
        node.schedule()
        node.all_events()
        node.answer()
        node.all_events()
    node.schedule()
    node.stop()
    node.schedule()
    node.answer()
    node.start_agent()
    renew(node)
    node.all_events()
    node.schedule()
    node.answer()
    node.register()
    renew(node)
    node.all_events()
    node.schedule()
    node.answer()
    assert node.lost() == 0
    assert node.runs() == min(GPUS, bound + 2)
