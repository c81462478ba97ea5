import threading

import grpc
import pytest

from cluster.runtime.clock import Clock
from deviceplugin.podsapi import RETRIES, PodsApi, PodsApiError
from tests.fakes.clock import FakeClock
from tests.fakes.kubelet import FakeKubelet


class BusyMachine(FakeClock):
    """A clock on which every wait takes a second longer than asked for."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.advance(1.0)
        return super().wait(event, seconds)


def pods_api(kubelet: FakeKubelet, clock: Clock) -> PodsApi:
    return PodsApi(kubelet.root / "pods-api" / "pods-api.sock", clock)


def test_patience_with_a_flooded_kubelet_is_not_used_up_by_a_busy_machine(kubelet: FakeKubelet) -> None:
    kubelet.flooded = 5
    assert pods_api(kubelet, BusyMachine(self_advancing=True)).list() == ()


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
