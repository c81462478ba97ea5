"""Kubelet and node agent come and go; no pod fails, no device is given twice, what was assigned is given."""

import signal
import sys
from pathlib import Path

import pytest

from cluster import names
from devcluster.cluster import Cluster
from devcluster.product import Parts
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e

NODE = "node-a"
ACTORS = Path(__file__).parent / "actors"
KUBELET = f"{NODE}/kubelet"
GPUS = 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["terminated", "killed"])
def test_pods_of_a_kubelet_that_goes_down_and_comes_back_run_with_the_assigned_devices(
    cluster: Cluster, playground: Playground, number: signal.Signals
) -> None:
    before = playground.simple("before", node=NODE)
    playground.await_phase([before])
    kubelet = cluster.daemon(KUBELET)
    # One that hangs still listens to the agent, so that a pod is bound; the next ones wait for its word.
    kubelet.pause()
    meanwhile = [playground.simple("meanwhile-0", node=NODE)]
    playground.await_bound(meanwhile[0])
    kubelet.kill(number)
    kubelet.resume()
    playground.await_that("the kubelet is gone", lambda: kubelet.exited is not None)
    lease = ("get", "lease", "--namespace", names.NAMESPACE, names.node_lease(NODE), "--output=yaml")
    playground.await_that("the agent has noticed", lambda: names.STOPPING in cluster.kubectl(*lease) or None)
    meanwhile += [playground.simple(f"meanwhile-{n}", node=NODE) for n in (1, 2)]
    for name in meanwhile[1:]:
        playground.await_waiting(name)
        assert playground.pod(name).spec.node_name is None
    kubelet.restart()
    playground.await_phase([before, *meanwhile])
    for name in (before, *meanwhile):
        playground.check_agreement(name)
    playground.check_law_1()


def test_running_pods_outlive_a_killed_agent_and_a_new_one_serves_new_pods(
    parts: Parts, playground: Playground
) -> None:
    before = playground.simple("before", node=NODE)
    playground.await_phase([before])
    agent = parts.agent(NODE)
    agent.kill(signal.SIGKILL)
    playground.await_gpus(NODE, 0)
    waiting = playground.simple("waiting", node=NODE)
    playground.await_waiting(waiting)
    agent.restart()
    playground.await_gpus(NODE, GPUS)
    playground.await_phase([before, waiting])
    for name in (before, waiting):
        playground.check_agreement(name)


def test_a_rolling_hand_over_of_two_agents_leaves_no_gap(parts: Parts, playground: Playground) -> None:
    old = parts.agent(NODE)
    new = parts.start_agent(NODE, name="node-agent-new")
    playground.await_that("the new agent is ready", lambda: parts.is_ready(new) or None)
    seen: set[int] = set()
    old.kill(signal.SIGTERM)

    def handed_over() -> bool:
        seen.add(playground.allocatable(NODE))
        return old.exited is not None

    playground.await_that("the old agent has gone", handed_over)
    after = [playground.simple(f"after-{n}", node=NODE) for n in range(GPUS)]
    playground.await_phase(after)
    seen.add(playground.allocatable(NODE))
    for name in after:
        playground.check_agreement(name)
    assert seen == {GPUS}
    assert old.exited == 0

    old.restart()
    playground.await_that("the first agent is back", lambda: parts.is_ready(old) or None)
    new.kill(signal.SIGTERM)
    playground.await_that("the second agent has gone", lambda: new.exited is not None)
    for name in after:
        playground.delete(name)
    playground.await_phase([playground.simple("last", node=NODE)])


def test_the_kubelet_notices_the_death_of_an_agent_that_has_registered_twice(
    cluster: Cluster, parts: Parts, playground: Playground
) -> None:
    agent = parts.agent(NODE)
    before = parts.metric(agent, "registrations_total")
    cluster.daemon(KUBELET).restart()
    playground.await_that(
        "the agent has registered again", lambda: parts.metric(agent, "registrations_total") > before or None
    )
    # In its first batch of pods a kubelet still counts the devices of pods that have ended.
    playground.await_phase([playground.simple("first-batch", gpus=0, node=NODE)])
    playground.await_phase([playground.simple("between", node=NODE)])
    second = parts.start_agent(NODE, name="node-agent-second")
    playground.await_that("the second agent is ready", lambda: parts.is_ready(second) or None)
    parts.agent(NODE).kill(signal.SIGKILL)
    playground.await_phase([playground.simple("one-is-left", node=NODE)])
    second.kill(signal.SIGKILL)
    playground.await_gpus(NODE, 0)

    parts.agent(NODE).restart()
    playground.await_gpus(NODE, GPUS)
    playground.await_phase([playground.simple("back", node=NODE)])


def test_the_kubelet_notices_the_death_of_an_agent_that_registered_again_by_itself(
    parts: Parts, playground: Playground
) -> None:
    parts.agent(NODE).kill(signal.SIGKILL)
    playground.await_gpus(NODE, 0)
    sign = parts.folder / "register-again"
    program = [sys.executable, str(ACTORS / "twice_agent.py"), str(sign)]
    agent = parts.start_agent(NODE, name="node-agent-twice", program=program)
    playground.await_gpus(NODE, GPUS)
    for again in (2, 3):
        before = parts.metric(agent, "registrations_total")
        sign.touch()
        playground.await_that(
            "it has registered again",
            lambda before=before: parts.metric(agent, "registrations_total") > before or None,
        )
        # The Node goes on showing GPUs of which the kubelet has no list at this moment.
        playground.await_that("the kubelet has its list", lambda: parts.is_ready(agent) or None)
        playground.await_gpus(NODE, GPUS)
        playground.await_phase([playground.simple(f"after-{again}", node=NODE)])
        playground.check_agreement(f"after-{again}")
    agent.kill(signal.SIGKILL)
    playground.await_gpus(NODE, 0)


def test_a_restarted_extender_knows_the_earlier_assignments(parts: Parts, playground: Playground) -> None:
    before = [playground.simple(f"before-{n}", node=NODE) for n in range(3)]
    playground.await_phase(before)
    parts.extender().restart()
    after = [playground.simple(f"after-{n}", node=NODE) for n in range(2)]
    playground.await_that(
        "the last device is given", lambda: [n for n in after if playground.pod(n).spec.node_name] or None
    )
    (served,) = [n for n in after if playground.pod(n).spec.node_name]
    playground.await_phase([served])
    playground.check_agreement(served)
    playground.check_law_1()


def test_an_agent_that_stops_marks_its_lease(cluster: Cluster, parts: Parts, playground: Playground) -> None:
    agent = parts.agent(NODE)
    agent.kill(signal.SIGTERM)
    playground.await_that("the agent has gone", lambda: agent.exited is not None)
    lease = cluster.kubectl("get", "lease", "-n", names.NAMESPACE, names.node_lease(NODE), "-o", "yaml")
    assert names.STOPPING in lease
    agent.restart()
    playground.await_gpus(NODE, GPUS)
    playground.await_phase([playground.simple("after", node=NODE)])
