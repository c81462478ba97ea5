"""Orders to evict on a real API server: the booking server writes them on pods, and nothing else of a pod."""

import pytest

from cluster import names
from tests.long.controlplane.policies.policed import US, Json, People, Somebody, a_pod, is_denied, pods

pytestmark = pytest.mark.controlplane

ORDER = '{"by":"root","reason":"because","at":"2026-11-27T16:00:00Z"}'
REASON = "The booking server writes"


@pytest.fixture(scope="module")
def server(people: People) -> Somebody:
    """The booking server."""
    return people.account(US, names.BOOKING_SERVER)


def test_l7_the_booking_server_writes_an_order_and_never_withdraws_it(
    people: People, server: Somebody, pod: str
) -> None:
    assert server.change(pod, {"annotations": {names.EVICT: ORDER}}).status == 200
    assert people.root.get(pod).body["metadata"]["annotations"][names.EVICT] == ORDER
    assert server.change(pod, {"annotations": {names.EVICT: ORDER.replace("root", "bob")}}).status == 200
    assert is_denied(server.change(pod, {"annotations": {names.EVICT: None}}), REASON)


@pytest.mark.parametrize(
    "change",
    [
        {"annotations": {names.USER: "bob"}},
        {"annotations": {names.HOLD: None}},
        {"annotations": {names.EVICT: ORDER, "app": "x"}},
        {"annotations": {names.MODEL: "NVIDIA-L4"}},
        {"labels": {"app": "x"}},
        {"labels": {names.COMEBACK: None}},
        {"finalizers": []},
    ],
    ids=str,
)
def test_l7_the_booking_server_changes_nothing_but_the_order(
    people: People, server: Somebody, pod: str, change: Json
) -> None:
    before = people.root.get(pod).kept
    answer = server.change(pod, change)
    assert is_denied(answer, REASON) or is_denied(answer, "Only GPU Booking writes"), answer
    assert people.root.get(pod).kept == before


def test_l7_the_booking_server_writes_an_order_by_no_other_request(
    people: People, server: Somebody, pod: str
) -> None:
    order = {"annotations": {names.EVICT: ORDER}}
    assert server.change(f"{pod}/status", order).status == 403
    assert server.create(pods(), a_pod(gpus=0)).status == 403
    assert names.EVICT not in people.root.get(pod).body["metadata"]["annotations"]


def test_l7_only_administrators_write_orders_besides_the_booking_server(people: People, pod: str) -> None:
    order = {"annotations": {names.EVICT: ORDER}}
    for somebody in (people.alice, people.operator):
        assert is_denied(somebody.change(pod, order), "Only GPU Booking writes")
    assert people.administrator.change(pod, order).status == 200
