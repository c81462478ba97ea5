"""Fair shares on real kubelets: alice gets a GPU of bob's, whose Job goes on from its checkpoint."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import names
from cluster.kube.resources import PODS
from cluster.objects.scheduling_gates import is_queued
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import SPAWNS, Playground
from tests.e2e.takeover import pod, same
from tests.e2e.training import begin, end, pod_of_job, resumed
from tests.e2e.usual import CONTROLLER

pytestmark = pytest.mark.e2e

RECLAIM = "fair_shares: {mode: reclaim, worth: 0, min_runtime: PT0S, reclaim_after: PT0S}\n"


@pytest.fixture
def reclaiming(playground: Playground, parts: Parts, tmp_path: Path) -> Iterator[None]:
    """The controller has a policy for a while."""
    assert playground  # it finds the usual controller when the test is over
    policy = tmp_path / "policy.yaml"
    policy.write_text(RECLAIM)
    parts.controller().kill()
    parts.start_controller({**CONTROLLER, names.setting("policy_file"): str(policy)})
    parts.await_ready()
    yield
    parts.controller().kill()
    parts.start_controller(CONTROLLER)
    parts.await_ready()


@pytest.mark.budget(35)
@pytest.mark.usefixtures("reclaiming")
def test_l10_alice_gets_a_gpu_of_bobs_and_his_job_goes_on_from_its_checkpoint(
    alice: Person, bob: Person, playground: Playground, tmp_path: Path
) -> None:
    playground.kubectl("annotate", "namespace", playground.namespace, f"{names.OWNER}=bob")
    others = [bob.create(pod(f"bob-{n}", node=f"node-{'abb'[n]}")) for n in range(3)]
    playground.await_phase(others)
    first = begin(playground, tmp_path)
    assert first.metadata.annotation(names.USER) == "bob"
    stays = [playground.pod(name) for name in others]
    hers = alice.create(pod("alice"))
    playground.await_phase([hers])
    playground.check_agreement(hers)
    same(playground, stays)
    waiting = playground.await_that(
        "the Job's next pod waits in line",
        lambda: found if (found := pod_of_job(playground)) and is_queued(found) else None,
    )
    saved = json.loads((tmp_path / "state" / "training.json").read_text())["step"]
    assert saved > 0
    playground.kube.delete(PODS, others[0], namespace=playground.namespace, grace_seconds=1)
    step = playground.await_that("it goes on", lambda: resumed(playground, first), every=SPAWNS)
    assert step == saved
    assert playground.pod(waiting.metadata.name).metadata.uid == waiting.metadata.uid
    end(playground)
