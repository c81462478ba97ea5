"""``make run ONCE=1`` plays the story to its end; a step that does not happen ends it and is named."""

import io
import threading

import pytest

from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.demo.play import play
from devcluster.demo.reporter import Reporter
from devcluster.fakenvml import default_gpus
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from tests.clusters import own
from tests.e2e.attached import Attached
from tests.e2e.playground import PATIENCE
from tests.e2e.story_run import VICTIMS, check_story, pods_that, run
from tests.laws.live import LiveWatch, checkpoints_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]  # images are built first, where they are not kept

OUTAGE_SECONDS = 60.0


def test_the_story_is_played_to_its_end_by_pods_of_the_chart() -> None:
    name = own("story")
    with Attached(name):
        played = run(name)
    check_story(played)
    assert "the chart is installed, and all of its pods are ready" in played.stdout


def test_a_story_fails_with_the_name_of_the_step_that_does_not_happen() -> None:
    # Containers get no device nodes then.
    played = run(own("broken"), "--processes", GPU_BOOKING_DEVICE_LIST_STRATEGY="environment")
    assert played.returncode != 0
    assert "The step did not happen: the container of bob-1 sees the GPU that was chosen" in played.stderr
    assert "expected:" in played.stderr
    assert "pods:\n" in played.stderr
    assert "All logs are kept in " in played.stderr
    assert "seen:" in played.stderr
    assert "Traceback" not in played.stderr


def test_the_story_ends_the_same_with_a_minute_without_the_api_server_in_its_middle() -> None:
    nodes = tuple(NodeSpec(name=f"node-{letter}", gpus=default_gpus(n)) for n, letter in enumerate("ab"))
    written = io.StringIO()
    with Cluster.start(ClusterSpec(name=own("outage"), nodes=nodes)) as cluster:
        moments: list[str] = []

        def outage(moment: str) -> None:
            moments.append(moment)
            laws.check()
            # The eviction has just begun, or is about to.
            if moments.count("asked") == 1 and moment == "asked":
                laws.fault("the API server is stopped")
                cluster.pause("kube-apiserver")
                SystemClock().wait(threading.Event(), OUTAGE_SECONDS)
                cluster.resume("kube-apiserver")
                laws.fault("the API server goes on")

        with LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as laws:
            parts = Parts(cluster, elects=True)  # kube-scheduler loses its Lease, too
            play(cluster, Reporter(written), parts=parts, interlude=outage, patience=PATIENCE)
            laws.finish()
    output = written.getvalue()
    assert pods_that(output, "comes back without a GPU") == VICTIMS, output
    assert pods_that(output, "has to leave") == VICTIMS, output
