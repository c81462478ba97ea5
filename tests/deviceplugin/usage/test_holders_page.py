"""``/holders``: shown on the loopback, and nowhere else."""

import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypeVar

import pytest
from prometheus_client import CollectorRegistry

from cluster.objects.pods import Pod
from cluster.process.probes import Probes
from deviceplugin.allocation.pod_devices import PodDevices
from deviceplugin.device_cache import AdvertisedDevices, DeviceCache
from deviceplugin.kubelet.checkpoint import CheckpointError
from deviceplugin.usage.holder_source import HolderSource
from deviceplugin.usage.holders_page import HoldersPage
from tests.deviceplugin.agents import devices
from tests.deviceplugin.pods import held, pod

T = TypeVar("T")


class Node:
    """What an agent reads on its node; changed at will."""

    def __init__(self) -> None:
        self.holdings: PodDevices | None = held(a="GPU-1")
        self.pods: tuple[Pod, ...] | None = (pod("a"),)
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens once, between the first read and the next."""
        self.headers: dict[str, str] = {}
        device_cache = DeviceCache()
        device_cache.put(AdvertisedDevices(devices(2), reported=True))
        self.page = HoldersPage(
            Probes(CollectorRegistry()), HolderSource(device_cache, self, self.read_pods).snapshot
        )

    def read(self) -> PodDevices:
        if self.holdings is None:
            raise CheckpointError("It cannot be read.")
        return self._then(self.holdings)

    def read_pods(self) -> tuple[Pod, ...] | None:
        return self._then(self.pods)

    def _then(self, found: T) -> T:
        change, self.meanwhile = self.meanwhile, lambda: None
        change()
        return found

    def begin(self) -> None:
        """Another pod is bound to this node, and the kubelet gives it a GPU."""
        self.holdings, self.pods = held(a="GPU-1", b="GPU-0"), (pod("a"), pod("b", assignment=["GPU-0"]))

    def ask(self, path: str = "/holders", peer: str = "127.0.0.1", method: str = "GET") -> tuple[int, str]:
        statuses: list[str] = []

        def start_response(status: str, headers: Any, _error: Any = None) -> Any:
            statuses.append(status)
            self.headers = dict(headers)

        environ = {"PATH_INFO": path, "REQUEST_METHOD": method, "REMOTE_ADDR": peer}
        body = b"".join(self.page(environ, start_response))
        return int(statuses[0].split()[0]), body.decode()

    @property
    def content(self) -> dict[str, Any]:
        status, text = self.ask()
        assert status == HTTPStatus.OK
        return dict(json.loads(text))


@pytest.fixture
def node() -> Node:
    return Node()


def test_the_present_holders_are_shown(node: Node) -> None:
    assert [(one["device"], one["pod"]) for one in node.content["holders"]] == [("GPU-1", "pod-a")]
    node.holdings = held(a="GPU-0")
    assert [(one["device"], one["source"]) for one in node.content["holders"]] == [("GPU-0", "kubelet")]


@pytest.mark.parametrize("peer", ["10.0.3.7", "192.168.0.2", "fd00::1", ""])
def test_the_page_is_not_shown_to_other_machines_or_pods(node: Node, peer: str) -> None:
    status, text = node.ask(peer=peer)
    assert status == HTTPStatus.FORBIDDEN
    assert "port-forward" in text
    assert "pod-a" not in text


@pytest.mark.parametrize("peer", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_the_page_is_shown_on_the_loopback_in_every_form_of_its_address(node: Node, peer: str) -> None:
    assert node.ask(peer=peer)[0] == HTTPStatus.OK


def test_an_answer_says_how_long_it_is_and_is_not_stored(node: Node) -> None:
    _, text = node.ask()
    assert node.headers == {
        "Content-Type": "application/json",
        "Content-Length": str(len(text)),
        "Cache-Control": "no-store",
    }


def test_the_probes_are_answered_for_every_caller(node: Node) -> None:
    assert node.ask("/healthz", peer="10.0.3.7") == (HTTPStatus.OK, "ok\n")


def test_the_page_is_read_only(node: Node) -> None:
    assert node.ask(method="POST")[0] == HTTPStatus.METHOD_NOT_ALLOWED
    assert node.ask(method="HEAD") == (HTTPStatus.OK, "")


def test_an_unreadable_checkpoint_is_reported_as_uncertain(node: Node) -> None:
    assert node.content["certain"]
    node.holdings = None
    assert node.content == {"certain": False, "holders": []}


def test_a_pod_that_begins_while_the_page_is_made_is_not_taken_for_one_that_has_ended(node: Node) -> None:
    node.meanwhile = node.begin
    assert [(one["device"], one["pod"]) for one in node.content["holders"]] == [
        ("GPU-0", "pod-b"),
        ("GPU-1", "pod-a"),
    ]


def test_a_holder_that_is_new_while_pods_cannot_be_read_is_shown_without_its_name(node: Node) -> None:
    assert node.content["certain"]
    node.begin()
    node.pods = None
    assert [(one["device"], one["uid"], one["pod"]) for one in node.content["holders"]] == [
        ("GPU-0", "b", ""),
        ("GPU-1", "a", "pod-a"),
    ]


def test_the_pods_that_were_read_last_are_remembered(node: Node) -> None:
    assert len(node.content["holders"]) == 1
    node.begin()
    assert len(node.content["holders"]) == 2
    node.pods = None
    assert [one["pod"] for one in node.content["holders"]] == ["pod-b", "pod-a"]


def test_pods_keep_their_names_while_they_cannot_be_read_for_a_moment(node: Node) -> None:
    assert node.content["holders"][0]["pod"] == "pod-a"
    node.pods = None
    assert node.content["holders"][0]["pod"] == "pod-a"
