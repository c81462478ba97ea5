"""The example of docs/reclaiming.md: a Job that saves its work at the notice and continues from there."""

import json
from pathlib import Path

import pytest

from cluster import names
from cluster.kube.resources import PODS
from tests.e2e.persons import Person
from tests.e2e.playground import SPAWNS, Playground
from tests.e2e.training import JOB, begin, end, resumed
from tests.long.workloads import a100

pytestmark = pytest.mark.e2e


def test_the_example_saves_its_work_at_the_notice_leaves_at_once_and_continues_from_there(
    bob: Person, playground: Playground, tmp_path: Path
) -> None:
    first = begin(playground, tmp_path)
    bob.book(2)
    hers = bob.create(a100("booked", gpus=2, node="node-a"))
    done: list[str] = []

    def is_served() -> bool:
        now = next((p for p in playground.pods() if p.metadata.uid == first.metadata.uid), None)
        done.extend(filter(None, [now and now.metadata.annotation(names.CHECKPOINT_DONE)]))
        return playground.pod(hers).status.phase == "Running"

    playground.await_that("the booked pod runs, long before the five minutes are over", is_served)
    assert done, "the training has said that it is ready to leave"
    saved = json.loads((tmp_path / "state" / "training.json").read_text())["step"]
    assert saved > 0
    playground.kube.delete(PODS, hers, namespace=playground.namespace, grace_seconds=1)

    step = playground.await_that(
        "the next pod of the Job goes on", lambda: resumed(playground, first), every=SPAWNS
    )
    assert step == saved
    status = playground.kubectl(
        *("get", "job", JOB, "--namespace", playground.namespace), "--output", "jsonpath={.status.failed}"
    )
    assert status in ("", "0")
    end(playground)
