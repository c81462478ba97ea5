"""The composition root: everything is wired, and what is missing is reported in a sentence."""

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path

import pytest

from cluster import names
from cluster.fake.clock import FakeClock, eventually
from cluster.fake.server import FakeKube
from cluster.kube.errors import NotFound
from cluster.kube.resources import LEASES
from cluster.process.lifecycle import Process
from cluster.process.loops import Loops
from extender.__main__ import binds_at_once, build, follow, go_on
from extender.existing import GRACE_SECONDS, NOT_LEADING, NOT_READY_YET
from extender.leader_election import Leading, leadership
from extender.state.cluster_state import ClusterState
from tests.extender.settings import free_port, settings
from tests.fakes.freezing import check_that_objects_are_frozen

ROUNDS = 3


def test_events_of_pods_wait_while_a_request_is_answered() -> None:
    clock = FakeClock()
    state = ClusterState(clock)
    following = follow(FakeKube(clock), state, clock, namespace="gpu-booking")
    assert following._reflectors["pods"]._give_way == state.priority.give
    assert "namespaces" in following.threads


def test_objects_are_frozen_for_the_garbage_collector_once_all_have_been_read() -> None:
    clock = FakeClock()
    following = follow(FakeKube(clock), ClusterState(clock), clock, namespace="gpu-booking")
    check_that_objects_are_frozen(following)


def test_the_whole_process_is_built_and_closed(tmp_path: Path) -> None:
    process = build(settings(tmp_path), FakeClock())

    assert isinstance(process, Process)
    process.end("the test is over")
    assert process.run() == 0


def test_everything_that_runs_beside_the_verbs_has_its_thread(tmp_path: Path) -> None:
    process = build(settings(tmp_path), FakeClock())
    assert {thread.name for thread in process._threads} >= {
        *("bookings", "leases", "namespaces", "nodes", "pods"),
        *("assumed-binds", "clock-check", "events"),
        *("kubelet-rejections", "pending-reasons", "requeue", "verdicts"),
    }
    process.end("the test is over")
    process.run()


@pytest.mark.parametrize(("threads", "binds"), [(192, 144), (8, 6), (2, 1)])
def test_binds_leave_threads_to_the_other_verbs(tmp_path: Path, threads: int, binds: int) -> None:
    assert binds_at_once(settings(tmp_path, THREADS=str(threads))) == binds


def test_the_extender_is_not_ready_before_it_has_read_the_cluster(tmp_path: Path) -> None:
    port = free_port()
    process = build(settings(tmp_path, PROBE_PORT=str(port)), FakeClock())
    client = HTTPConnection("127.0.0.1", port, timeout=10)

    client.request("GET", "/readyz")
    answer = client.getresponse()

    assert answer.status == 503
    assert answer.read() == b"cluster: The pods of the cluster have not been read yet.\n"
    client.close()
    process.end("the test is over")
    process.run()


def test_a_loop_that_raises_does_not_end_the_process_and_continues() -> None:
    clock, times = FakeClock(self_advancing=True), Counter[str]()
    process = Process("tester", clock)

    def failing(name: str) -> Callable[..., None]:
        def fail(*_: object) -> None:
            times[name] += 1
            if min(times["own"], times["round"]) >= ROUNDS:
                process.end("both have gone on")
            raise RuntimeError("something that nobody has thought of")

        return fail

    failures: list[str] = []
    go_on(process, Loops(clock, failures.append), {"own": failing("own")}, {"round": (1, failing("round"))})
    assert process.run() == 0
    assert set(failures) == {"own", "round"}


def started(process: Process, leading: Leading) -> None:
    for name, body in leading.threads.items():
        process.thread(name, body)


def test_the_lease_that_decides_which_process_binds_is_a_setting(tmp_path: Path) -> None:
    clock, kube = FakeClock(), FakeKube()
    state = ClusterState(clock)

    def leads(**variables: str) -> bool:
        return leadership(settings(tmp_path, **variables), kube, state, clock=clock).leads()

    meta = {"name": "another-lease", "namespace": "gpu-booking"}
    spec = {"holderIdentity": "another_1", "leaseDurationSeconds": 15, "renewTime": clock.now().isoformat()}
    kube.put(LEASES, {"metadata": meta, "spec": spec})

    assert leads(LEADER_LEASE="another-lease", LEADER_PREFIX="another_")
    assert not leads(LEADER_LEASE="another-lease")
    assert not leads()
    assert leads(LEADER_ELECTION="false")


def test_the_extender_has_its_own_lease_in_mode_existing(tmp_path: Path) -> None:
    clock, kube = FakeClock(), FakeKube()
    process = Process("extender", clock)
    existing = settings(tmp_path, MODE="existing", LEADER_PREFIX="first_")
    leading = leadership(existing, kube, ClusterState(clock), clock=clock)
    started(process, leading)
    assert leading.unready_reason() == NOT_LEADING
    thread = threading.Thread(target=process.run)
    thread.start()
    eventually(lambda: leading.unready_reason() == NOT_READY_YET, deadline=60)
    assert not leading.leads()
    clock.advance(GRACE_SECONDS)
    assert leading.leads()
    lease = kube.get(LEASES, names.EXTENDER_LEASE, namespace=names.NAMESPACE)
    assert str(lease.spec.holder_identity).startswith("first_")
    process.end("the test is over")
    thread.join()


def test_an_unfit_extender_leaves_the_lease_of_mode_existing_to_another(tmp_path: Path) -> None:
    clock, kube, troubles = FakeClock(), FakeKube(), ["The certificate has not been read yet."]
    process = Process("extender", clock)
    leading = leadership(
        settings(tmp_path, MODE="existing", LEADER_PREFIX="first_"),
        kube,
        ClusterState(clock),
        clock=clock,
        unfit=[lambda: troubles[0] if troubles else None],
    )
    started(process, leading)
    thread = threading.Thread(target=process.run)
    thread.start()
    eventually(lambda: bool(kube.calls), deadline=60)
    assert leading.unready_reason() == NOT_LEADING
    with pytest.raises(NotFound):
        kube.get(LEASES, names.EXTENDER_LEASE, namespace=names.NAMESPACE)
    troubles.clear()

    def leads_in_time() -> bool:
        clock.advance(0.5)
        return leading.unready_reason() != NOT_LEADING

    eventually(leads_in_time, deadline=60)
    process.end("the test is over")
    thread.join()


def test_the_extender_ends_with_a_message_outside_a_pod_without_settings() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "extender"],
        env={"PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert "KUBERNETES_SERVICE_HOST" in ended.stderr
    assert "Traceback" not in ended.stderr
