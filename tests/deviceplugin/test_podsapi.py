import threading

import grpc
import pytest

from cluster.runtime.clock import Clock
from deviceplugin.podsapi import DEADLINE, PATIENCE, RETRIES, RETRY_EVERY, PodsApi, PodsApiError
from tests.fakes.clock import FakeClock
from tests.fakes.kubelet import FakeKubelet


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


def test_a_flooded_kubelet_is_asked_again(kubelet: FakeKubelet) -> None:
    kubelet.flooded = 5
    clock = FakeClock(self_advancing=True)
    assert pods_api(kubelet, clock).list() == ()
    assert clock.waits == [RETRY_EVERY] * 5


def test_however_busy_the_machine_it_is_asked_once_more(kubelet: FakeKubelet) -> None:
    kubelet.flooded = 1
    assert pods_api(kubelet, BusyMachine(longer=1.0)).list() == ()


def test_patience_with_a_flooded_kubelet_ends_with_its_time_too(kubelet: FakeKubelet) -> None:
    kubelet.flooded = RETRIES + 1
    clock = BusyMachine(longer=PATIENCE / 2)
    with pytest.raises(PodsApiError, match="rejected by rate limit"):
        pods_api(kubelet, clock).list()
    assert kubelet.calls == ["ListPods"] * 3
    assert clock.monotonic() < 2 * PATIENCE


def test_all_calls_for_one_question_share_one_deadline(kubelet: FakeKubelet) -> None:
    kubelet.flooded = 1
    with pytest.raises(PodsApiError, match="rejected by rate limit"):
        pods_api(kubelet, BusyMachine(longer=DEADLINE)).list()
    assert kubelet.calls == ["ListPods"]


def test_patience_with_a_flooded_kubelet_ends(kubelet: FakeKubelet) -> None:
    kubelet.flooded = RETRIES + 1
    with pytest.raises(PodsApiError, match="rejected by rate limit") as refused:
        pods_api(kubelet, FakeClock(self_advancing=True)).list()
    assert refused.value.code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert kubelet.calls == ["ListPods"] * (RETRIES + 1)


def test_a_call_without_patience_is_made_once(kubelet: FakeKubelet) -> None:
    kubelet.flooded = 1
    with pytest.raises(PodsApiError, match="rejected by rate limit"):
        pods_api(kubelet, FakeClock(self_advancing=True)).list(patient=False)
    assert kubelet.calls == ["ListPods"]
