import socket
import threading
from pathlib import Path

import grpc
import pytest

from cluster import names
from cluster.fake.clock import FakeClock
from cluster.process.clock import Clock
from deviceplugin.kubelet.pods_api import DEADLINE, PATIENCE, RETRIES, PodsApi, PodsApiError
from tests.fakes.kubelet import FakeContainer, FakeKubelet, FakePod


class BusyMachine(FakeClock):
    """A clock on which every wait takes longer than asked for."""

    def __init__(self, longer: float) -> None:
        super().__init__(self_advancing=True)
        self._longer = longer

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.advance(self._longer)
        return super().wait(event, seconds)


def pods_api(kubelet: FakeKubelet, clock: Clock) -> PodsApi:
    return PodsApi(kubelet.root / "pods-api" / "pods-api.sock", clock)


def test_a_flooded_kubelet_is_asked_once_more_however_busy_the_machine(kubelet: FakeKubelet) -> None:
    kubelet.flooded = 1
    assert pods_api(kubelet, BusyMachine(longer=1.0)).list() == ()


def test_retries_of_a_flooded_kubelet_end_at_the_deadline_too(kubelet: FakeKubelet) -> None:
    kubelet.flooded = RETRIES + 1
    clock = BusyMachine(longer=PATIENCE / 2)
    with pytest.raises(PodsApiError, match="rejected by rate limit"):
        pods_api(kubelet, clock).list()
    assert kubelet.calls == ["ListPods"] * 3
    assert clock.monotonic() < 2 * PATIENCE


def test_all_calls_for_one_lookup_share_one_deadline(kubelet: FakeKubelet) -> None:
    kubelet.flooded = 1
    with pytest.raises(PodsApiError, match="rejected by rate limit"):
        pods_api(kubelet, BusyMachine(longer=DEADLINE)).list()
    assert kubelet.calls == ["ListPods"]


def test_pods_that_cannot_hold_a_gpu_are_skipped(kubelet: FakeKubelet) -> None:
    mig = f"{names.MIG_RESOURCE_PREFIX}1g.10gb"
    pods = [
        FakePod("without", "uid-1", [FakeContainer("main")]),
        FakePod("whole", "uid-2", [FakeContainer("first", init=True, gpus=1), FakeContainer("main")]),
        FakePod("part", "uid-3", [FakeContainer("main"), FakeContainer("side", gpus=1, resource=mig)]),
    ]
    kubelet.pods = {pod.uid: pod for pod in pods}
    assert [pod.metadata.name for pod in pods_api(kubelet, FakeClock()).list()] == ["whole", "part"]


def test_a_changed_pod_is_reported_in_its_present_state(kubelet: FakeKubelet) -> None:
    pod = FakePod("whole", "uid-1", [FakeContainer("main", gpus=1)])
    kubelet.pods = {pod.uid: pod}
    api = pods_api(kubelet, FakeClock())
    assert [(one.status.phase, one.key) for one in (*api.list(), *api.list())] == [
        ("Pending", "default/whole")
    ] * 2
    pod.phase = "Failed"
    assert [one.status.phase for one in api.list()] == ["Failed"]
    kubelet.pods = {}
    assert api.list() == ()


def test_no_pod_is_skipped_for_a_caller_that_names_pods(kubelet: FakeKubelet) -> None:
    kubelet.pods = {"uid-1": FakePod("without", "uid-1", [FakeContainer("main")])}
    (pod,) = pods_api(kubelet, FakeClock()).list(patient=False, gpus_only=False)
    assert pod.key == "default/without"


def test_calls_of_several_threads_to_an_absent_kubelet_all_fail_alike(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(tmp_path / "dead.sock"))
    api = PodsApi(tmp_path / "dead.sock", FakeClock())
    wrong: list[Exception] = []

    def ask() -> None:
        for _ in range(100):
            try:
                api.list(patient=False)
            except PodsApiError as error:
                if error.code is not grpc.StatusCode.UNAVAILABLE:
                    wrong.append(error)
            except ValueError as error:
                wrong.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [repr(error) for error in wrong] == []
